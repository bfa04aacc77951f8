"""Whatever runs when: bytes, tables and counters equal those of the inline schedule."""

import random
import time
from dataclasses import replace

import pytest
import torch

import tierkv
from tierkv.errors import StateError
from tierkv.ops import NATIVE, reference
from tierkv.schedules import make_schedule
from tierkv.schedules.executor_schedule import ExecutorSchedule
from tierkv.schedules.inline_schedule import InlineSchedule
from tierkv.schedules.worker_schedule import WorkerSchedule

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 16, torch.int32),))
SPEC = tierkv.ModelSpec.uniform("test", 6, [[0], [1, 2, 3], [4, 5]], LAYOUT)
LANES, QUERIES, CONTEXT = 3, 2, 96
POLICIES = ["set-fifo", "clock", "lru", "fifo", "last-step", "unbounded"]
WORKERS = [
    pytest.param("reference", ExecutorSchedule, id="executor"),
    pytest.param(
        "native", WorkerSchedule, id="native",
        marks=pytest.mark.skipif(NATIVE is None, reason="installed without a compiler"),
    ),
]  # fmt: skip


class Late:
    """A schedule whose work starts late, at random; `broken` ones skip their fences."""

    def __init__(self, inner, seed, broken=False):
        self.inner, self.broken, self.random = inner, broken, random.Random(seed)

    def delay(self):
        microseconds = self.random.choice([0, 0, 100, 1500])
        if isinstance(self.inner, WorkerSchedule):
            from tierkv import _native

            _native.delay_worker(microseconds)
        elif isinstance(self.inner, ExecutorSchedule):
            self.inner._thread.submit(time.sleep, microseconds / 1e6)

    def place(self, policy, plan):
        self.delay()
        return self.inner.place(policy, plan)

    def copy(self, *arguments):
        self.delay()
        self.inner.copy(*arguments)
        time.sleep(self.random.choice([0, 2e-4]))  # attention

    def fence(self, layer):
        if not self.broken:
            self.inner.fence(layer)

    def drain(self, lanes=None):
        self.inner.drain(lanes)


def make(policy, ops, schedule):
    slots = 96 + 64 if policy == "unbounded" else 12
    options = {"use": policy, "ways": 4} if policy in ("set-fifo", "clock") else {"use": policy}
    return tierkv.load(
        {"ops": ops, "pool": {"slots": slots}, "policy": options,
         "backing": {"page": 16}, "installer": {"schedule": schedule}},
        model=SPEC, lanes=LANES, max_tokens=CONTEXT + 64, queries=QUERIES,
    )  # fmt: skip


def records(layer, start, stop, lane):
    """Rows that tell layer, lane and position, [n, 16] int32."""
    position = torch.arange(start, stop, dtype=torch.int32)[:, None]
    return position * 1000 + layer * 10 + lane + torch.zeros(16, dtype=torch.int32)


def drive(cache, seed, steps=12, fail_at=None):
    """Run steps with random selections; check every selection twice; give what is left behind."""
    generator = torch.Generator().manual_seed(seed)
    lanes = [cache.admit(number) for number in range(LANES)]
    for lane in lanes:
        for layer in range(6):
            cache.prefill(lane, layer, {"kv": records(layer, 0, CONTEXT, lane)})
    length = CONTEXT
    for step in range(steps):
        length += QUERIES
        try:
            run_step(cache, lanes, length, generator, fail_at=(step, fail_at))
        except RuntimeError:
            run_step(cache, lanes, length, generator, fail_at=None)
    cache.installer.drain()
    return cache


def run_step(cache, lanes, length, generator, fail_at):
    held = None
    with cache.step(lanes, [length] * LANES, queries=QUERIES) as step:
        for layer in range(6):
            new = [records(layer, length - QUERIES, length, lane) for lane in lanes]
            step.append(layer, {"kv": torch.stack(new)})
            ids = torch.randint(-1, length, (LANES, QUERIES, 6), generator=generator).int()
            owner = layer in (0, 1, 4)
            if held is not None:
                check(*held)  # still whole while the worker installs out of it
            held = (step.select(layer, ids if owner else None), layer, lanes)
            check(*held)
            if fail_at == (3, layer):
                raise RuntimeError("attention failed")


def check(selection, layer, lanes):
    for row, lane in enumerate(lanes):
        ids = selection.ids[row]
        wanted = (ids[..., None] * 1000 + layer * 10 + lane).expand(-1, -1, 16)
        wanted = torch.where(ids[..., None] >= 0, wanted, 0)
        assert torch.equal(selection["kv"][row], wanted)


def compare(one, other):
    for mine, yours in zip(left_behind(one), left_behind(other), strict=True):
        assert torch.equal(mine, yours)


def left_behind(cache):
    tables = [table for policy in cache.site.policies for table in policy.tables]
    pools = []
    for group, policy in zip(SPEC.groups, cache.site.policies, strict=True):
        resident = policy.id_at >= 0
        pools += [cache.site.pool_view(layer)[resident] for layer in group.layers]
    return [*tables, *pools, cache.site.counters]


