"""Random serving: what a scheduler, a model and a draft head might ask of a cache."""

import random
from collections.abc import Hashable, Iterable, Sequence

from tierkv.errors import CapacityError
from tierkv.testing.assemble import Shape
from tierkv.testing.harness import Harness
from tierkv.testing.ledger import Request
from tierkv.testing.model import Row
from tierkv.testing.open_step import Ids

PADDING = Row(lane=-1, kv_len=7, q_len=2, stable=3)
"""A row that must leave no trace, whatever its numbers."""

Drawn = tuple[list[Row], dict[int, Ids]]
"""Rows, and the ids of each group that their step touches."""


class Workload:
    """Draws calls and makes them on a harness; the same seed draws the same.

    A hot set of each lane makes hits likely, a few odd ids (repeated, negative, future, huge) keep
    the planner honest, drafts are rejected now and then, and some steps are interrupted.
    """

    def __init__(self, harness: Harness, shape: Shape, seed: int) -> None:
        self.harness, self.shape = harness, shape
        self.random = random.Random(seed)
        self.steps = 0
        self._named = 0

    def run(self, steps: int) -> None:
        """Make calls until so many steps have ended well."""
        while self.steps < steps:
            self.turn()

    def turn(self) -> None:
        """Make one call and compare."""
        calls = {
            self.step: 72, self.interrupted_step: 4, self.admit: 7, self.fork: 3,
            self.prefill: 5, self.truncate: 3, self.read: 3, self.release: 3,
        }  # fmt: skip
        (call,) = self.random.choices(list(calls), list(calls.values()))
        used = self.harness.cache.stats().pages_used
        try:
            call()
        except CapacityError:
            assert self.harness.cache.stats().pages_used == used, "a refused call took pages"
            self.release()
        self.harness.check()

    def admit(self) -> None:
        """Admit a request, its name not always text, and prefill it."""
        if len(self.harness.requests) == self.shape.lanes:
            return
        name = self._name()
        tokens = self.random.randint(0, self.shape.max_tokens // 2)
        self.harness.admit(name, tokens, self.random.choice([0, tokens]))

    def fork(self) -> None:
        """Let a request go two ways; what either writes must not be seen by the other."""
        if 0 < len(self.harness.requests) < self.shape.lanes:
            self.harness.fork(self._any()[0], self._name())

    def prefill(self) -> None:
        """Extend a request from somewhere behind what is stable."""
        if self.harness.requests:
            name, request = self._any()
            end = min(max(request.length) + self.random.randint(0, 12), self.shape.max_tokens)
            spans = zip(request.stable, request.length, strict=True)
            self.harness.prefill(name, [self.random.randint(*span) for span in spans], end)

    def truncate(self) -> None:
        """Take tokens back; a second time changes nothing."""
        if self.harness.requests:
            name, request = self._any()
            length = self.random.randint(max(0, max(request.length) - 20), max(request.length))
            self.harness.truncate(name, length)
            self.harness.truncate(name, max(request.length))

    def release(self) -> None:
        """End a request."""
        if self.harness.requests:
            self.harness.release(self._any()[0])

    def read(self) -> None:
        """Read a range of a layer."""
        if self.harness.requests:
            name, request = self._any()
            group = self.random.randrange(len(self.shape.groups))
            stop = self.random.randint(0, request.length[group])
            layer = self.random.choice(self.shape.groups[group])
            self.harness.read(name, layer, self.random.randint(0, stop), stop)

    def step(self) -> None:
        """Make a step."""
        rows, ids = self._batch()
        self.harness.step(rows, ids)
        self.steps += 1

    def interrupted_step(self) -> None:
        """Make a step that raises somewhere."""
        rows, ids = self._batch()
        self.harness.step(rows, ids, self._stop(ids))

    def _stop(self, groups: Iterable[int]) -> tuple[int, str]:
        layer = self.random.choice(self.shape.groups[self.random.choice(list(groups))])
        return layer, self.random.choice(["append", "select"])

    def _name(self) -> Hashable:
        self._named += 1
        return self.random.choice([f"request-{self._named}", self._named, ("tenant", self._named)])

    def _any(self) -> tuple[Hashable, Request]:
        return self.random.choice(list(self.harness.requests.items()))

    def _requests(self) -> list[Request]:
        """Give all of them in any order."""
        requests = list(self.harness.requests.values())
        self.random.shuffle(requests)
        return requests

    def _batch(self) -> Drawn:
        return self._draw(self._requests(), self.batch_size(), self.shape.queries)

    def _draw(self, requests: Sequence[Request], batch: int, queries: int) -> Drawn:
        """Draw rows in any order with padding anywhere, and the groups to touch, mostly all."""
        groups = list(range(len(self.shape.groups)))
        if self.random.random() < 0.2:
            groups = sorted(self.random.sample(groups, self.random.randint(1, len(groups))))
        rows = [self._row(request, groups, queries) for request in requests[:batch]]
        rows += [PADDING] * (batch - len(rows))
        if self.random.random() < 0.2:
            rows[self.random.randrange(len(rows))] = PADDING
        self.random.shuffle(rows)
        return rows, {group: self._ids(rows, queries) for group in groups}

    def batch_size(self) -> int:
        """Give the rows of the next batch."""
        return self.shape.batch

    def _row(self, request: Request, groups: Sequence[int], queries: int) -> Row:
        low = max(request.stable[group] for group in groups)
        high = min(*(request.length[group] for group in groups), self.shape.max_tokens - 1)
        if low > high:  # groups have drifted apart; a prefill brings them together
            return PADDING
        accepted = self.random.random() < 0.6
        first = high if accepted else self.random.randint(low, high)
        q_len = self.random.randint(1, queries)
        kv_len = min(first + q_len, self.shape.max_tokens)
        if first == 0 and self.random.random() < 0.5:
            kv_len = self.random.randint(0, q_len)  # a row may be shorter than its queries
        first = max(kv_len - q_len, 0)
        if first < low:
            return PADDING
        stable = first if self.random.random() < 0.7 else self.random.randint(low, first)
        return Row(request.lane, kv_len, q_len, stable)

    def _ids(self, rows: Sequence[Row], queries: int) -> Ids:
        return [
            [[self._id(row) for _ in range(self.shape.top_k)] for _ in range(queries)]
            for row in rows
        ]

    def _id(self, row: Row) -> int:
        draw, visible = self.random.random(), max(row.kv_len, 1)
        if draw < 0.55:
            return (row.lane * 7 + self.random.randrange(10) * 5) % visible
        if draw < 0.85:
            return self.random.randrange(visible)
        if draw < 0.95:
            return -1
        return self.random.choice([visible, visible + 1, 2**31 - 1, -7, -(2**31)])
