"""Random steps in which more happens than in a plain one."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from tierkv.errors import CapacityError
from tierkv.testing.assemble import Shape
from tierkv.testing.driver import Driver, Size
from tierkv.testing.model import Row
from tierkv.testing.open_step import Ids
from tierkv.testing.workload import PADDING, Drawn, Workload

NAMES: tuple[Hashable, ...] = (
    -1, -2, "plumless", "buckeroo", ("tenant", 1), ("tenant", 2), 2**61 - 2, "", None, 0,
)  # fmt: skip
"""Of requests: -1 and -2 have one hash, as have -2 and ``2**61 - 2`` in some builds; the two words
have one CRC-32."""


class Stepping(Workload):
    """Draws steps for a :class:`Driver`: with other calls in them, two at once, drafts, reuse."""

    def __init__(self, driver: Driver, shape: Shape, seed: int) -> None:
        super().__init__(driver, shape, seed)
        self.driver = driver

    def batch_size(self) -> int:
        return self.random.randint(1, self.shape.batch)

    def busy_step(self) -> None:
        """Make a step while other requests come, go and are prefilled."""
        rows, ids = self._batch()
        self.driver.during = lambda: self._meanwhile(rows)
        self.driver.step(rows, ids)
        self.steps += 1

    def two_steps(self) -> None:
        """Let two steps be open at once, on lanes of their own, their calls in any order."""
        while len(self.driver.requests) < 2:
            self.admit()
        first = self.random.randint(1, self.shape.lanes - 1)
        second = self.random.randint(1, self.shape.lanes - first)
        sizes = [(batch, self.random.choice([1, self.shape.queries])) for batch in (first, second)]
        requests = self._requests()
        halves = requests[:first], requests[first:]
        batches = [self._draw(half, *size) for half, size in zip(halves, sizes, strict=True)]
        if self.random.random() < 0.3:
            rows = batches[0][0] + batches[1][0]
            self.driver.during = lambda: self._meanwhile(rows)
        if self._side_by_side(batches, sizes) and self.random.random() < 0.3:
            self.driver.reusing = True
            try:
                self._side_by_side([self._next(*batch) for batch in batches], sizes)
            finally:
                self.driver.reusing = False

    def _side_by_side(self, batches: Sequence[Drawn], sizes: Sequence[Size]) -> bool:
        steppers = self.driver.pair(*sizes)
        calls = []
        for stepper, (rows, ids) in zip(steppers, batches, strict=True):
            stop = self._stop(ids) if self.random.random() < 0.15 else None
            calls.append(self.driver.calls(stepper, rows, ids, stop))
        self.steps += 2
        return self.driver.run(calls, self.random.choice)

    def _next(self, rows: Sequence[Row], ids: Mapping[int, Ids]) -> Drawn:
        """Give the same batch as many tokens on as each row has queries, and new ids."""
        rows = [
            replace(row, kv_len=row.kv_len + row.q_len, stable=row.kv_len)
            if row.kv_len + row.q_len <= self.shape.max_tokens
            else PADDING
            for row in rows
        ]
        queries = len(next(iter(ids.values()))[0])
        return rows, {group: self._ids(rows, queries) for group in ids}

    def _meanwhile(self, rows: Sequence[Row]) -> None:
        """Make a call on a request that is not in these rows."""
        lanes = {row.lane for row in rows}
        idle = [name for name, known in self.driver.requests.items() if known.lane not in lanes]
        try:
            if idle and self.random.random() < 0.3:
                self.driver.release(idle.pop())
            elif idle:
                name = self.random.choice(idle)
                request = self.driver.requests[name]
                if self.random.random() < 0.3:
                    self.driver.truncate(name, self.random.randint(0, max(request.length)))
                end = min(max(request.length) + 5, self.shape.max_tokens)
                self.driver.prefill(name, request.length, end)
            elif self._has_room():
                self.driver.admit(self._name(), self.random.randint(0, 20))
        except CapacityError:
            return  # nothing was changed

    def draft(self) -> None:
        """Let the last group draft token by token, ``stable`` held back; then verify or reject."""
        group = len(self.shape.groups) - 1
        requests = [r for r in self.driver.requests.values() if r.length[group] >= r.stable[group]]
        requests = requests[: self.random.randint(1, self.shape.batch)]
        verified = [request.length[group] for request in requests]
        room = self.shape.max_tokens - max(verified, default=self.shape.max_tokens)
        for step in range(1, min(self.random.randint(1, 3), room) + 1):
            rows = [
                Row(request.lane, known + step, 1, known)
                for request, known in zip(requests, verified, strict=True)
            ]
            ids = [[[self._id(row) for _ in range(self.shape.top_k)]] for row in rows]
            self.driver.reusing = self.random.random() < 0.5
            try:
                if not self.driver.step(rows, {group: ids}):
                    return
            finally:
                self.driver.reusing = False
            self.steps += 1

    def reusing_step(self) -> None:
        """Make a step that uses selections again where that is exact."""
        self.driver.reusing = True
        try:
            self.step()
        finally:
            self.driver.reusing = False

    def _has_room(self) -> bool:
        return len(self.driver.requests) < self.shape.lanes

    def _name(self) -> Hashable:
        return self.random.choice([n for n in NAMES if n not in self.driver.requests])
