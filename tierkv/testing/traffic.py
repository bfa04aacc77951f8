"""Random traffic of a whole serving engine, call by call."""

from collections.abc import Callable, Hashable

from tierkv.errors import CapacityError, TierKVError
from tierkv.testing.assemble import Shape
from tierkv.testing.audit import PageAudit
from tierkv.testing.driver import Driver
from tierkv.testing.model import Row
from tierkv.testing.stepping import Stepping


class Traffic(Stepping):
    """Adds prompts, preemption, warm starts and faults."""

    def __init__(self, driver: Driver, shape: Shape, seed: int) -> None:
        super().__init__(driver, shape, seed)
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
