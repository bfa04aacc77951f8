"""A decode on the device: at once and from a captured graph, inline and on a side stream."""

import decoding
import pytest
import torch
from decoding import equals_reference, forward, make, settings_of
from hostsim.npu.device import Order, order

pytestmark = pytest.mark.usefixtures("collected")
SIDE = {"installer": {"schedule": "side-stream"}}


class Replayed:
    """Captures in the first step, or after some without a graph, and replays from there on."""

    def __init__(self, first=0):
        self.first, self.replays, self.graph = first, 0, None

    def __call__(self, step, decode):
        if self.first > 0:
            self.first -= 1
            return forward(step, decode.new, decode.ids)
        if self.graph is None:
            self.graph, self.captured = torch.npu.NPUGraph(), step
            with torch.npu.graph(self.graph):
                self.seen = forward(step, decode.new, decode.ids)
                step.join()
        step.replay(self.captured, self.graph.replay)
        self.replays += 1
        return self.seen


@pytest.mark.parametrize(
    ("queries", "policy"), [(1, "set-fifo"), (4, "set-fifo"), (4, "clock"), (1, "fifo")]
)
def test_equals_the_reference(kernels, queries, policy):
    with make(queries=queries, **settings_of(policy)) as cache:
        equals_reference(cache, queries, policy)
        assert all(group.hits and group.installs for group in cache.stats().groups)
    assert {"DsaAppend", "DsaPlan", "DsaCommit", "DsaServe", "DsaInstall"} <= set(kernels.runs)


@pytest.mark.parametrize(("queries", "replayed"), [(1, False), (4, False), (4, True)])
def test_the_fused_gather_equals_the_reference(kernels, queries, replayed):
    how = {"run": Replayed()} if replayed else {}
    with make(queries=queries, **settings_of("last-step")) as cache:
        equals_reference(cache, queries, "last-step", **how)
        assert cache.stats().groups[0].hits
    gather = {"GatherSelectionPlan", "GatherSelectionPlace", "GatherSelectionKvCache"}
    assert gather <= set(kernels.runs)


@pytest.mark.parametrize("chosen", [Order.LATE_SIDE, Order.LATE_MAIN])
@pytest.mark.parametrize("queries", [1, 4])
def test_side_stream_equals_the_reference(kernels, runtime, queries, chosen):
    with make(queries=queries, **SIDE) as cache, order(runtime, chosen):
        equals_reference(cache, queries)


@pytest.mark.parametrize(("queries", "first"), [(1, 0), (4, 2)])
def test_replays_equal_the_reference(kernels, queries, first):
    run = Replayed(first)
    with make(queries=queries) as cache:
        equals_reference(cache, queries, run=run)
    assert run.replays == decoding.STEPS - first


@pytest.mark.parametrize(
    ("queries", "chosen"), [(1, Order.LATE_SIDE), (4, Order.LATE_SIDE), (4, Order.LATE_MAIN)]
)
def test_replays_with_a_side_stream_equal_the_reference(kernels, runtime, queries, chosen):
    run = Replayed()
    with make(queries=queries, **SIDE) as cache, order(runtime, chosen):
        equals_reference(cache, queries, run=run)
    assert run.replays == decoding.STEPS
