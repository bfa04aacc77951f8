"""What every policy owes."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from tierkv.errors import ConfigError
from tierkv.interfaces import Policy
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.testing.harness import Harness
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.workload import PADDING, Workload


class PolicyContract:
    """Derive a test class and say what to make: ``class TestMine(PolicyContract): make = Mine``."""

    make: ClassVar[type[Policy]]
    options: ClassVar[Mapping[str, Any]] = {}
    """Fields of ``make.Options``."""
    slots: ClassVar[int] = 16
    """Slots that it takes; fewer than the 96 tokens of the test's requests, if it can."""

    def harness(self, slots: int | None = None) -> tuple[Harness, Shape]:
        """Make a cache with this policy."""
        shape = replace(Shape(), slots=slots or self.slots)
        cache = assemble(shape, policy=choice(self.make, self.options))
        return Harness(cache), shape

    def filled(self) -> Harness:
        """Make one of which all lanes but the last hold residents."""
        harness, shape = self.harness()
        lanes = [harness.admit(f"request-{lane}", 40) for lane in range(shape.lanes)]
        for start in (0, 20):
            rows = [Row(lane, 41 + start // 20, 1, 40) for lane in lanes[:3]]
            harness.step(rows, [[[start + lane + 2 * n for n in range(6)]] for lane in lanes[:3]])
        harness.check()
        return harness

    @pytest.mark.parametrize("seed", [1, 2])
    def test_random_steps_keep_every_invariant(self, seed: int) -> None:
        harness, shape = self.harness()
        Workload(harness, shape, seed).run(60)

    @pytest.mark.parametrize("slots", [1, 2, 4])
    def test_a_pool_smaller_than_a_step_is_served_right(self, slots: int) -> None:
        try:
            harness, shape = self.harness(slots)
        except ConfigError:
            return  # it refuses so few, which is right too
        Workload(harness, shape, seed=4).run(20)

    def test_tables_start_cold_in_the_form_that_planners_read(self) -> None:
        harness, shape = self.harness()
        limits = harness.cache.limits
        policies = harness.cache.site.policies
        for policy in policies:
            assert policy.slot_of.shape == (shape.lanes, shape.max_tokens)
            assert policy.slot_of.dtype in (torch.int16, torch.int32)
            assert policy.id_at.shape == (shape.lanes, self.slots)
            assert policy.id_at.dtype == torch.int32
            assert bool((policy.slot_of == -1).all() and (policy.id_at == -1).all())
        tables = [table for policy in policies for table in (policy.slot_of, policy.id_at)]
        told = self.make.footprint(self.make.Options(**self.options), limits)
        assert told >= sum(table.numel() * table.element_size() for table in tables)

    def test_the_same_calls_give_the_same_tables(self) -> None:
        pairs = [self.harness() for _ in range(2)]
        runs = [Workload(harness, shape, seed=5) for harness, shape in pairs]
        for turn in range(40):
            for number, run in enumerate(runs):  # unlike in all that must not matter
                random.seed(turn + number)
                torch.manual_seed(turn + number)
                run.turn()
            one, other = (harness.cache.site.policies for harness, _ in pairs)
            for a, b in zip(one, other, strict=True):
                assert torch.equal(a.id_at, b.id_at), f"turn {turn}: the tables differ"

    def test_a_lane_does_not_depend_on_its_neighbours_or_its_row(self) -> None:
        alone, together = self.harness()[0], self.harness()[0]
        for harness in (alone, together):
            for name in range(3):
                harness.admit(name, 60)
        draw = random.Random(6)
        for step in range(12):
            ids = [[[draw.randrange(60) for _ in range(6)]] for _ in range(3)]
            rows = [Row(lane, 61 + step, 1, 60 + step) for lane in range(3)]
            alone.step([PADDING, rows[1]], [ids[0], ids[1]])
            order = draw.sample(range(3), 3)
            together.step([rows[n] for n in order], [ids[n] for n in order])
            for a, b in zip(alone.cache.site.policies, together.cache.site.policies, strict=True):
                assert residents(a)[1] == residents(b)[1], f"step {step}"

    def test_forget_drops_a_tail_of_the_lanes_named(self) -> None:
        harness = self.filled()
        for policy in harness.cache.site.policies:
            before = residents(policy)
            policy.forget([1, 3], 24)
            kept = {slot: id for slot, id in before[1].items() if id < 24}
            assert residents(policy) == [before[0], kept, before[2], {}]
            policy.forget([1, 3], 24)
            assert residents(policy) == [before[0], kept, before[2], {}]
            policy.forget([2, 0])
            assert residents(policy) == [{}, kept, {}, {}]
            positions = [sum(slot >= 0 for slot in row) for row in policy.slot_of.tolist()]
            assert positions == [0, len(kept), 0, 0]

    def test_padding_leaves_no_trace(self) -> None:
        harness = self.filled()
        policies = harness.cache.site.policies
        before = [residents(policy) for policy in policies]
        counters = harness.cache.site.counters.clone()
        harness.step([PADDING, PADDING], [[[3, 4, 5, 6, 7, 8]]] * 2)
        harness.check()
        assert [residents(policy) for policy in policies] == before
        grown = (harness.cache.site.counters - counters).tolist()
        assert grown == [[1] + [0] * (len(row) - 1) for row in grown]  # the step itself
