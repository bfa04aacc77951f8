"""A step's launches captured into a graph, and replayed with other lengths, lanes and selections.

On the CPU streams and graphs are simulated, see conftest.py.
"""

import pytest
import torch

import tierkv
from tierkv.errors import StateError
from tierkv.schedules.side_stream_schedule import SideStreamSchedule

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 8, torch.int32),))
SPEC = tierkv.ModelSpec.uniform("test", 6, [[0], [1, 2, 3], [4, 5]], LAYOUT)
OWNERS = {0: 0, 1: 1, 4: 2}
LANES, QUERIES, CONTEXT, STEPS = 4, 2, 40, 12


def make():
    cache = tierkv.load(
        {"ops": "reference", "pool": {"slots": 12}, "policy": {"use": "clock", "ways": 4},
         "backing": {"page": 16}},
        model=SPEC, lanes=LANES, max_tokens=CONTEXT + 2 * STEPS, queries=QUERIES,
    )  # fmt: skip
    for lane in [cache.admit(number) for number in range(LANES)]:
        for layer in range(6):
            cache.prefill(lane, layer, {"kv": rows(layer, 0, CONTEXT, lane)})
    return cache


def rows(layer, start, stop, lane):
    position = torch.arange(start, stop, dtype=torch.int32)[:, None]
    return position * 1000 + layer * 10 + lane + torch.zeros(8, dtype=torch.int32)


class Model:
    """The layers of a model, on static inputs; what attention reads in each layer is kept."""

    def __init__(self):
        self.ids = [torch.zeros((3, QUERIES, 6), dtype=torch.int32) for _ in OWNERS]
        self.new = list(torch.zeros((6, 3, QUERIES, 8), dtype=torch.int32))
        self.out = list(torch.zeros((6, 3, QUERIES, 6, 8), dtype=torch.int32))

    def fill(self, lanes, kv_len, generator):
        for ids in self.ids:
            ids.copy_(torch.randint(-1, max(kv_len), ids.shape, generator=generator))
        for row, (lane, stop) in enumerate(zip(lanes, kv_len, strict=True)):
            for layer in range(6):
                self.new[layer][row] = rows(layer, stop - QUERIES, stop, lane)

    def layers(self, step):
        for layer in range(6):
            step.append(layer, {"kv": self.new[layer]})
            kv = step.select(layer, self.ids[OWNERS[layer]] if layer in OWNERS else None)
            torch.ops.tierkv_attend.attend(kv["kv"], self.out[layer])

    def check(self, lanes, kv_len):
        for layer in range(6):
            ids = self.ids[max(group for owner, group in OWNERS.items() if owner <= layer)]
            for row, (lane, stop) in enumerate(zip(lanes, kv_len, strict=True)):
                for query in range(QUERIES):
                    seen = [at for at in ids[row, query].tolist()
                            if 0 <= at <= stop - QUERIES + query]  # fmt: skip
                    found = self.out[layer][row, query, :, 0].tolist()
                    wanted = [at * 1000 + layer * 10 + lane for at in seen]
                    assert found == wanted + [0] * (6 - len(seen))


def attend(records, out):
    out.copy_(records)


LIBRARY = torch.library.Library("tierkv_attend", "FRAGMENT")
LIBRARY.define("attend(Tensor records, Tensor(a!) out) -> ()")
LIBRARY.impl("attend", attend, "CPU")


def courses():
    """Lanes and lengths of each step."""
    generator, length = torch.Generator().manual_seed(1), [CONTEXT] * LANES
    for _ in range(STEPS):
        lanes = torch.randperm(LANES, generator=generator).tolist()[:3]
        for lane in lanes:
            length[lane] += QUERIES
        yield lanes, [length[lane] for lane in lanes]


def drive(cache, run):
    """Make every step by ``run(step, model)``; check what attention saw."""
    stepper, model = cache.stepper(3, QUERIES), Model()
    generator = torch.Generator().manual_seed(0)
    for lanes, kv_len in courses():
        model.fill(lanes, kv_len, generator)
        with stepper.begin(lanes, kv_len) as step:
            run(step, model)
        model.check(lanes, kv_len)
    cache.installer.drain()


def left_behind(cache):
    tables = [table for policy in cache.site.policies for table in policy.tables]
    return [*tables, cache.site.counters, torch.from_numpy(cache.lengths.tiered)]


@pytest.fixture(scope="module")
def eager():
    cache = make()
    drive(cache, lambda step, model: model.layers(step))
    return left_behind(cache)


@pytest.fixture
def cache(eager, simulator):
    """A cache with a side stream; what is late is late in every way."""
    made = make()
    site, depth = made.site, made.server.depth
    made.installer._schedule = SideStreamSchedule(site.ops, site.limits, depth, simulator.streams)
    return made


