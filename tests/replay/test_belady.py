"""The bound: right, and above everybody."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from tierkv.config import make_registry
from tierkv.ops import NATIVE, REFERENCE
from tierkv.replay import Comparison, Contender
from tierkv.replay import belady as module
from tierkv.replay.belady import BeladyRun, Future
from tierkv.trace import Trace

REGISTRY = make_registry()
OPS = NATIVE or REFERENCE
POLICIES = ["lru", "set-lru:ways=2", "sieve", "s3-fifo", "set-fifo:ways=2", "fifo", "clock:ways=4",
            "clock:ways=4,hash=low-bits", "last-step", "unbounded"]  # fmt: skip


def belady(trace, slots):
    run = BeladyRun(Future(trace), slots, trace)
    for chunk in trace.chunks(11):
        run.step(chunk)
    return run.measured()


@pytest.mark.skipif(NATIVE is None, reason="the native operators are not built")
@pytest.mark.parametrize("seed", range(20))
def test_compiled_equals_readable(seed, random_trace, monkeypatch):
    trace = random_trace(seed)
    future, compiled = Future(trace).next.copy(), belady(trace, 9)
    monkeypatch.setattr(module, "_native", lambda: None)
    assert np.array_equal(future, Future(trace).next)
    readable = belady(trace, 9)
    assert compiled.groups == readable.groups
    assert compiled.native
    assert not readable.native
    for a, b in zip(compiled.rates, readable.rates, strict=True):
        assert np.array_equal(a, b)


def best(steps, slots):
    """Most unique hits that any choice of residents gets, by trying all."""

    @cache
    def after(step, resident):
        if step == len(steps):
            return 0
        known = resident | steps[step]
        hits = len(resident & steps[step])
        return hits + max(
            after(step + 1, frozenset(kept))
            for kept in combinations(sorted(known), min(slots, len(known)))
        )

    return after(0, frozenset())


@pytest.mark.parametrize("seed", range(60))
def test_nobody_can_do_better(seed):
    random = np.random.default_rng(seed)
    ids = random.integers(0, 7, (7, 1, 1, 1, 3)).astype(np.int32)
    trace = Trace.from_arrays(ids, np.full((7, 1), 20, np.int32))
    steps = [frozenset(step.ravel().tolist()) for step in ids]
    assert belady(trace, 2).groups[0].unique_hits == best(steps, 2)


def check_bounds(trace, slots):
    contenders = [Contender.parse(name, REGISTRY) for name in POLICIES]
    comparison = Comparison(trace, contenders, [slots], OPS, strict=False)
    found = {measured.policy: measured for measured in comparison.measure()}
    bound, everything = found.pop("belady"), found.pop("unbounded")
    for name, measured in found.items():
        for group, (mine, best_of) in enumerate(zip(measured.groups, bound.groups, strict=True)):
            assert mine.unique_hits <= best_of.unique_hits, (name, trace.name, group)
            assert mine.unique_hits + mine.unique_misses == (
                best_of.unique_hits + best_of.unique_misses
            ), (name, trace.name, group)
    for mine, all_of in zip(bound.groups, everything.groups, strict=True):
        assert mine.unique_hits <= all_of.unique_hits


@pytest.mark.parametrize("seed", range(12))
def test_no_policy_is_above_belady_and_belady_not_above_unbounded(seed, random_trace):
    """A group is a trace of its own: so many of them in one go."""
    trace = random_trace(seed, groups=24, lanes=1, queries=1 + seed % 3, steps=40)
    check_bounds(trace, slots=4 * (1 + seed % 5))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_bounds_on_thousands_of_traces(seed, random_trace):
    trace = random_trace(seed, groups=30, lanes=1, queries=1 + seed % 4, steps=60, whole=seed % 2)
    check_bounds(trace, slots=4 * (1 + seed % 9))


def test_requests_do_not_see_each_other():
    ids = np.zeros((4, 1, 1, 1, 1), np.int32)
    request = np.array([[1], [1], [2], [2]], np.int32)
    trace = Trace.from_arrays(ids, np.full((4, 1), 9, np.int32), request=request)
    assert Future(trace).next.ravel().tolist() == [1, module.NEVER, 3, module.NEVER]
    assert belady(trace, 1).groups[0].unique_hits == 2


def test_what_cannot_hit_is_not_offered():
    ids = np.array([3, 8, -1, 5], np.int32).reshape(1, 1, 1, 2, 2)
    rows = {"q_len": [[1]], "stable": [[5]]}
    rows = {name: np.array(row, np.int32) for name, row in rows.items()}
    (chunk,) = Trace.from_arrays(ids, np.array([[9]], np.int32), **rows).chunks()
    assert module.offered(chunk).tolist() == [[[[-1, -1, -1, -1]]]]
