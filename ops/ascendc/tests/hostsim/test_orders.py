"""The model reports a race in a random script if, and only if, two of its accesses have no order.

Here all pairs of accesses are compared, by the order that follows from the flags and barriers so
far; the model keeps the last ones of each block only.
"""

import random
from collections import defaultdict
from pathlib import Path

import pytest
import torch

GET, SET, ADDS, ADD, LOAD, STORE, GET_GM, BARRIER, FLAG, SYNC_ALL = range(10)
S, V, MTE2, MTE3 = range(4)
EDGES = (
    (MTE2, V), (V, MTE2), (MTE2, S), (S, MTE2), (MTE3, V), (V, MTE3), (MTE3, S), (S, MTE3), (V, S),
    (S, V), (MTE2, MTE3), (MTE3, MTE2),
)  # fmt: skip
ONE_CORE = (GET, SET, ADDS, ADDS, ADD, LOAD, LOAD, STORE, STORE, BARRIER, FLAG, FLAG, FLAG, FLAG)
SEVERAL = (*ONE_CORE, GET_GM, SYNC_ALL)

Step = tuple[int, int, int, int, int]


def draw(rng: random.Random, cores: int) -> list[Step]:
    """Steps of the cores by turns; each flag that is set is waited for in the end."""
    steps, raised = [], [set() for _ in range(cores)]
    for _ in range(rng.randint(3, 12)):
        core, act = rng.randrange(cores), rng.choice(SEVERAL if cores > 1 else ONE_CORE)
        a, b, c = (rng.randrange(3) for _ in range(3))
        if act in (LOAD, STORE):
            b, c = rng.choice((0, 2, 4, 8)), rng.choice((1, 2, 4, 8))
        elif act == GET_GM:
            b = rng.randrange(12)
        elif act == BARRIER:
            a = rng.choice((0, 0, 1, 2, 3))
        elif act == FLAG:
            a = rng.randrange(len(EDGES))
            c = 2 if a in raised[core] else rng.choice((1, 3))
            (raised[core].add if c == 1 else raised[core].discard)(a)
        steps.append((core, act, a, b, c))
    left = [(core, FLAG, a, 0, 2) for core in range(cores) for a in sorted(raised[core])]
    return [*steps, *left]


class Order:
    """What each pipe of each core knows to be done, and every access so far."""

    def __init__(self, cores: int) -> None:
        self.known = [[[-1] * 4 for _ in range(4)] for _ in range(cores)]
        self.flags, self.accesses = [{} for _ in range(cores)], defaultdict(list)
        self.phase, self.faults = 0, set()

    def step(self, now: int, step: Step) -> None:
        core, act, a, _, c = step
        known = self.known[core]
        if act == SYNC_ALL:
            self.phase += 1
            self.known = [[[now] * 4 for _ in range(4)] for _ in self.known]
        elif act == BARRIER:
            for pipe in range(4) if a == 3 else ((V, MTE2, MTE3)[a],):
                for other in range(4) if a == 3 else (pipe,):
                    known[pipe][other] = now
        elif act == FLAG:
            before, after = EDGES[a]
            if c & 1:
                self.flags[core][a] = [*known[before][:before], now, *known[before][before + 1 :]]
            if c & 2:
                release = self.flags[core].pop(a)
                known[after] = [max(pair) for pair in zip(known[after], release, strict=True)]
        else:
            self._access(now, core, *self._touched(*step))

    def _touched(self, core: int, act: int, a: int, b: int, c: int):
        """The pipe, and what it reads and writes: blocks of UB and elements of GM."""
        ub = [(core, block) for block in (a, b, c)]
        gm = [("gm", element) for element in range(b, b + (1 if act == GET_GM else c))]
        return {
            GET: (S, ub[:1], []),
            SET: (S, [], ub[:1]),
            ADDS: (V, ub[1:2], ub[:1]),
            ADD: (V, ub[1:], ub[:1]),
            LOAD: (MTE2, gm, ub[:1]),
            STORE: (MTE3, ub[:1], gm),
            GET_GM: (S, gm, []),
        }[act]

    def _access(self, now: int, core: int, pipe: int, reads: list, writes: list) -> None:
        new = [(place, False) for place in reads] + [(place, True) for place in writes]
        for place, writing in new:
            for when, phase, other_core, other, wrote in self.accesses[place]:
                if not (writing or wrote):
                    continue
                if other_core != core:
                    self.faults |= {"cores"} if phase == self.phase else set()
                elif not (pipe == other == S) and when > self.known[core][pipe][other]:
                    self.faults.add("race")
        for place, writing in new:
            self.accesses[place].append((now, self.phase, core, pipe, writing))


@pytest.mark.parametrize("cores", [1, 3])
def test_every_pair_without_order_is_reported(sim, cores):
    kernel = sim("script", Path(__file__).parent / "ops")
    outcomes = set()
    for seed in range(800):
        steps = draw(random.Random(seed), cores)
        order = Order(cores)
        for now, step in enumerate(steps):
            order.step(now, step)
        given = {"steps": torch.tensor(steps, dtype=torch.int32), "z": torch.zeros(16).int()}
        report = kernel.run(given, {}, {"blocks": cores})
        kinds = {fault.kind for fault in report.faults} & {"race", "cores"}
        assert bool(kinds) == bool(order.faults), (seed, steps, report.faults)
        outcomes.add(bool(kinds))
    assert outcomes == {False, True}
