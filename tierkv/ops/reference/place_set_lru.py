"""LRU within sets, two sets to choose from."""

import torch
from torch import Tensor

from tierkv.constants import SECOND_HASH_MULTIPLIER, Counter
from tierkv.ops.reference.tables import hit_slots, live_rows, occupy, record, set_of


def place_set_lru(
    lanes: Tensor,
    kind: Tensor,
    index: Tensor,
    miss_id: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    tables: list[Tensor],
    slot: Tensor,
    count: Tensor,
    counters: Tensor,
) -> None:
    """Give each miss the slot of its two sets that was not used for longest.

    `tables` are slot_of [lanes, positions], id_at [lanes, P], used [lanes, sets, ways] int32, the
    step that last hit or filled a slot, -1 if it is free, and now [lanes, 1] int32, the number of
    the next step. Slot is ``set * ways + way``.

    Hits count as used first. Of equal slots that of the first set is taken, and in a set that of
    the lowest way. A miss whose two sets were wholly used in this step is not kept.
    """
    slot_of, id_at, used, now = tables
    _, sets, ways = used.shape
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids, step = miss_id[row, : int(miss_count[row])].long(), int(now[lane])
        used[lane].view(-1)[hit_slots(kind[row], index[row])] = step
        stamps: list[list[int]] = used[lane].tolist()
        second = (ids * SECOND_HASH_MULTIPLIER) % 2**32 * sets >> 32
        taken = []
        for homes in zip(set_of(ids, sets, 0).tolist(), second.tolist(), strict=True):
            home = min(homes, key=lambda s: min(stamps[s]))
            way = stamps[home].index(min(stamps[home]))
            taken.append(home * ways + way if stamps[home][way] < step else -1)
            stamps[home][way] = step
        used[lane] = used.new_tensor(stamps)
        now[lane] = step + 1
        slots = torch.tensor(taken, dtype=torch.int64, device=ids.device)
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.BYPASSED)
