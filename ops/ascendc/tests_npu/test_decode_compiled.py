"""A decode through ``torch.compile(backend="npugraph_ex")``, and what its passes make of it."""

import contextlib

import pytest
import torch
from decoding import equals_reference, forward, make
from hostsim.npu.device import Order, order

pytestmark = pytest.mark.usefixtures("collected")
SIDE = {"installer": {"schedule": "side-stream"}}
COMPILED = {"ops": {"use": "ascendc", "mode": "npugraph_ex"}}


@contextlib.contextmanager
def final_graphs():
    """Collect the graphs that npugraph_ex captures, after its passes."""
    import npugraph_ex  # noqa: F401  # the lazy module must be there first
    from npugraph_ex._acl_concrete_graph import graph_pass

    graphs, last = [], graph_pass.resolve_default_stream_markers

    def keep(graph):
        last(graph)
        graphs.append(graph.graph)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_pass, "resolve_default_stream_markers", keep)
        yield graphs


class Compiled:
    """All layers of a step in one graph, which every step replays."""

    def __init__(self):
        torch._dynamo.reset()
        self.run = torch.compile(self._step, backend="npugraph_ex", fullgraph=True, dynamic=False)

    @staticmethod
    def _step(step, new, ids):
        seen = forward(step, new, ids)
        step.join()
        return seen

    def __call__(self, step, decode):
        return self.run(step, decode.new, decode.ids)


def names(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    ("queries", "schedule", "chosen"),
    [(1, {}, Order.EAGER), (4, {}, Order.EAGER),
     (1, SIDE, Order.LATE_SIDE), (4, SIDE, Order.LATE_MAIN), (4, SIDE, Order.LATE_SIDE)],
)  # fmt: skip
def test_equals_the_reference(kernels, runtime, queries, schedule, chosen):
    settings = COMPILED | schedule
    with (
        final_graphs() as graphs,
        make(queries=queries, **settings) as cache,
        order(runtime, chosen),
    ):
        equals_reference(cache, queries, run=Compiled())
    (graph,) = graphs
    found = names(graph)
    counts = {name: found.count(f"tierkv.{name}.default")
              for name in ("plan", "place_set_fifo", "serve", "install")}  # fmt: skip
    assert counts == {"plan": 3, "place_set_fifo": 3, "serve": 8, "install": 8}
    # Everything is in place: not one buffer is cloned or written back.
    assert not [name for name in found if "clone" in name or "copy" in name]
    assert ("npugraph_ex.scope_enter.default" in found) == bool(schedule)
