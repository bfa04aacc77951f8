"""``torch.ops.tierkv`` on the device: binding, stand-ins and AscendC kernels in one piece."""

import shutil
import subprocess
import sys

import pytest
import torch
from hostsim.npu import custom, device
from hostsim.npu.kernels import KernelDriver
from tierkv_ascendc import binding

import tierkv.ops  # noqa: F401

NPU = "npu:0"
LANES, BATCH, QUERIES, TOP_K, SLOTS, ROWS, WIDTH = 4, 2, 2, 8, 16, 64, 96

pytestmark = pytest.mark.skipif(not shutil.which("cmake"), reason="the binding needs cmake")


@pytest.fixture(scope="session")
def driver():
    """The binding is loaded; calls reach the kernels of the driver."""
    folder = device.BUILD / "torch"
    root = device.BUILD.parents[1]
    configure = ["cmake", "-S", root, "-B", folder, "-DTIERKV_TORCH=ON"]
    for command in (
        [*configure, f"-DPython3_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", folder],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    driver = KernelDriver(["dsa_append", "dsa_serve", "dsa_install"])
    library = custom.build(driver.operators, device.standins_folder(), device.BUILD)
    binding.load(library / "op_api" / "lib" / custom.NAME, extension=folder / "_torch.so")
    with custom.installed(device.load(), driver):
        yield driver


def _bytes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def _numbers(values):
    return torch.tensor(values, dtype=torch.int32)


def _step():
    """Rows of a step by name: the plan says hits, misses, a fresh row and nothing."""
    torch.manual_seed(3)
    kind = torch.tensor([1, 2, 2, 1, 5, 4, 0, 0], dtype=torch.int8).expand(BATCH, QUERIES, -1)
    index = torch.tensor([3, 10, 11, 7, 1, 20, 0, 0], dtype=torch.int32)
    return {
        "lanes": _numbers([2, 0]),
        "kind": kind.contiguous(),
        "index": index.expand(BATCH, QUERIES, -1).contiguous(),
        "rows": _numbers([[20, 21], [22, -1]]),
        "miss_from": _numbers([[1, 2] + [-1] * 14] * BATCH),
        "miss_count": _numbers([2, 1]),
        "slot": _numbers([[3, 9] + [-1] * 14] * BATCH),
        "part": _bytes(BATCH, QUERIES, WIDTH),
        "fresh": torch.zeros(BATCH, QUERIES, WIDTH, dtype=torch.uint8),
        "pool": _bytes(LANES, SLOTS, WIDTH),
        "backing": _bytes(ROWS, WIDTH),
        "out": torch.zeros(BATCH, QUERIES, TOP_K, WIDTH, dtype=torch.uint8),
    }


def _append_and_serve(ops, s):
    ops.append([s["part"]], s["rows"], [s["fresh"]], [s["backing"]])
    rows = [s["fresh"]], [s["pool"]], [s["backing"]], [s["out"]]
    ops.serve(s["lanes"], s["kind"], s["index"], *rows)


def _install(ops, s):
    plan = s["lanes"], s["miss_from"], s["miss_count"], s["slot"]
    ops.install(*plan, [s["out"]], [s["pool"]])


@pytest.fixture
def expected():
    """`_step` after one step, by the reference on the CPU."""
    step = _step()
    _append_and_serve(torch.ops.tierkv_reference, step)
    _install(torch.ops.tierkv_reference, step)
    return step


def _on_side_stream(s, *, waits=True):
    """The installation runs beside the main stream, which then needs the pool."""
    main, side = torch.npu.current_stream(), torch.npu.Stream()
    _append_and_serve(torch.ops.tierkv, s)
    side.wait_stream(main)
    with torch.npu.stream(side):
        _install(torch.ops.tierkv, s)
    if waits:
        main.wait_stream(side)
    seen = s["pool"].clone()
    main.wait_stream(side)
    return seen


def _npu(step):
    return {name: tensor.to(NPU) for name, tensor in step.items()}


def test_equals_the_reference(driver, any_order, expected):
    step = _npu(_step())
    runs = dict(driver.runs)
    seen = _on_side_stream(step)
    for name, tensor in step.items():
        assert torch.equal(tensor.cpu(), expected[name]), name
    assert torch.equal(seen.cpu(), expected["pool"])
    assert {name: driver.runs[name] - runs.get(name, 0) for name in driver.runs} == {
        "DsaAppend": 1, "DsaServe": 1, "DsaInstall": 1,
    }  # fmt: skip


def test_replays_in_a_graph(driver, any_order, expected):
    step, graph = _npu(_step()), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        seen = _on_side_stream(step)
    for _ in range(2):
        for name, tensor in _step().items():
            step[name].copy_(tensor)
        graph.replay()
        assert torch.equal(seen.cpu(), expected["pool"])
        assert torch.equal(step["out"].cpu(), expected["out"])


def test_a_missing_wait_shows(driver, runtime, expected):
    with device.order(runtime, device.Order.LATE_SIDE):
        seen = _on_side_stream(_npu(_step()), waits=False)
    assert not torch.equal(seen.cpu(), expected["pool"])


def test_the_tiling_refuses(driver, runtime):
    step = _npu(_step())
    step["slot"] = step["slot"][:, :3].contiguous()
    with pytest.raises(RuntimeError, match=r"DsaInstall.*slot"):
        _install(torch.ops.tierkv, step)
