"""Placements that keep queues, in lists of ids."""

from abc import abstractmethod

from tierkv.constants import Kind
from tierkv.testing.model import RowPlan
from tierkv.testing.model_residency import Residency


class QueueModel(Residency):
    """One id after the other takes a free slot, or that of the one that :meth:`evict` chooses."""

    refused = "superseded"

    def enter(self, id: int) -> None:
        """Let an id in."""
        free = [slot for slot in range(self.slots) if slot not in self.id_at]
        if not free:
            slot_of = self.slot_of
            free = [slot_of[self.evict(id)]]
        self.id_at[free[0]] = id

    @abstractmethod
    def evict(self, id: int) -> int:
        """Choose who leaves for `id`."""


class SieveModel(QueueModel):
    """Arrival order; the hand stops at the first that is neither visited nor hit in this step."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.queue: list[int] = []
        self.hand: int | None = None
        self.visited: set[int] = set()
        self.touched: set[int] = set()

    def place(self, plan: RowPlan) -> None:
        self.touched = plan.hits()
        for id in plan.misses:
            self.enter(id)
            self.queue.append(id)
        self.visited |= self.touched

    def evict(self, id: int) -> int:
        at = 0 if self.hand is None else self.queue.index(self.hand)
        while not self.touched >= {*self.queue} and self.queue[at] in self.visited | self.touched:
            self.visited.discard(self.queue[at])
            at = (at + 1) % len(self.queue)
        leaving = self.queue.pop(at)
        self.hand = self.queue[at] if at < len(self.queue) else None
        self.visited.discard(leaving)
        self.touched.discard(leaving)
        return leaving

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        at = 0 if self.hand is None else self.queue.index(self.hand)
        ahead = [id for id in self.queue[at:] if id < from_position]
        self.hand = ahead[0] if ahead and self.hand is not None else None
        self.queue = [id for id in self.queue if id < from_position]
        self.visited = {id for id in self.visited if id < from_position}


class S3FifoModel(QueueModel):
    """Small queue, main queue and ghosts, one id after the other, hits first."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghosts: list[int] = []
        self.uses: dict[int, int] = {}
        self.share, self.full = max(slots // 10, 1), False

    def place(self, plan: RowPlan) -> None:
        for id in plan.hits():
            self.uses[id] = min(self.uses[id] + 1, 3)
        for id in plan.misses:
            known = id in self.ghosts
            self.ghosts = [ghost for ghost in self.ghosts if ghost != id]
            self.enter(id)
            filling = not self.full and len(self.small) >= self.share
            (self.main if known or filling else self.small).append(id)
            self.uses[id] = 0

    def evict(self, id: int) -> int:
        self.full = True
        if len(self.main) <= self.slots - self.share:
            while self.small:
                leaving = self.small.pop(0)
                if self.uses[leaving] < 2:
                    self.ghosts = [*self.ghosts, leaving][-(self.slots * 9 // 10) :]
                    return leaving
                self.uses[leaving] = 0
                self.main.append(leaving)
        while self.uses[self.main[0]]:
            self.uses[self.main[0]] -= 1
            self.main.append(self.main.pop(0))
        return self.main.pop(0)

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        for ids in (self.small, self.main, self.ghosts):
            ids[:] = [id for id in ids if id < from_position]
        self.full = self.full and from_position > 0


class ArcModel(QueueModel):
    """The lists of the paper, one id after the other, hits first and in the order selected."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.t1: list[int] = []
        self.t2: list[int] = []
        self.b1: list[int] = []
        self.b2: list[int] = []
        self.p = 0

    def place(self, plan: RowPlan) -> None:
        hits = [e.id for query in plan.entries for e in query if e.kind == Kind.HIT]
        for id in dict.fromkeys(hits):
            (self.t1 if id in self.t1 else self.t2).remove(id)
            self.t2.append(id)
        for id in plan.misses:
            known = id in self.b1 + self.b2
            if id in self.b1:
                self.p = min(self.p + max(len(self.b2) // len(self.b1), 1), self.slots)
            if id in self.b2:
                self.p = max(self.p - max(len(self.b1) // len(self.b2), 1), 0)
            if not known:
                self._trim()
            self.enter(id)
            for ghosts in (self.b1, self.b2):
                ghosts[:] = [ghost for ghost in ghosts if ghost != id]
            (self.t2 if known else self.t1).append(id)

    def _trim(self) -> None:
        if len(self.t1 + self.b1) == self.slots:
            del self.b1[:1]
        elif len(self.t1 + self.t2 + self.b1 + self.b2) == 2 * self.slots:
            del self.b2[0]

    def evict(self, id: int) -> int:
        if len(self.t1) == self.slots and id not in self.b1 + self.b2:
            return self.t1.pop(0)  # of the whole pool nothing was used twice: no ghost
        more = len(self.t1) > self.p or (id in self.b2 and len(self.t1) == self.p)
        one, gone = (self.t1, self.b1) if (self.t1 and more) or not self.t2 else (self.t2, self.b2)
        gone.append(one.pop(0))
        return gone[-1]

    def forget(self, from_position: int) -> None:
        super().forget(from_position)
        for ids in (self.t1, self.t2, self.b1, self.b2):
            ids[:] = [id for id in ids if id < from_position]
        self.p = self.p if from_position else 0