class Replayed:
    """Captures in the first step, or after some steps without a graph; replays from there on."""

    def __init__(self, simulator, first=0, join=True):
        self.simulator, self.first, self.join = simulator, first, join
        self.graph = self.captured = None
        self.replays = 0

    def __call__(self, step, model):
        if self.first > 0:
            self.first -= 1
            model.layers(step)
            return
        if self.graph is None:
            self.captured = step
            with self.simulator.capture() as self.graph:
                model.layers(step)
                if self.join:
                    step.join()
        step.replay(self.captured, self.graph.replay)
        self.replays += 1


@pytest.mark.parametrize("first", [0, 3])
def test_replays_equal_steps_without_a_graph(cache, eager, simulator, first):
    run = Replayed(simulator, first)
    drive(cache, run)
    assert run.replays == STEPS - first
    for mine, yours in zip(left_behind(cache), eager, strict=True):
        assert torch.equal(mine, yours)


def test_a_graph_that_leaves_the_side_stream_behind_is_refused(cache, simulator):
    with pytest.raises(AssertionError, match="was not joined"):
        drive(cache, Replayed(simulator, join=False))


def test_steps_with_and_without_a_graph_may_alternate(cache, eager, simulator):
    replayed, count = Replayed(simulator), iter(range(STEPS))
    drive(cache, lambda step, model: replayed(step, model) if next(count) % 3 else
          model.layers(step))  # fmt: skip
    for mine, yours in zip(left_behind(cache), eager, strict=True):
        assert torch.equal(mine, yours)


class TestBooks:
    """What a replay may not do; nothing is launched then."""

    @pytest.fixture
    def cache(self):
        return make()

    @pytest.fixture
    def captured(self, cache):
        stepper, model = cache.stepper(3, QUERIES), Model()
        with stepper.begin([0, 1, 2], [CONTEXT + 2] * 3) as step:
            model.layers(step)
        return step

    def refused(self, step, captured, match):
        with pytest.raises(StateError, match=match):
            step.replay(captured, lambda: pytest.fail("it was launched"))

    def test_another_stepper(self, cache, captured):
        other = cache.stepper(3, QUERIES)
        step = other.begin([0, 1, 2], [CONTEXT + 4] * 3)
        self.refused(step, captured, "another stepper's buffers")

    def test_a_layer_that_was_appended_already(self, cache, captured):
        step = captured.stepper.begin([0, 1, 2], [CONTEXT + 4] * 3)
        step.append(1, {"kv": torch.zeros((3, QUERIES, 8), dtype=torch.int32)})
        self.refused(step, captured, r"layers \[1, 2, 3\] were appended")

    def test_a_group_that_may_not_be_touched(self, cache, captured):
        cache.prefill(1, 2, {"kv": rows(2, 0, 8, 1)}, start=CONTEXT)
        step = captured.stepper.begin([0, 1, 2], [CONTEXT + 4] * 3)
        self.refused(step, captured, r"replay: lane 1 needs 42 tokens")

    def test_it_advances_what_was_captured(self, cache, captured):
        with captured.stepper.begin([0, 1, 3], [CONTEXT + 4, CONTEXT + 4, CONTEXT + 2]) as step:
            step.replay(captured, lambda: None)
        assert [cache.length(lane) for lane in range(4)] == [44, 44, 42, 42]

    def test_a_replay_that_fails_leaves_lanes_cold(self, cache, captured):
        def run():
            raise RuntimeError("lost the device")

        assert bool((cache.site.policies[0].id_at[0] >= 0).any())
        step = captured.stepper.begin([0, 1, 2], [CONTEXT + 4] * 3)
        with pytest.raises(RuntimeError, match="lost the device"), step:
            step.replay(captured, run)
        assert bool((cache.site.policies[0].id_at[:3] < 0).all())
        assert cache.length(0) == CONTEXT + 2

    def test_a_selection_used_again_must_still_hold(self, cache):
        stepper, model = cache.stepper(3, QUERIES), Model()

        def reuse(step):
            for layer in (4, 5):
                step.append(layer, {"kv": model.new[layer]})
                step.reuse(layer)

        def begin(kv_len):
            return stepper.begin([0, 1, 2], [kv_len] * 3)

        with begin(CONTEXT + 2) as step:
            model.layers(step)
        with begin(CONTEXT + 4) as captured:
            reuse(captured)
        step = begin(CONTEXT + 6)
        step.replay(captured, lambda: None)
        assert step.selected[4:] == [True, True]
        for request in range(3):
            cache.truncate(request, CONTEXT)
        self.refused(begin(CONTEXT + 2), captured, "reuse, layer 4: .*select it")
