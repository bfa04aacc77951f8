"""Work on a side stream: bytes, tables and counters as with the inline schedule.

On the CPU streams are simulated, see conftest.py.
"""

import functools
import re
import types
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

import tierkv
from tierkv.errors import ConfigError
from tierkv.ops import Ops
from tierkv.plain import CopyInstaller
from tierkv.schedules import check_device, make_schedule, side_stream_schedule
from tierkv.schedules.inline_schedule import InlineSchedule
from tierkv.schedules.side_stream_schedule import SideStreamSchedule
from tierkv.schedules.streams import Streams
from tierkv.testing import SchemeContract

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 16, torch.int32),))
SPEC = tierkv.ModelSpec.uniform("test", 6, [[0], [1, 2, 3], [4, 5]], LAYOUT)
OWNERS = (0, 1, 4)
LANES, QUERIES, CONTEXT, STEPS = 4, 2, 48, 8


def make(policy="set-fifo", schedule="inline", **settings):
    options = {"use": policy, "ways": 4} if policy in ("set-fifo", "clock") else {"use": policy}
    return tierkv.load(
        {"ops": "reference", "pool": {"slots": 12}, "policy": options, "backing": {"page": 16},
         "installer": {"schedule": schedule}} | settings,
        model=SPEC, lanes=LANES, max_tokens=CONTEXT + 4 * STEPS, queries=QUERIES,
    )  # fmt: skip


def beside(simulator, policy="set-fifo", kind=SideStreamSchedule):
    """Make a cache with a side stream."""
    cache = make(policy)
    site, depth = cache.site, cache.server.depth
    cache.installer._schedule = kind(site.ops, site.limits, depth, simulator.streams)
    return cache


def records(layer, start, stop, request):
    """Rows that tell layer, request and position, [n, 16] int32."""
    position = torch.arange(start, stop, dtype=torch.int32)[:, None]
    return position * 1000 + layer * 100 + request + torch.zeros(16, dtype=torch.int32)


