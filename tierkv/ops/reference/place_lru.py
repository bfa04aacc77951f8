"""Least recently used, one step at a time."""

import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.queue import Queue
from tierkv.ops.reference.tables import free_slots, hit_slots, live_rows, occupy, record


def place_lru(
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
    """Keep the last P of [resident, not selected | misses as offered | hit in this step].

    `tables` are slot_of [lanes, positions], id_at [lanes, P], and a queue of the occupied slots
    from least to most recent: items [lanes, 2 P], at [lanes, P], ends [lanes, 3], all int32.
    """
    slot_of, id_at, items, at, ends = tables
    capacity = id_at.shape[1]
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        queue = Queue(items[lane], ends[lane], at[lane])
        hits = {*hit_slots(kind[row], index[row]).tolist()}
        idle, hit = [s for s in queue if s not in hits], [s for s in queue if s in hits]
        kept = min(len(ids), capacity - len(hit))
        free = free_slots(id_at, lane).tolist()
        leaving = idle[: max(kept - len(free), 0)]
        taken = [*free, *leaving][:kept]

        slots = torch.full_like(ids, -1)
        slots[len(ids) - kept :] = ids.new_tensor(taken)
        occupy(slot_of, id_at, lane, ids, slots)
        for moved in (*hit, *leaving):
            queue.remove(moved)
        queue.append([*taken, *hit])
        queue.store()
        record(row, slots, slot, count, counters, Counter.BYPASSED)
