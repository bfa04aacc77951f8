"""The native loop is the operators, called many times: equal tables, counters, buffers."""

import attrs
import numpy as np
import pytest
import torch

from tierkv.config import make_registry
from tierkv.ops import NATIVE, REFERENCE
from tierkv.policies import TablePolicy
from tierkv.replay import Comparison, Contender
from tierkv.replay.run import PolicyRun

REGISTRY = make_registry()
KERNELS = ["lru", "set-lru:ways=4", "sieve", "s3-fifo", "set-fifo:ways=4", "fifo", "clock:ways=8",
           "clock:ways=8,hash=low-bits", "clock:ways=all", "last-step"]  # fmt: skip
needs_native = pytest.mark.skipif(NATIVE is None, reason="the native operators are not built")


def run(name, trace, ops, slots=24, chunk=7, one_by_one=False):
    slots = trace.positions if name == "unbounded" else slots
    made = PolicyRun(Contender.parse(name, REGISTRY), slots, trace, ops)
    made.native = made.native and not one_by_one
    for steps in trace.chunks(chunk):
        made.step(steps)
    return made


def state(made):
    tables = [table for policy in made.policies for table in policy.tables]
    buffers = [getattr(plan, field) for plan in made._plans for field in ("ids", "kind", "index")]
    placed = [p.placement(plan).slot for p, plan in zip(made.policies, made._plans, strict=True)]
    return [*tables, *buffers, *placed, made.counters]


@needs_native
@pytest.mark.parametrize("name", [*KERNELS, "unbounded"])
@pytest.mark.parametrize("seed", range(6))
def test_native_loop_equals_the_operators(name, seed, random_trace):
    wide = "all" in name
    trace = random_trace(seed, positions=200 if wide else 64, steps=60 if wide else 30)
    slots = 70 if wide else 24  # more than one word of visited bits
    loop = run(name, trace, NATIVE, slots)
    assert loop.native
    steps = run(name, trace, NATIVE, slots, one_by_one=True)
    reference = run(name, trace, REFERENCE, slots, chunk=1000)
    for a, b, c in zip(state(loop), state(steps), state(reference), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)
    for a, b in zip(loop.measured().rates, reference.measured().rates, strict=True):
        assert np.array_equal(a, b)
    assert loop.counters[:, 2].min() > 20, "the trace is too tame"


@needs_native
def test_a_policy_without_a_kernel_goes_through_place(random_trace):
    trace = random_trace(1)
    found = run("arc", trace, NATIVE)
    assert not found.native
    assert not found.measured().row(1)["native"]
    for a, b in zip(state(found), state(run("arc", trace, REFERENCE)), strict=True):
        assert torch.equal(a, b)


def test_the_operators_count_what_the_replay_does(random_trace):
    trace = random_trace(2)
    found = run("lru", trace, REFERENCE).measured()
    assert found.steps == trace.steps
    row = found.row(1000)
    hits, misses = (sum(getattr(g, n) for g in found.groups) for n in ("hits", "misses"))
    assert row["hit_rate"] == hits / (hits + misses)
    assert row["hit_rate_worst_group"] == min(g.hits / (g.hits + g.misses) for g in found.groups)
    moved = sum(g.fetched + g.installs for g in found.groups)
    assert row["rows_per_step"] == pytest.approx(moved / (2 * trace.steps))
    assert row["bytes_per_step"] == 1000 * row["rows_per_step"]
    assert row["hit_rate_p10"] <= row["hit_rate"]
    assert [r["group"] for r in found.group_rows(1)] == [0, 1]


def test_warm_up_is_replayed_but_not_counted(random_trace):
    trace = random_trace(3, steps=40)
    contender = [Contender.parse("lru", REGISTRY)]
    for warmup in (0, 1, 17, 39):
        found = next(Comparison(trace, contender, [16], REFERENCE, warmup).measure())
        whole = PolicyRun(contender[0], 16, trace, REFERENCE)
        counted = []
        for chunk in trace.chunks(1):
            whole.step(chunk)
            counted.append(whole.counters.clone())
        before = counted[warmup - 1] if warmup else torch.zeros_like(counted[0])
        assert found.steps == 40 - warmup
        assert [g.hits for g in found.groups] == (counted[-1] - before)[:, 1].tolist()


class Newest(TablePolicy):
    """A policy of somebody else: the newest miss takes the highest slots."""

    def choose(self, lane, misses, hits):
        slots = torch.full_like(misses, -1)
        kept = min(len(misses), self.slots)
        slots[:kept] = torch.arange(self.slots - kept, self.slots)
        return slots


def test_a_policy_in_python(random_trace):
    contender = Contender("newest", Newest, Newest.Options())
    found = list(Comparison(random_trace(4), [contender], [8], NATIVE or REFERENCE).measure())
    assert [row.policy for row in found] == ["newest", "belady"]
    assert not found[0].native
    assert 0 < found[0].rate() < found[1].rate()


def test_options_of_a_contender():
    parsed = Contender.parse("clock:ways=all,hash=low-bits", REGISTRY)
    assert attrs.asdict(parsed.options) == {"ways": "all", "hash": "low-bits"}
    assert parsed.name == "clock:ways=all,hash=low-bits"
