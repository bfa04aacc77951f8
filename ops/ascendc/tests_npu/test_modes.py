"""One description, three modes: twins and converters are right, whatever buffer is written."""

import pytest
import torch
from hostsim import Kernel
from hostsim.npu import ge

from tierkv.ops.schemas import SCHEMAS

NPU = "npu:0"
FOLDERS = {
    "DsaAppend": "dsa_append", "DsaPlan": "dsa_plan", "DsaCommit": "dsa_commit",
    "DsaServe": "dsa_serve", "DsaInstall": "dsa_install",
    "GatherSelectionPlan": "gather_selection_plan",
    "GatherSelectionPlace": "gather_selection_place",
    "GatherSelectionKvCache": "gather_selection_kv_cache",
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("compilers", "collected")


@pytest.fixture(scope="module")
def description():
    from tierkv_ascendc.operators import OPERATORS

    return OPERATORS


@pytest.mark.parametrize("name", [
    "append", "plan", "serve", "install", "place_set_fifo", "place_clock", "plan_gather",
    "place_gather", "gather",
])  # fmt: skip
def test_the_description_is_the_operator_s_definition(description, name):
    operator = description[name]
    definition = Kernel(FOLDERS[operator.type]).definition
    assert list(operator.inputs) == [each["name"] for each in definition["inputs"]]
    assert list(operator.outputs) == [each["name"] for each in definition["outputs"]]
    assert list(operator.attributes) == [each["name"] for each in definition["attrs"]]


def test_every_operator_of_the_device_is_described(description):
    device = {name for name in SCHEMAS if not name.startswith(("place_", "submit", "wait"))}
    assert set(description) == device | {"place_set_fifo", "place_clock", "place_gather"}


def rows():
    """What `install` copies: rows 2 and 0 of the selection to slots 3 and 1 of lane 1."""
    lanes, miss_from, count, slot = (
        torch.tensor(values, dtype=torch.int32).to(NPU)
        for values in ([1], [[2, 0, -1, -1]], [2], [[3, 1, -1, -1]])
    )
    selection = torch.arange(4 * 64, dtype=torch.uint8).view(1, 1, 4, 64).to(NPU)
    return lanes, miss_from, count, slot, selection


def expected(pool):
    selection = rows()[-1].cpu()[0, 0]
    pool = pool.cpu().clone()
    pool[1, 3], pool[1, 1] = selection[2], selection[0]
    return pool


def on_input(install, pool, lanes, miss_from, count, slot, selection):
    install(lanes, miss_from, count, slot, [selection], [pool])
    return pool + 1


def on_made(install, pool, lanes, miss_from, count, slot, selection):
    """The buffer is made in the graph."""
    made = pool * 2
    install(lanes, miss_from, count, slot, [selection], [made])
    return made + 1


def on_made_and_read(install, pool, lanes, miss_from, count, slot, selection):
    """What it held before is needed afterwards."""
    made = pool * 2
    before = made + 0
    kept = made.clone()
    install(lanes, miss_from, count, slot, [selection], [made])
    return made + before + kept


def on_part(install, pool, lanes, miss_from, count, slot, selection):
    """The buffer is part of one that is made in the graph: not its first lanes."""
    made = torch.cat([pool, pool * 3])
    install(lanes, miss_from, count, slot, [selection], [made[2:]])
    return made + 1


def wanted(run, pool):
    start = pool.cpu()
    if run is on_input:
        return expected(start) + 1, expected(start)
    if run is on_made:
        return expected(start * 2) + 1, start
    if run is on_part:
        return torch.cat([start, expected(start * 3)]) + 1, start
    return expected(start * 2) + start * 2 + start * 2, start


def eager(function):
    return function


def npugraph_ex(function):
    return torch.compile(function, backend="npugraph_ex", fullgraph=True, dynamic=False)


def ge_graph(function):
    return torch.compile(function, backend=ge.backend(), fullgraph=True, dynamic=False)


@pytest.mark.parametrize("mode", [eager, npugraph_ex, ge_graph])
@pytest.mark.parametrize("run", [on_input, on_made, on_made_and_read, on_part])
def test_whatever_buffer_is_written(kernels, run, mode):
    from tierkv_ascendc import converters
    from tierkv_ascendc.functional import Functional

    install = torch.ops.tierkv.install.default
    if mode is ge_graph:
        converters.register()
        install = Functional("install")
    with ge.captured() as graphs:
        compiled = mode(lambda *tensors: run(install, *tensors))
        for value in (1, 2):
            pool = torch.full((2, 8, 64), value, dtype=torch.uint8, device=NPU)
            result, left = wanted(run, pool)
            assert torch.equal(compiled(pool, *rows()).cpu(), result)
            assert torch.equal(pool.cpu(), left)
    if mode is ge_graph:
        (graph,) = graphs
        # GE writes in place what it is given: it is right for an input, else for a copy alone.
        (source,) = [op.input[5] for op in graph.proto.op if op.type == "DsaInstall"]
        (kind,) = [op.type for op in graph.proto.op if op.name == source.split(":")[0]]
        assert kind == ("Data" if run is on_input else "TensorMove")
