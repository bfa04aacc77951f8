"""NPUGraph: captured work runs at each replay, with the memory of that time."""

import pytest
import torch
from hostsim.npu.device import Order

NPU = "npu:0"


def _captured(function):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = function()
    return graph, out


def test_replays_use_current_memory(any_order):
    x = torch.zeros(4, device=NPU)
    rows = torch.tensor([3, 0], device=NPU)
    graph, out = _captured(lambda: (x * 2)[rows] + x.max())
    for value in range(3):
        x.copy_(torch.arange(4.0) * value)
        graph.replay()
        assert out.tolist() == [9 * value, 3 * value]


def test_capture_runs_nothing(any_order):
    x = torch.zeros(4, device=NPU)
    graph, _ = _captured(lambda: x.fill_(3))
    assert x.tolist() == [0] * 4
    graph.replay()
    assert x.tolist() == [3] * 4


def _two_streams(x, *, joined=True, waits=True):
    side, main = torch.npu.Stream(), torch.npu.current_stream()
    y, out = torch.zeros_like(x), torch.zeros_like(x)
    side.wait_stream(main)
    with torch.npu.stream(side):
        torch.add(x, 1, out=y)
    if waits:
        main.wait_stream(side)
    torch.mul(y, 2, out=out)
    if joined and not waits:
        main.wait_stream(side)
    return out


def test_side_stream_joins_the_graph(any_order):
    x = torch.zeros(4, device=NPU)
    graph, out = _captured(lambda: _two_streams(x))
    for value in range(3):
        x.fill_(value)
        graph.replay()
        assert out.tolist() == [2 * value + 2] * 4


@pytest.mark.parametrize(("chosen", "right"), [(Order.EAGER, True), (Order.LATE_SIDE, False)])
def test_missing_wait_inside_of_a_graph(runtime, chosen, right):
    x = torch.zeros(4, device=NPU)
    graph, out = _captured(lambda: _two_streams(x, waits=False))
    runtime.hostnpu_set_order(chosen)
    x.fill_(4)
    graph.replay()
    assert (out.tolist() == [10] * 4) == right


def test_a_side_stream_that_never_joins_is_refused(runtime):
    x = torch.zeros(4, device=NPU)
    with pytest.raises(RuntimeError, match="never joined"):
        _captured(lambda: _two_streams(x, joined=False, waits=False))
    assert (x + 1).tolist() == [1] * 4


@pytest.mark.parametrize(
    "wait", [lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: torch.npu.synchronize()]
)
def test_the_host_may_not_wait_in_a_capture(runtime, capfd, wait):
    x = torch.zeros(4, device=NPU)
    with pytest.raises(RuntimeError, match="captured"):
        _captured(lambda: wait(x))
    assert (x + 1).tolist() == [1] * 4


def test_graphs_follow_each_other(any_order):
    x = torch.zeros(4, device=NPU)
    first, _ = _captured(lambda: x.add_(1))
    second, _ = _captured(lambda: x.mul_(3))
    for _ in range(2):
        first.replay()
        second.replay()
    assert x.tolist() == [12] * 4