class Drive:
    """Requests come and go, change lanes and rows; two steps are open at once, some are warmed."""

    def __init__(self, cache, seed=0):
        self.cache, self.random = cache, torch.Generator().manual_seed(seed)
        self.requests, self.length, self.number = [], {}, 0
        self.steppers = [cache.stepper(2, QUERIES) for _ in range(2)]
        self.lane = {}

    def admit(self):
        request = self.number
        self.number += 1
        self.requests.append(request)
        self.lane[request] = self.cache.admit(request)
        self.length[request] = CONTEXT
        for layer in range(6):
            self.cache.prefill(request, layer, {"kv": records(layer, 0, CONTEXT, request)})

    def draw(self, *shape, high=CONTEXT):
        return torch.randint(-1, high, shape, generator=self.random).int()

    def run(self, steps=STEPS):
        for _ in range(LANES):
            self.admit()
        for step in range(steps):
            order = torch.randperm(LANES, generator=self.random).tolist()
            pairs = [[self.requests[i] for i in order[:2]], [self.requests[i] for i in order[2:]]]
            if step % 3 == 1:
                self.step(pairs[:1])
                self.step(pairs[1:])
            else:
                self.step(pairs)
            if step % 4 == 2:  # what is pending names the batch that warm fills, and counts
                self.one()
                self.cache.warm(self.requests[0], OWNERS[1 + step // 4], self.draw(4, 6, high=12))
            if step % 2 == 0:
                self.cache.release(self.requests[step % LANES])
                del self.requests[step % LANES]
                self.admit()
        self.cache.installer.drain()
        return self

    def one(self):
        """Step the last request alone, as warm does."""
        request = self.requests[-1]
        self.length[request] += 1
        stop = self.length[request]
        with self.cache.step([self.lane[request]], [stop]) as step:
            for layer in range(6):
                step.append(layer, {"kv": records(layer, stop - 1, stop, request)[None]})
                ids = self.draw(1, 1, 6)
                check(step.select(layer, ids if layer in OWNERS else None), layer, [request])

    def step(self, pairs):
        """Step pairs of requests, all at once, layer by layer."""
        begun = []
        for stepper, pair in zip(self.steppers, pairs, strict=False):
            for request in pair:
                self.length[request] += QUERIES
            kv_len = [self.length[request] for request in pair]
            opened = stepper.begin([self.lane[request] for request in pair], kv_len)
            begun.append((opened.__enter__(), pair))
        held = []
        for layer in range(6):
            for opened, pair in begun:
                opened.append(layer, {"kv": self.new(layer, pair)})
                ids = self.draw(2, QUERIES, 6, high=self.length[pair[0]])
                selection = opened.select(layer, ids if layer in OWNERS else None)
                held = [*held, (selection, layer, pair)][-2 * len(pairs) :]
                for known in held:  # those before are still whole while they are installed from
                    check(*known)
        for opened, _ in begun:
            opened.__exit__(None)

    def new(self, layer, pair):
        stops = [self.length[request] for request in pair]
        rows = [
            records(layer, stop - QUERIES, stop, request)
            for request, stop in zip(pair, stops, strict=True)
        ]
        return torch.stack(rows)


def check(selection, layer, pair):
    for row, request in enumerate(pair):
        ids = selection.ids[row]
        wanted = (ids[..., None] * 1000 + layer * 100 + request).expand(-1, -1, 16)
        wanted = torch.where(ids[..., None] >= 0, wanted, 0)
        assert torch.equal(selection["kv"][row], wanted)


def left_behind(cache):
    tables = [table for policy in cache.site.policies for table in policy.tables]
    pools = []
    for group, policy in zip(SPEC.groups, cache.site.policies, strict=True):
        resident = policy.id_at >= 0
        pools += [cache.site.pool_view(layer)[resident] for layer in group.layers]
    return [*tables, *pools, cache.site.counters]


def compare(one, other):
    for mine, yours in zip(one, other, strict=True):
        assert torch.equal(mine, yours)


@functools.cache
def inline(policy):
    """What the inline schedule leaves behind."""
    with _disable_current_modes():
        return left_behind(Drive(make(policy)).run().cache)


def equals_inline(simulator, policy="set-fifo", kind=SideStreamSchedule):
    """Drive a side stream; what it leaves behind must be the same."""
    cache = beside(simulator, policy, kind)
    Drive(cache).run()
    compare(inline(policy), left_behind(cache))
    return cache


@pytest.mark.parametrize("policy", ["set-fifo", "clock", "lru", "fifo", "last-step"])
def test_bytes_tables_and_counters_equal_those_of_inline(simulator, policy):
    cache = equals_inline(simulator, policy)
    assert all(group.hits and group.installs for group in cache.stats().groups)


def test_events_are_made_before_the_first_step(simulator):
    cache = beside(simulator)
    made = simulator.events
    assert made == len(SPEC.groups) + 2 * len(SPEC.layouts) + 1
    Drive(cache).run(2)
    assert simulator.events == made


# --- each wait, and each mark, is needed ---

SOURCE = Path(side_stream_schedule.__file__).read_text().splitlines()
SYNC = re.compile(r"\.(wait|record)\(|self\._(wait|mark)\(")
NOT_NEEDED = ("torch makes the device's own at the first record",)
LINES = [
    number for number, line in enumerate(SOURCE)
    if SYNC.search(line) and not any(reason in line for reason in NOT_NEEDED)
]  # fmt: skip


def without(number):
    """Give the schedule without a line."""
    lines = list(SOURCE)
    lines[number] = re.sub(r"\S.*", "pass", lines[number])
    module = types.ModuleType("side_stream_schedule")
    exec("\n".join(lines), module.__dict__)
    return module.SideStreamSchedule


def test_the_lines_are_those_that_synchronise():
    assert len(LINES) == 11


@pytest.mark.parametrize("number", LINES, ids=lambda number: SOURCE[number].strip())
def test_without_a_wait_or_a_mark_something_differs(make_simulator, number):
    kind, failed = without(number), []
    for late in ("side", "main"):
        try:
            with make_simulator(late) as simulator:
                equals_inline(simulator, kind=kind)
        except (AssertionError, IndexError, RuntimeError) as error:
            failed.append(error)
    assert failed


# --- the contract of every scheme ---


class TestContract(SchemeContract):
    """The model reads tables and selections behind the simulator's back: main must not be late."""

    @pytest.fixture(autouse=True)
    def _streams(self, make_simulator):
        with make_simulator("side") as simulator:
            Beside.streams = simulator.streams
            yield

    @property
    def installer(self):
        return Beside


class Beside(CopyInstaller):
    streams: ClassVar = None

    def __init__(self, options, site, server):
        super().__init__(options, site, server)
        self._schedule = SideStreamSchedule(site.ops, site.limits, server.depth, self.streams)


# --- compiled graphs ---


def test_a_compiled_graph_takes_only_what_can_be_part_of_it(simulator, monkeypatch):
    installer = beside(simulator).installer
    monkeypatch.setattr(torch.compiler, "is_dynamo_compiling", lambda: True)
    assert isinstance(installer._now(), InlineSchedule)
    monkeypatch.setattr(SideStreamSchedule, "compiles", True)
    assert installer._now() is installer._schedule


def test_a_schedule_that_compiles_is_traced_whole():
    """Marks, waits and streams of a whole step stand in one graph; torch's CPU streams run none."""

    torch._dynamo.reset()

    class Compiled(SideStreamSchedule):
        compiles = True

        def _event(self, streams):
            return streams.event()

    cpu, graphs = torch.device("cpu"), []
    current = torch.Stream(cpu)
    streams = Streams(lambda: current, lambda: torch.Stream(cpu), lambda: torch.Event(cpu))
    cache = make()
    schedule = Compiled(cache.site.ops, cache.site.limits, 2, streams)
    cache.installer._schedule = schedule
    for request in range(2):
        cache.admit(request)
        for layer in range(6):
            cache.prefill(request, layer, {"kv": records(layer, 0, CONTEXT, request)})

    def layers(step, new, ids):
        for layer in range(6):
            step.append(layer, {"kv": new})
            step.select(layer, ids if layer in OWNERS else None)
        step.join()
        return new + 1

    def keep(graph, inputs):
        graphs.append(graph)
        return lambda *given: (given[0],)

    new = torch.zeros((2, QUERIES, 16), dtype=torch.int32)
    ids = torch.zeros((2, QUERIES, 6), dtype=torch.int32)
    stepper = cache.stepper(2, QUERIES)
    with stepper.begin([0, 1], [CONTEXT + QUERIES] * 2) as step:
        torch.compile(layers, fullgraph=True, backend=keep)(step, new, ids)
    (graph,) = graphs
    named = [(str(node.target).split(".")[1], node) for node in graph.graph.nodes
             if str(node.target).startswith(("tierkv_reference.", "streams."))]  # fmt: skip
    order = [name for name, _ in named]
    follow = ["record_event", "wait_event"]
    install = ["serve", *follow, "install", "record_event"]
    owner = ["plan", *follow, "place_set_fifo", *install]
    buffer = ["wait_event"]  # from the third layer on, it is somebody's
    assert order == [
        "append", *owner, "append", *owner, "append", *buffer, *install,
        "append", *buffer, *install, "append", *buffer, *owner, "append", *buffer, *install,
        *follow,
    ]  # fmt: skip
    for name, node in named:
        if not name.endswith("_event"):
            beside = name in ("install", "place_set_fifo")
            assert ("stream" in node.meta.get("custom", {})) == beside, name


# --- failures, and where it is refused ---


def test_a_launch_that_fails_speaks_in_the_call_and_leaves_lanes_cold(simulator, monkeypatch):
    cache = beside(simulator)
    drive = Drive(cache).run(2)
    schedule = cache.installer._schedule

    def fail(*_):
        raise RuntimeError("no such kernel")

    with monkeypatch.context() as patch:
        patch.setattr(schedule, "_install", fail)
        pair = drive.requests[:2]
        lanes = [drive.lane[request] for request in pair]
        length = [drive.length[request] + QUERIES for request in pair]
        step = drive.steppers[0].begin(lanes, length)
        with pytest.raises(RuntimeError, match="no such kernel"), step:  # noqa: PT012
            step.append(0, {"kv": torch.zeros((2, QUERIES, 16), dtype=torch.int32)})
            step.select(0, drive.draw(2, QUERIES, 6))
    simulator.synchronize()
    assert bool((cache.site.policies[0].id_at[lanes] < 0).all())
    drive.step([pair])


@pytest.mark.parametrize("name", ["inline", "worker", "side-stream"])
@pytest.mark.parametrize("kind", ["cpu", "cuda", "npu"])
def test_schedules_are_for_devices(name, kind):
    class Device:
        type = kind

    refused = {("side-stream", "cpu"), ("worker", "cuda"), ("worker", "npu")}
    if (name, kind) not in refused:
        check_device(name, Device)
        return
    with pytest.raises(ConfigError, match=f"^installer.schedule: {name} .*device is {kind}"):
        check_device(name, Device)


def test_prompts_are_copied_at_once(simulator):
    assert not SideStreamSchedule.background
    assert make().offload._thread is None


def test_a_backend_may_bring_its_own(simulator):
    class Own(Ops):
        def make_side_stream(self, site, depth):
            self.asked = site, depth
            return InlineSchedule(site.ops)

    site = make().site
    ops = Own("own", "tierkv_reference")
    object.__setattr__(site, "ops", ops)
    assert isinstance(make_schedule("side-stream", site, 3), InlineSchedule)
    assert ops.asked == (site, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("policy", ["set-fifo", "lru"])
def test_on_cuda(policy):
    settings = {"device": "cuda", "backing": {"use": "device", "page": 16}}
    side = make(policy, "side-stream", **settings)
    assert isinstance(side.installer._schedule, SideStreamSchedule)
    Drive(side).run()
    other = Drive(make(policy, **settings)).run().cache
    compare(left_behind(other), left_behind(side))
    side.close()
