"""What planner, server and installer owe, alone and together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.config import Choice
from tierkv.interfaces import Installer, Planner, Policy, Server
from tierkv.policies import TablePolicy
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.testing.harness import Harness
from tierkv.testing.model import Row
from tierkv.testing.model_policies import MODELS
from tierkv.testing.model_residency import Residency
from tierkv.testing.workload import PADDING, Workload


class EvictHits(TablePolicy):
    """Lets every miss take the slot of a hit of the same step, the worst moment to do so."""

    def choose(self, lane: int, misses: Tensor, hits: Tensor) -> Tensor:
        free = torch.nonzero(self.id_at[lane] < 0).flatten()
        slots = torch.full_like(misses, -1)
        victims = torch.cat([hits, free])[: len(misses)]
        slots[: len(victims)] = victims
        return slots


class SchemeContract:
    """Derive a test class and name the parts that are yours; the others are plain.

    ``class TestMine(SchemeContract): server = MyServer``
    """

    planner: ClassVar[type[Planner] | None] = None
    server: ClassVar[type[Server] | None] = None
    installer: ClassVar[type[Installer] | None] = None
    options: ClassVar[dict[str, dict[str, object]]] = {}
    """``planner``, ``server`` or ``installer`` -> fields of its ``Options``."""
    policy: ClassVar[type[Policy] | None] = None
    """The one that they need; None if any will do."""
    slots: ClassVar[int] = 16
    pooled: ClassVar[bool] = True
    """Whether residents lie in the cache's pool, where the contract may look at them."""

    def components(self) -> dict[str, Choice]:
        """Choose the parts under test."""
        return {
            name: choice(getattr(self, name), self.options.get(name))
            for name in ("planner", "server", "installer")
            if getattr(self, name) is not None
        }

    @contextmanager
    def harness(
        self,
        policy: str | Choice = "fifo",
        backing: str = "host",
        make: Callable[[], Residency] | None = None,
        shape: Shape = Shape(),  # noqa: B008 - frozen
    ) -> Iterator[tuple[Harness, Shape]]:
        """Make a cache with these parts."""
        shape = replace(shape, slots=self.slots)
        parts: dict[str, Any] = self.components()
        if self.policy is not None:
            policy, make = choice(self.policy), None
        with assemble(shape, policy=policy, backing=backing, **parts) as cache:
            yield self.watch(cache, make), shape

    def watch(self, cache: TieredCache, make: Callable[[], Residency] | None) -> Harness:
        """Put the model beside a cache; of an unordered server only what it serves is compared."""
        return Harness(cache, make, self.pooled, tabled=cache.server.ordered)

    @pytest.mark.parametrize(("policy", "backing"), [("fifo", "host"), ("lru", "file")])
    def test_random_steps_equal_the_model(self, policy: str, backing: str) -> None:
        make = partial(MODELS[policy], self.slots)
        with self.harness(policy, backing, make) as (harness, shape):
            Workload(harness, shape, seed=7).run(60)

    def test_unwatched_steps_equal_the_model(self) -> None:
        """Nobody waits for pending work between the calls but the installer itself."""
        make = partial(MODELS["lru"], self.slots)
        with self.harness("lru", make=make) as (harness, shape):
            harness.watched = False
            Workload(harness, shape, seed=8).run(60)
            harness.watched = True
            harness.check()

    def test_followers_serve_from_the_frozen_plan(self) -> None:
        """The victim is a hit of this very step, and the group's other layers still need it."""
        with self.harness(choice(EvictHits)) as (harness, _):
            lane = harness.admit("request", 60)
            for step, first in enumerate((0, 3, 6, 3, 0)):
                row = Row(lane, 61 + step, 1, 60 + step)
                harness.step([row], [[[first + n for n in range(6)]]])
                harness.check()

    @pytest.mark.parametrize("backing", ["host", "file"])
    def test_odd_ids_serve_nothing(self, backing: str) -> None:
        with self.harness(backing=backing) as (harness, _):
            lane = harness.admit("request", 30)
            row = Row(lane, 31, 1, 30)
            for step, ids in enumerate((
                [-1] * 6, [0, 1, 2, 3, 4, 5], [-1, 5, -1, 0, -1, 3], [5, 5, 7, 9, 7, 5],
                [31, 95, 96, 2**31 - 1, -(2**31), 30], [30, 29, -1, 31, 30, 6],
            )):  # fmt: skip
                row = Row(lane, 31 + step, 1, 30 + step)
                harness.step([PADDING, row], [[[0, 1, 2, 3, 4, 5]], [ids]])
                harness.check()

    def test_two_steppers_take_turns(self) -> None:
        with self.harness() as (harness, _):
            lanes = [harness.admit(name, 40) for name in range(4)]
            for step in range(6):
                kv_len = 42 + 2 * step
                some = [Row(lane, kv_len, 2, kv_len - 2) for lane in lanes[:2]]
                others = [Row(lane, kv_len, 2, kv_len - 2) for lane in lanes[2:]]
                ids = [[[n * (step + 1) for n in range(6)], [7 * n for n in range(6)]]] * 2
                harness.step(some, ids)
                harness.step([others[1], PADDING, others[0]], [ids[0], ids[0], ids[1]])
                harness.check()

    @pytest.mark.parametrize("call", ["append", "select"])
    @pytest.mark.parametrize("layer", [0, 1, 2])
    def test_a_step_that_raises_leaves_no_lie(self, layer: int, call: str) -> None:
        with self.harness() as (harness, _):
            lanes = [harness.admit(name, 40) for name in range(2)]
            ids = [[[0, 9, 18, 27, 36, 4]], [[1, 2, 3, 4, 5, 6]]]
            rows = [Row(lane, 41, 1, 40) for lane in lanes]
            harness.step(rows, ids)
            harness.step(rows[:1], [[[8, 9, 10, 27, 11, 12]]], stop_at=(layer, call))
            harness.check()
            harness.step(rows, [[[12, 11, 10, 9, 8, 0]], ids[1]])
            harness.check()