@pytest.mark.parametrize(("ops", "kind"), WORKERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_delays_change_nothing(policy, ops, kind):
    inline, worker = make(policy, ops, "inline"), make(policy, ops, "worker")
    assert isinstance(worker.installer._schedule, kind)
    worker.installer._schedule = Late(worker.installer._schedule, seed=1)
    compare(drive(inline, seed=0), drive(worker, seed=0))


@pytest.mark.parametrize(("ops", "kind"), WORKERS)
def test_without_fences_the_check_fails(ops, kind):
    inline, worker = make("set-fifo", ops, "inline"), make("set-fifo", ops, "worker")
    worker.installer._schedule = Late(worker.installer._schedule, seed=1, broken=True)
    drive(inline, seed=0)
    with pytest.raises((AssertionError, StateError, IndexError)):
        compare(inline, drive(worker, seed=0))
    worker.installer.drain()


@pytest.mark.parametrize(("ops", "kind"), WORKERS)
@pytest.mark.parametrize("layer", range(6))
def test_a_step_that_raises_half_way_may_be_repeated(layer, ops, kind):
    inline, worker = make("clock", ops, "inline"), make("clock", ops, "worker")
    worker.installer._schedule = Late(worker.installer._schedule, seed=2)
    compare(drive(inline, seed=3, fail_at=layer), drive(worker, seed=3, fail_at=layer))


def test_a_failing_policy_speaks_at_the_next_fence_and_leaves_lanes_cold(monkeypatch):
    cache = make("lru", "reference", "worker")
    drive(cache, seed=5, steps=2)
    policy = cache.site.policies[1]

    def fail(plan):
        raise RuntimeError("no more victims")

    monkeypatch.setattr(policy, "place", fail)
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(RuntimeError, match="no more victims"):
        run_step(cache, [0, 1, 2], CONTEXT + 6, generator, None)
    monkeypatch.undo()
    assert all(bool((policy.id_at < 0).all()) for policy in cache.site.policies)
    run_step(cache, [0, 1, 2], CONTEXT + 6, generator, None)


@pytest.mark.skipif(NATIVE is None, reason="installed without a compiler")
@pytest.mark.parametrize("busy", [True, False])
def test_a_worker_whose_thread_ends_is_named_and_replaced(busy):
    from tierkv import _native

    inline, worker = make("clock", "native", "inline"), make("clock", "native", "worker")
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    for cache in (inline, worker):
        drive(cache, seed=6, steps=2)
    if busy:  # the jobs of the next step queue up behind the thread's end
        _native.delay_worker(20_000)
    _native.end_worker()
    step = worker, [0, 1, 2], CONTEXT + 6, generators[1], None
    if not busy:
        run_step(*step)
        run_step(inline, [0, 1, 2], CONTEXT + 6, generators[0], None)
        worker.installer.drain()
        compare(inline, worker)
        return
    with pytest.raises(StateError, match=r"worker: its thread ended .* \(repeat the step\)"):
        run_step(*step)
    assert all(bool((policy.id_at < 0).all()) for policy in worker.site.policies)
    run_step(*step)
    worker.installer.drain()
    assert any(bool((policy.id_at >= 0).any()) for policy in worker.site.policies)


def test_a_cache_that_goes_while_another_is_compiled_waits_for_its_work(monkeypatch):
    cache, drained = make("lru", "reference", "worker"), []
    monkeypatch.setattr(
        cache.installer._schedule, "drain", lambda lanes=None: drained.append(lanes)
    )

    def backend(graph, inputs):
        cache.installer.drain()
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(1))
    assert drained == [None]


@pytest.mark.skipif(NATIVE is None, reason="installed without a compiler")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_thread_takes_every_job(monkeypatch, policy):
    """What it cannot take is done at once by the reference, and would be right, but slow."""
    from tierkv.ops import native

    for name in ("submit", "submit_install"):
        monkeypatch.setattr(reference, name, lambda *_: pytest.fail("the thread has refused a job"))
    cache, kernels = make(policy, "native", "worker"), native.direct()
    schedule = cache.installer._schedule
    assert isinstance(schedule, WorkerSchedule)
    schedule._submit, schedule._submit_install = kernels["submit"], kernels["submit_install"]
    drive(cache, seed=3, steps=3)


def test_one_cpu_makes_it_inline_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    cache = make("lru", "reference", "worker")
    assert isinstance(cache.installer._schedule, InlineSchedule)
    assert "only one CPU" in caplog.text


def test_a_policy_in_python_gets_the_worker_in_python():
    class Mru(tierkv.TablePolicy):
        def choose(self, lane, misses, hits):
            return torch.full_like(misses, 0)

    cache = make("lru", "auto", "inline")
    site = cache.site
    policies = [Mru(None, site.limits, group, site.ops, site.counters[group]) for group in range(3)]
    schedule = make_schedule("worker", replace(site, policies=tuple(policies)), 2)
    assert isinstance(schedule, ExecutorSchedule)
