"""Keep the last selection only, as the DeepSeek V3.2 gather does."""

import torch
from torch import Tensor

from tierkv.constants import Counter, Kind
from tierkv.ops.reference.tables import free_slots, live_rows, occupy, record


def place_last_step(
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
    """Leave resident exactly the stable ids of each row's last query.

    `tables` are slot_of [lanes, positions] and id_at [lanes, P], P at least K.
    """
    slot_of, id_at = tables
    per_query = kind.shape[2]
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        last_kind, last_index = kind[row, -1], index[row, -1].long()
        staying = torch.zeros_like(id_at[lane], dtype=torch.bool)
        staying[last_index[last_kind == Kind.HIT]] = True
        vacated = (id_at[lane] >= 0) & ~staying
        slot_of[lane, id_at[lane][vacated].long()] = -1
        id_at[lane, vacated] = -1

        ids = miss_id[row, : int(miss_count[row])].long()
        first = miss_from[row, : len(ids)].long()  # a miss is kept if the last query selects it
        kept = torch.isin(first, last_index[last_kind == Kind.REPEAT])
        kept |= first >= (kind.shape[1] - 1) * per_query
        slots = torch.full_like(ids, -1)
        slots[kept] = free_slots(id_at, lane)[: int(kept.sum())]
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.BYPASSED)
