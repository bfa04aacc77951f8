"""Custom operators through libcust_opapi: a driver in Python, then an AscendC kernel."""

import pytest
import torch
from hostsim.npu import custom, device
from hostsim.npu.aclnn import Library
from hostsim.npu.kernels import KernelDriver

NPU = "npu:0"


class Scale:
    """``out = x * factor``, and ``total += x`` unless `total` is absent."""

    operator = custom.Operator(
        type="Scale",
        inputs=("x", "total"),
        outputs=("total", "out"),
        attributes=(("factor", "int"), ("negate", "bool")),
    )

    def plan(self, call):
        if call.tensors["x"].dim() != 1:
            raise ValueError("x must have one dimension")

    def run(self, call):
        x, total, out = (call.tensors[name] for name in ("x", "total", "out"))
        out.copy_(x * call.attributes["factor"] * (-1 if call.attributes["negate"] else 1))
        if total is not None:
            total.add_(x)
        if (x == 13).any():
            raise ValueError("13 is a bad number")


@pytest.fixture
def scale(runtime):
    folder = custom.build([Scale.operator], device.standins_folder(), device.BUILD)
    library = Library(folder)
    with custom.installed(runtime, Scale()):
        yield lambda *arguments: library.call("Scale", *arguments)


def _tensors():
    x, zeros = torch.arange(4, dtype=torch.int32), torch.zeros(2, 4, dtype=torch.int32)
    return (x.to(NPU), *zeros.to(NPU))


def test_runs_in_the_order_of_its_stream(scale, any_order):
    x, total, out = _tensors()
    x.add_(1)
    scale(x, total, 3, True, out)
    x.fill_(0)
    assert out.tolist() == [-3, -6, -9, -12]
    assert total.tolist() == [1, 2, 3, 4]
    scale(out, None, 2, False, out)
    assert out.tolist() == [-6, -12, -18, -24]


def test_runs_at_each_replay(scale, any_order):
    x, total, out = _tensors()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        scale(x, total, 2, False, out)
        doubled = out * 2
    assert total.tolist() == [0] * 4
    for _ in range(2):
        graph.replay()
    assert total.tolist() == [0, 2, 4, 6]
    assert doubled.tolist() == [0, 4, 8, 12]


def test_refusals_and_faults_are_named(scale):
    x, total, out = _tensors()
    with pytest.raises(RuntimeError, match="Scale: ValueError: x must have one dimension"):
        scale(x[None], total, 1, False, out)
    with pytest.raises(RuntimeError, match="x: not in memory of the device"):
        scale(x.cpu(), total, 1, False, out)
    with pytest.raises(RuntimeError, match="x: not contiguous"):
        scale(x[::2], total, 1, False, out)
    x.fill_(13)
    with pytest.raises(RuntimeError, match="Scale: ValueError: 13 is a bad number"):
        scale(x, total, 1, False, out)


def test_without_a_driver(runtime):
    folder = custom.build([Scale.operator], device.standins_folder(), device.BUILD)
    x, total, out = _tensors()
    with pytest.raises(RuntimeError, match="no driver"):
        Library(folder).call("Scale", x, total, 1, False, out)


def test_a_kernel_runs_in_the_core_model(runtime, any_order):
    """Rows of the selection go to their slots: `dsa_install` by its AscendC source."""
    driver = KernelDriver(["dsa_install"])
    folder = custom.build(driver.operators, device.standins_folder(), device.BUILD)
    lanes, miss_from, count, slot = (
        torch.tensor(values, dtype=torch.int32).to(NPU)
        for values in ([1], [[2, 0, -1, -1]], [2], [[3, 1, -1, -1]])
    )
    selection = torch.randint(0, 255, (1, 1, 4, 64), dtype=torch.uint8).to(NPU)
    pool = torch.zeros(2, 8, 64, dtype=torch.uint8, device=NPU)
    with custom.installed(runtime, driver):
        Library(folder).call("DsaInstall", lanes, miss_from, count, slot, selection, pool)
    expected = torch.zeros(2, 8, 64, dtype=torch.uint8)
    expected[1, 3], expected[1, 1] = selection[0, 0, 2].cpu(), selection[0, 0, 0].cpu()
    assert torch.equal(pool.cpu(), expected)
    assert driver.runs == {"DsaInstall": 1}
