"""Least recently used, one step at a time."""

import torch
from torch import Tensor

from tierkv.constants import Counter
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

    `tables` are slot_of [lanes, positions], id_at [lanes, P], and order [lanes, P] int32, the
    occupied slots from least to most recent, then -1.
    """
    slot_of, id_at, order = tables
    capacity = id_at.shape[1]
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        used = order[lane][order[lane] >= 0].long()
        hit = torch.isin(used, hit_slots(kind[row], index[row]))
        kept = min(len(ids), capacity - int(hit.sum()))
        free = free_slots(id_at, lane)
        leaving = used[~hit][: max(kept - len(free), 0)]

        slots = torch.full_like(ids, -1)
        slots[len(ids) - kept :] = torch.cat([free, leaving])[:kept]
        occupy(slot_of, id_at, lane, ids, slots)

        recency = torch.cat([used[~hit][len(leaving) :], slots[slots >= 0], used[hit]])
        order[lane] = -1
        order[lane, : len(recency)] = recency.to(order.dtype)
        record(row, slots, slot, count, counters, Counter.BYPASSED)
