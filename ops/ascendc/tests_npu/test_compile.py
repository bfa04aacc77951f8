"""torch.compile for the device: npugraph_ex runs captured graphs, GE's graph is looked at."""

import pytest
import torch
import torchair
from hostsim.npu import ge
from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

NPU = "npu:0"


@pytest.fixture(scope="module", autouse=True)
def operators():
    """``bump_(x, by)`` in place and its twin ``bump(x, by)``."""
    library = torch.library.Library("host_npu", "DEF")
    library.define("bump_(Tensor(a!) x, int by) -> ()")
    library.define("bump(Tensor x, int by) -> Tensor")

    def bump_(x, by):
        x.add_(by)

    library.impl("bump_", bump_, "PrivateUse1")
    library.impl("bump_", lambda x, by: None, "Meta")
    library.impl("bump", lambda x, by: x + by, "PrivateUse1")
    library.impl("bump", lambda x, by: torch.empty_like(x), "Meta")

    @register_fx_node_ge_converter(torch.ops.host_npu.bump.default)
    def convert(x, by, meta_outputs=None):
        return torchair.ge.custom_op(
            "Bump", inputs={"x": x}, outputs=["x"], attrs={"by": torchair.ge.attr.Int(by)}
        )

    yield
    library._destroy()


@pytest.fixture
def compiled(runtime):
    torch._dynamo.reset()
    yield lambda function: torch.compile(function, backend="npugraph_ex", dynamic=False)
    torch._dynamo.reset()


def test_npugraph_ex_runs_a_mutating_operator(compiled, any_order):
    x, y = torch.zeros(4, device=NPU), torch.ones(4, device=NPU)

    def step(x, y):
        torch.ops.host_npu.bump_(x, 3)
        return x * 2 + y

    run = compiled(step)
    for i in range(1, 4):
        assert run(x, y).tolist() == [6 * i + 1] * 4
        assert x.tolist() == [3 * i] * 4


def test_npugraph_ex_captures_a_side_stream(compiled, any_order):
    side = torch.npu.Stream()

    def step(x):
        main = torch.npu.current_stream()
        begin, end = torch.npu.Event(), torch.npu.Event()
        begin.record(main)
        with torch.npu.stream(side):
            side.wait_event(begin)
            y = x * 2
            end.record(side)
        main.wait_event(end)
        return y + 1

    run, x = compiled(step), torch.zeros(4, device=NPU)
    for i in range(3):
        x.fill_(i)
        assert run(x).tolist() == [2 * i + 1] * 4


def test_ge_graph_of_plain_operators(runtime):
    with ge.captured() as graphs:
        run = torch.compile(lambda x, y: (x + y) * 2, backend=ge.backend(), dynamic=False)
        assert run(torch.ones(4, device=NPU), torch.ones(4, device=NPU)).tolist() == [4] * 4
    (graph,) = graphs
    assert graph.types.count("Data") == 2
    assert {"Add", "Mul", "NetOutput"} <= set(graph.types)
    assert graph.written_inputs == set()


def test_ge_graph_of_an_operator_in_place(runtime):
    def step(x, y):
        x.copy_(torch.ops.host_npu.bump(x, 3))
        return x + y

    x, y = torch.zeros(4, device=NPU), torch.ones(4, device=NPU)
    with ge.captured() as graphs:
        run = torch.compile(step, backend=ge.backend(), dynamic=False)
        assert run(x, y).tolist() == [4] * 4
        assert x.tolist() == [3] * 4
    (graph,) = graphs
    assert graph.node("Bump").attr["by"].i == 3
    assert graph.written_inputs
    assert "TensorMove" not in graph.types
