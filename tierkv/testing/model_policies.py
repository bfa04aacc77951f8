"""The built-in placements in dictionaries and lists, one lane each.

A policy of your own needs no model: the contracts check its tables, not its taste.
"""

from collections.abc import Callable

from tierkv.constants import HASH_MULTIPLIER, SECOND_HASH_MULTIPLIER
from tierkv.testing.model import RowPlan
from tierkv.testing.model_queues import ArcModel, S3FifoModel, SieveModel
from tierkv.testing.model_residency import Residency


class SetFifoModel(Residency):
    """One id after the other takes the way under its set's hand."""

    refused = "superseded"

    def __init__(self, slots: int, ways: int = 16, hash: str = "multiplicative") -> None:
        super().__init__(slots)
        self.ways, self.sets, self.hash = ways, slots // ways, hash
        self.hand = [0] * self.sets

    def home(self, id: int) -> int:
        """Give the set of an id."""
        if self.hash == "low-bits":
            return id % self.sets
        return (id * HASH_MULTIPLIER % 2**32) * self.sets // 2**32

    def place(self, plan: RowPlan) -> None:
        for id in plan.misses:
            home = self.home(id)
            self.id_at[home * self.ways + self.hand[home]] = id
            self.hand[home] = (self.hand[home] + 1) % self.ways


def fifo_model(slots: int) -> Residency:
    """Make the one-set case of set-fifo."""
    return SetFifoModel(slots, ways=slots)


class ClockModel(SetFifoModel):
    """The first way from the hand on that is neither visited nor hit in this step."""

    def __init__(self, slots: int, ways: int | str = 64, hash: str = "multiplicative") -> None:
        super().__init__(slots, slots if isinstance(ways, str) else ways, hash)
        self.visited: set[int] = set()
        """Slots."""

    def place(self, plan: RowPlan) -> None:
        touched = {self.slot_of[id] for id in plan.hits()}
        for id in plan.misses:
            home = self.home(id)
            ring = [
                home * self.ways + (self.hand[home] + step) % self.ways for step in range(self.ways)
            ]
            passed = next((n for n, s in enumerate(ring) if s not in self.visited | touched), None)
            if passed is None:  # nobody is idle: all lose their visited bit, hits still stay
                self.visited -= set(ring)
                passed = next((n for n, s in enumerate(ring) if s not in touched), 0)
            self.visited -= {*ring[: passed + 1]}
            touched.discard(ring[passed])
            self.id_at[ring[passed]] = id
            self.hand[home] = (ring[passed] + 1) % self.ways
        self.visited |= touched

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        self.visited &= set(self.id_at)


class LruModel(Residency):
    """The last P of [resident, not selected | misses | hit in this step]."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.order: list[int] = []
        """Ids from least to most recent."""

    def place(self, plan: RowPlan) -> None:
        hits, slot_of = plan.hits(), self.slot_of
        idle = [id for id in self.order if id not in hits]
        hit = [id for id in self.order if id in hits]
        wanted = [*idle, *plan.misses, *hit][-self.slots :]
        leaving = [id for id in self.order if id not in wanted]
        free = [slot for slot in range(self.slots) if slot not in self.id_at]
        taken = iter([*free, *(slot_of[id] for id in leaving)])
        for id in plan.misses:
            if id in wanted:
                self.id_at[next(taken)] = id
        self.order = wanted

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        self.order = [id for id in self.order if id < from_position]


class LastStepModel(Residency):
    """Exactly the stable ids of the last live query."""

    def place(self, plan: RowPlan) -> None:
        last = plan.last()
        self.id_at = {slot: id for slot, id in self.id_at.items() if id in last}
        free = iter([slot for slot in range(self.slots) if slot not in self.id_at])
        for id in plan.misses:
            if id in last:
                self.id_at[next(free)] = id


class SetLruModel(Residency):
    """Of two sets the slot that was not used for longest, by step."""

    def __init__(self, slots: int, ways: int = 16) -> None:
        super().__init__(slots)
        self.ways, self.sets, self.step = ways, slots // ways, 0
        self.used = dict.fromkeys(range(slots), -1)
        self.multipliers = (HASH_MULTIPLIER, SECOND_HASH_MULTIPLIER)

    def place(self, plan: RowPlan) -> None:
        self.used.update((self.slot_of[id], self.step) for id in plan.hits())
        for id in plan.misses:
            homes = [id * m % 2**32 * self.sets // 2**32 for m in self.multipliers]
            ways = [home * self.ways + way for home in homes for way in range(self.ways)]
            slot = min(ways, key=lambda slot: self.used[slot])
            if self.used[slot] < self.step:
                self.id_at[slot], self.used[slot] = id, self.step
        self.step += 1

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        self.used.update((slot, -1) for slot in self.used if slot not in self.id_at)


class UnboundedModel(Residency):
    """Everybody, each in the slot of its own number."""

    def place(self, plan: RowPlan) -> None:
        self.id_at.update((id, id) for id in plan.misses)


MODELS: dict[str, Callable[..., Residency]] = {
    "set-fifo": SetFifoModel,
    "fifo": fifo_model,
    "clock": ClockModel,
    "lru": LruModel,
    "set-lru": SetLruModel,
    "sieve": SieveModel,
    "s3-fifo": S3FifoModel,
    "arc": ArcModel,
    "last-step": LastStepModel,
    "unbounded": UnboundedModel,
}
"""Registered name -> its model, made from the number of slots and the policy's options."""
