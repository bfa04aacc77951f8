"""Random traffic of a whole serving engine, call by call."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from tierkv.errors import CapacityError, TierKVError
from tierkv.testing.assemble import Shape
from tierkv.testing.audit import PageAudit
from tierkv.testing.driver import Driver, Size
from tierkv.testing.model import Row
from tierkv.testing.open_step import Ids
from tierkv.testing.workload import PADDING, Drawn, Workload

NAMES: tuple[Hashable, ...] = (
    -1, -2, "plumless", "buckeroo", ("tenant", 1), ("tenant", 2), 2**61 - 2, "", None, 0,
)  # fmt: skip
"""Of requests: -1 and -2 have one hash, as have -2 and ``2**61 - 2`` in some builds; the two words
have one CRC-32."""


class Traffic(Workload):
    """Draws calls for a :class:`Driver`: adds prompts, drafts, preemption, warm starts, faults."""

    def __init__(self, driver: Driver, shape: Shape, seed: int) -> None:
        super().__init__(driver, shape, seed)
        self.driver = driver
        self.audit = None if driver.engine else PageAudit(driver.cache)

    def turn(self) -> None:
        """Make one call and compare."""
        calls = {
            self.step: 30, self.busy_step: 10, self.reusing_step: 10, self.draft: 10,
            self.two_steps: 10, self.interrupted_step: 4, self.fault: 3, self.admit: 5,
            self.admit_prompt: 5, self.fork: 3, self.prefill: 5, self.truncate: 3,
            self.preempt: 3, self.release: 2, self.warm: 3, self.look: 2,
        }  # fmt: skip
        (call,) = self.random.choices(list(calls), list(calls.values()))
        self.perform(call)

    def perform(self, call: Callable[[], None]) -> None:
        """Make one call, preempting where it does not fit, and compare."""
        try:
            call()
        except CapacityError:
            self.preempt()
        except TierKVError as error:
            raise AssertionError(f"a right call was refused: {error}") from error
        self.driver.check()
        if self.audit:
            self.audit.check_holders()

    def batch_size(self) -> int:
        return self.random.randint(1, self.shape.batch)

    def admit(self) -> None:
        if self._has_room():
            tokens = self.random.randint(0, self.shape.max_tokens // 2)
            self.driver.admit(self._name(), tokens, self.random.choice([0, tokens]))

    def admit_prompt(self) -> None:
        """Admit a request whose prompt may begin as another's, and compute the rest of it."""
        if self.driver.engine or not self._has_room():
            return
        name, page = self._name(), self.shape.page
        tokens = [self.random.randint(0, 1)] * page + [self.random.randint(0, 1)] * page
        tokens += [self.random.randint(0, 1)] * self.random.randint(1, page)
        salt = self.random.choice([None, "tenant"])
        self.driver.admit_prompt(name, tokens[self.random.choice([0, 0, 0, page]) :], salt)
        self.compute(name)

    def compute(self, name: Hashable) -> None:
        """Prefill what is left of a prompt, in chunks, perhaps not all of it."""
        groups = len(self.shape.groups)
        end = len(self.driver.prompts[name][0])
        while (length := max(self.driver.requests[name].length)) < end:
            stop = min(length + self.random.randint(1, self.shape.page), end)
            self.driver.prefill(name, [length] * groups, stop)
            if self.random.random() < 0.05:
                return

    def fork(self) -> None:
        if not self.driver.engine and self.driver.requests and self._has_room():
            self.driver.fork(self._any()[0], self._name())

    def preempt(self) -> None:
        """Take a request's lane, and start it again with what it had written, if it fits."""
        if not self.driver.requests:
            return
        name, request = self._any()
        length, prompt = max(request.length), self.driver.prompts.get(name)
        self.driver.release(name)
        try:
            if prompt:
                self.driver.admit_prompt(name, *prompt)
                self.compute(name)
            else:
                self.driver.admit(name, length)
        except CapacityError:
            if name in self.driver.requests:
                self.driver.release(name)

    def warm(self) -> None:
        """Make some of a request's records resident."""
        if self.driver.engine or not self.driver.requests:
            return
        name, request = self._any()
        group = self.random.randrange(len(self.shape.groups))
        row = Row(request.lane, request.length[group], 1, request.length[group])
        width = self.random.randint(1, self.shape.top_k)
        count = self.random.randint(1, 3)
        self.driver.warm(name, group, [[self._id(row) for _ in range(width)] for _ in range(count)])

    def busy_step(self) -> None:
        """Make a step while other requests come, go and are prefilled."""
        rows, ids = self._batch()
        self.driver.during = lambda: self._meanwhile(rows)
        self.driver.step(rows, ids)
        self.steps += 1

    def two_steps(self) -> None:
        """Let two steps be open at once, on lanes of their own, their calls in any order."""
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

    def fault(self) -> None:
        """Let the tier fail the next time it is asked."""
        self.driver.tier.armed = self.random.choice(["read", "write"])

    def look(self) -> None:
        """Check the bytes of shared pages, and read something."""
        armed, self.driver.tier.armed = self.driver.tier.armed, ""
        if self.audit:
            self.audit.check()
        self.read()
        self.driver.tier.armed = armed

    def _has_room(self) -> bool:
        return len(self.driver.requests) < self.shape.lanes

    def _name(self) -> Hashable:
        return self.random.choice([n for n in NAMES if n not in self.driver.requests])
