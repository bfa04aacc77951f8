"""CLOCK within sets, decided step by step."""

import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.tables import hit_slots, live_rows, occupy, record, set_of, settled

WORD = 64
"""Ways in one word of ``visited``."""


def place_clock(
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
    """Give each miss the first way from its set's hand on that is neither visited nor touched.

    `tables` are slot_of [lanes, positions], id_at [lanes, P], hand [lanes, sets] int32, and
    visited [lanes, sets, words] int64, where bit ``w % 64`` of word ``w // 64`` is way ``w``.
    A set has ``P // sets`` ways, any number.

    A way is touched if this step hits it: it leaves only if all ways of its set were hit. The hand
    takes the visited bit off the ways it passes; a newcomer starts unvisited; what was touched is
    visited after the step. A free way is neither, so the hand takes it where it meets it: free
    slots are not used first.
    """
    slot_of, id_at, hand, visited = tables
    sets = hand.shape[1]
    ways = id_at.shape[1] // sets
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        hits = hit_slots(kind[row], index[row]).tolist()
        home = set_of(ids, sets, hashing).tolist()
        clocks = {
            s: _Clock(ways, hand[lane, s], visited[lane, s]) for s in {*home, *_sets(hits, ways)}
        }
        for place in hits:
            clocks[place // ways].touched |= 1 << place % ways
        taken = [s * ways + clocks[s].advance() for s in home]
        for clock in clocks.values():
            clock.store()
        slots = settled(ids, taken)
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.SUPERSEDED)


def _sets(slots: list[int], ways: int) -> set[int]:
    return {place // ways for place in slots}


class _Clock:
    """One set during one step. Bits of whole numbers are ways; way 0 is bit 0."""

    def __init__(self, ways: int, hand: Tensor, visited: Tensor) -> None:
        self.ways, self.all = ways, (1 << ways) - 1
        self._hand, self._visited = hand, visited
        self.hand, self.touched = int(hand), 0
        words = [word % 2**WORD for word in visited.tolist()]
        self.visited = sum(word << WORD * i for i, word in enumerate(words))

    def advance(self) -> int:
        """Move the hand to the next victim and past it; give its way."""
        seen, hit = self._right(self.visited), self._right(self.touched)
        if seen | hit != self.all:
            passed = _first_clear(seen | hit)
            seen = seen >> passed << passed
        else:
            passed = 0 if hit == self.all else _first_clear(hit)
            seen = 0
        way = (self.hand + passed) % self.ways
        self.visited = self._left(seen) & ~(1 << way)
        self.touched &= ~(1 << way)
        self.hand = (way + 1) % self.ways
        return way

    def store(self) -> None:
        """Write the tables; what was touched is visited from now on."""
        self._hand.fill_(self.hand)
        bits = self.visited | self.touched
        words = [(bits >> WORD * i) % 2**WORD for i in range(len(self._visited))]
        signed = [word - 2**WORD if word >= 2 ** (WORD - 1) else word for word in words]
        self._visited.copy_(torch.tensor(signed, dtype=torch.int64))

    def _right(self, bits: int) -> int:
        """Rotate so that the way under the hand is bit 0."""
        return (bits >> self.hand | bits << self.ways - self.hand) & self.all

    def _left(self, bits: int) -> int:
        return (bits << self.hand | bits >> self.ways - self.hand) & self.all


def _first_clear(bits: int) -> int:
    return (~bits & bits + 1).bit_length() - 1
