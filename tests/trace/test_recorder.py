"""Recording: the trace holds what was selected; a full buffer drops steps and never waits."""

import numpy as np
import pytest
import torch

from tierkv.errors import StateError, TraceError
from tierkv.testing.assemble import Shape, assemble
from tierkv.trace import open_trace
from tierkv.trace.recorder import Recorder

SHAPE = Shape(lanes=4, queries=3, top_k=6, max_tokens=96, groups=((0,), (1, 2)))
LAYERS = 3
OWNERS = {0: 0, 1: 1}


def start(cache, request, tokens=20):
    lane = cache.admit(request)
    for layer in range(LAYERS):
        stride = cache.limits.spec.layouts[layer].stride
        cache.prefill(request, layer, torch.zeros(tokens, stride, dtype=torch.uint8))
    return lane


class Run:
    """A cache that decodes, and what it was asked to select."""

    def __init__(self):
        self.cache = assemble(SHAPE)
        self.random = np.random.default_rng(0)
        self.wanted = []

    def step(self, lanes, kv_len, queries=1, groups=(0, 1), **rows):
        ids = torch.full((2, len(lanes), queries, SHAPE.top_k), -1, dtype=torch.int32)
        with self.cache.step(lanes, kv_len, queries=queries, **rows) as step:
            for layer in range(LAYERS):
                group = self.cache.limits.spec.group_of[layer]
                if group not in groups:
                    continue
                stride = self.cache.limits.spec.layouts[layer].stride
                shape = (len(lanes), queries, stride)
                step.append(layer, torch.zeros(shape, dtype=torch.uint8))
                if layer in OWNERS:
                    pick = [
                        [self.random.permutation(15)[: SHAPE.top_k] for _ in range(queries)]
                        for _ in lanes
                    ]
                    ids[group] = torch.tensor(np.array(pick))
                step.select(layer, ids[group] if layer in OWNERS else None)
        self.wanted.append(ids.numpy())


@pytest.fixture
def run():
    with (run := Run()).cache:
        yield run


def test_the_trace_is_what_was_selected(run, tmp_path):
    one, other = start(run.cache, "one"), start(run.cache, "other", 30)
    with torch.inference_mode(), Recorder(run.cache, tmp_path / "a.npz") as recorder:
        for step in range(8):
            run.step([other, -1, one], [31 + step, 0, 21 + step])
        run.step([one], [31], queries=3)
        run.cache.release("one")
        again = start(run.cache, "new")
        assert again == one
        run.step([one, other], [21, 39], queries=1)
        run.step([one], [23], queries=3, q_len=[2], stable=[21], groups=(1,))
    trace = open_trace(tmp_path / "a.npz")
    assert recorder.dropped == 0
    assert (trace.steps, trace.groups, trace.lanes, trace.queries) == (11, 2, 4, 3)
    ids = trace.ids()
    for step in range(8):
        np.testing.assert_array_equal(ids[step, :, other, 2], run.wanted[step][:, 0, 0])
        np.testing.assert_array_equal(ids[step, :, one, 2], run.wanted[step][:, 2, 0])
        assert (ids[step, :, :, :2] == -1).all()
    np.testing.assert_array_equal(ids[8, :, one], run.wanted[8][:, 0])
    assert (ids[10, 0] == -1).all()
    assert (ids[10, 1, one, 0] == -1).all()
    np.testing.assert_array_equal(ids[10, 1, one, 1:], run.wanted[10][1, 0, 1:])
    assert trace.request[[0, 8, 9, 10], one].tolist() == [0, 0, 2, 2]
    assert trace.request[[0, 8, 9, 10], other].tolist() == [1, -1, 1, -1]
    assert trace.kv_len[:, one].tolist() == [*range(21, 29), 31, 21, 23]
    assert trace.q_len[:, one].tolist() == [1] * 8 + [3, 1, 2]
    assert trace.stable[:, one].tolist() == [*range(20, 28), 28, 20, 21]
    assert trace.meta["layers"] == [[0], [1, 2]]
    assert trace.meta["dropped"] == 0
    assert trace.meta["page"] == SHAPE.page


def test_steps_that_raised_are_not_recorded(run, tmp_path):
    lane = start(run.cache, "one")
    with Recorder(run.cache, tmp_path / "a.npz"):
        run.step([lane], [21])
        with (
            pytest.raises(StateError),
            run.cache.step([lane], [22], queries=1) as step,
        ):
            step.append(0, torch.zeros(1, 1, 64, dtype=torch.uint8))
        run.step([lane], [22])
    assert open_trace(tmp_path / "a.npz").kv_len[:, lane].tolist() == [21, 22]


def test_a_full_buffer_drops_and_counts(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tierkv.trace.recorder._PAUSE", 3600)  # the thread never looks
    lane = start(run.cache, "one")
    with Recorder(run.cache, tmp_path / "a.npz", slots=5) as recorder:
        for step in range(12):
            run.step([lane], [21 + step])
        assert recorder.dropped == 7
    trace = open_trace(tmp_path / "a.npz")
    assert trace.kv_len[:, lane].tolist() == [21, 22, 23, 24, 25]
    assert trace.meta["dropped"] == 7
    np.testing.assert_array_equal(trace.ids()[:, :, lane, 2], np.stack(run.wanted[:5])[:, :, 0, 0])


def test_a_small_buffer_is_used_again(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tierkv.trace.recorder._PAUSE", 0.0001)
    lane = start(run.cache, "one")
    with Recorder(run.cache, tmp_path / "a.npz", slots=2) as recorder:
        for step in range(60):
            run.step([lane], [21 + step])
    trace = open_trace(tmp_path / "a.npz")
    assert trace.steps + recorder.dropped == 60
    for row, kv_len in enumerate(trace.kv_len[:, lane]):
        np.testing.assert_array_equal(
            trace.ids()[row, :, lane, 2], run.wanted[kv_len - 21][:, 0, 0]
        )


def test_recording_ends(run, tmp_path):
    lane = start(run.cache, "one")
    with Recorder(run.cache, tmp_path / "a.npz"):
        run.step([lane], [21])
        with pytest.raises(StateError, match="is being recorded already"):
            Recorder(run.cache, tmp_path / "b.npz")
    run.step([lane], [22])
    with Recorder(run.cache, tmp_path / "b.npz"):
        run.step([lane], [23])
    assert open_trace(tmp_path / "a.npz").steps == open_trace(tmp_path / "b.npz").steps == 1


def fail_after(call, *arguments):
    call(*arguments)
    raise KeyError


def test_an_error_keeps_the_steps_before_it(run, tmp_path):
    lane = start(run.cache, "one")
    with pytest.raises(KeyError), Recorder(run.cache, tmp_path / "a.npz"):
        fail_after(run.step, [lane], [21])
    assert open_trace(tmp_path / "a.npz").steps == 1
    with pytest.raises(KeyError), Recorder(run.cache, tmp_path / "b.npz"):
        fail_after(len, ())
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_a_disk_that_fills_up_is_told_at_the_end(run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    lane = start(run.cache, "one")
    recorder = Recorder(run.cache, tmp_path / "a.npz")
    monkeypatch.setattr(np.lib.format, "write_array", full)
    monkeypatch.setattr(recorder._writer, "_ids", recorder._writer._ids[:1])
    run.step([lane], [21])
    with pytest.raises(TraceError, match="No space left"):
        recorder.close()
    run.step([lane], [22])
    assert list(tmp_path.iterdir()) == []
