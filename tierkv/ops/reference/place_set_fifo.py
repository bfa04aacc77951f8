"""Set-associative FIFO, the published GLM-5.2 scheme; FIFO is its one-set case."""

import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.tables import live_rows, occupy, record, set_of


def place_set_fifo(
    lanes: Tensor,
    kind: Tensor,
    index: Tensor,
    miss_id: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    hashing: int,
    tables: list[Tensor],
    slot: Tensor,
    count: Tensor,
    counters: Tensor,
) -> None:
    """Give each miss the way under its set's hand; the hand moves on by one.

    `tables` are slot_of [lanes, positions], id_at [lanes, P], hand [lanes, sets] int32.
    """
    slot_of, id_at, hand = tables
    sets = hand.shape[1]
    ways = id_at.shape[1] // sets
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        home = set_of(ids, sets, hashing)
        total = torch.bincount(home, minlength=sets)
        rank = _rank(home)
        way = (hand[lane, home] + rank) % ways
        # Of more than `ways` misses of one set, the last `ways` remain.
        slots = torch.where(rank >= total[home] - ways, home * ways + way, -1)
        hand[lane] = (hand[lane] + total) % ways
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.SUPERSEDED)


def _rank(home: Tensor) -> Tensor:
    """Give for each entry [n] how many earlier ones have the same value."""
    value, order = home.sort(stable=True)
    place = torch.arange(len(home), device=home.device)
    head = torch.ones_like(value, dtype=torch.bool)
    head[1:] = value[1:] != value[:-1]
    start = torch.where(head, place, 0).cummax(0).values if len(home) else place
    return torch.empty_like(place).scatter_(0, order, place - start)
