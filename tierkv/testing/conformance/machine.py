"""A hypothesis state machine: any order of calls, each compared with the model in dictionaries."""

import random
from collections.abc import Callable
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tierkv.testing.assemble import INDEXED, Shape
from tierkv.testing.subject import Subject
from tierkv.testing.traffic import Traffic

SHAPE = Shape(
    lanes=3, batch=3, queries=2, top_k=4, max_tokens=64, page=16, pages=10, slots=6, layout=INDEXED
)
"""Small enough for tens of thousands of steps, and for pages and lanes to be short."""

STEPS = 50
SEEDS = st.integers(0, 2**32 - 1)
"""A rule draws its details from one seed: a hundred times as fast as drawing each."""


class Machine(RuleBasedStateMachine):
    """Every rule makes a call, or a few, on a cache and on its model, and compares all it sees."""

    subject: ClassVar[Subject]

    def __init__(self) -> None:
        super().__init__()
        self.shape = self.subject.shape(SHAPE)
        self.driver = self.subject.driver(SHAPE)
        self.traffic = Traffic(self.driver, self.shape, 0)
        self.sound = True
        """Whether all calls ended well; what follows one that did not tells nothing."""

    def perform(self, seed: int, call: Callable[[], None]) -> None:
        """Make a call with this seed."""
        self.traffic.random = random.Random(seed)
        self.sound = False
        self.traffic.perform(call)
        self.sound = True

    @rule(seed=SEEDS)
    def admit(self, seed: int) -> None:
        self.perform(seed, self.traffic.admit)

    @rule(seed=SEEDS)
    def admit_a_prompt(self, seed: int) -> None:
        self.perform(seed, self.traffic.admit_prompt)

    @rule(seed=SEEDS)
    def prefill_a_chunk(self, seed: int) -> None:
        self.perform(seed, self.traffic.prefill)

    @rule(seed=SEEDS)
    def step(self, seed: int) -> None:
        self.perform(seed, self.traffic.step)

    @rule(seed=SEEDS)
    def step_again(self, seed: int) -> None:
        self.perform(seed, self.traffic.step)

    @rule(seed=SEEDS)
    def step_while_others_come_and_go(self, seed: int) -> None:
        self.perform(seed, self.traffic.busy_step)

    @rule(seed=SEEDS)
    def step_with_a_selection_used_again(self, seed: int) -> None:
        self.perform(seed, self.traffic.reusing_step)

    @rule(seed=SEEDS)
    def draft_with_stable_held_back(self, seed: int) -> None:
        self.perform(seed, self.traffic.draft)

    @rule(seed=SEEDS)
    def two_steps_open_at_once(self, seed: int) -> None:
        self.perform(seed, self.traffic.two_steps)

    @rule(seed=SEEDS)
    def step_that_raises(self, seed: int) -> None:
        self.perform(seed, self.traffic.interrupted_step)

    @rule(seed=SEEDS)
    def let_the_tier_fail(self, seed: int) -> None:
        self.perform(seed, self.traffic.fault)

    @rule(seed=SEEDS)
    def truncate(self, seed: int) -> None:
        self.perform(seed, self.traffic.truncate)

    @rule(seed=SEEDS)
    def fork(self, seed: int) -> None:
        self.perform(seed, self.traffic.fork)

    @rule(seed=SEEDS)
    def preempt(self, seed: int) -> None:
        self.perform(seed, self.traffic.preempt)

    @rule(seed=SEEDS)
    def release(self, seed: int) -> None:
        self.perform(seed, self.traffic.release)

    @rule(seed=SEEDS)
    def warm(self, seed: int) -> None:
        self.perform(seed, self.traffic.warm)

    @rule(seed=SEEDS)
    def look(self, seed: int) -> None:
        self.perform(seed, self.traffic.look)

    def teardown(self) -> None:
        """Check the pages once more and give everything back."""
        try:
            if self.sound:
                self.finish()
        finally:
            self.driver.cache.close()

    def finish(self) -> None:
        """End every request; nothing may be left."""
        self.traffic.look()
        for name in list(self.driver.requests):
            self.driver.release(name)
        self.driver.check()
        stats = self.driver.cache.stats()
        assert (stats.lanes_used, stats.pages_used) == (0, 0), "a lane or page leaked"


def run_machine(subject: Subject, examples: int, shrink: bool = True) -> None:
    """Run so many examples of 50 steps; the same ones every time.

    Parameters
    ----------
    shrink
        Look for a shorter example once one fails.
    """
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    run_state_machine_as_test(
        type("Calls", (Machine,), {"subject": subject}),
        settings=settings(
            max_examples=examples, stateful_step_count=STEPS, derandomize=True, database=None,
            deadline=None, phases=phases, suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )  # fmt: skip
