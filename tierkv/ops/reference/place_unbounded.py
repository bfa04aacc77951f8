"""Everything stays: the bound no policy can beat."""

from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.tables import live_rows, occupy, record


def place_unbounded(
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
    """Give each miss the slot of its own number; `tables` are slot_of and id_at, P >= positions."""
    slot_of, id_at = tables
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        occupy(slot_of, id_at, lane, ids, ids)
        record(row, ids, slot, count, counters, Counter.BYPASSED)
