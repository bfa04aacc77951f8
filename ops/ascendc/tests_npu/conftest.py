"""torch_npu on a device in host memory. Without torch_npu there is nothing to collect."""

import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch would load torch_npu by itself, too early

if importlib.util.find_spec("torch_npu") is None:
    collect_ignore_glob = ["*"]
else:
    from hostsim.npu import device

    RUNTIME = device.load()

    import torch

    torch.set_num_threads(1)  # tensors are small, and the device waits for its own threads
    gc.disable()  # a graph that is collected within a capture ends the process; see `collected`


FOLDERS = (
    "dsa_append", "dsa_plan", "dsa_commit", "dsa_serve", "dsa_install",
    "gather_selection_plan", "gather_selection_place", "gather_selection_kv_cache",
)  # fmt: skip


@pytest.fixture(scope="session")
def built():
    """The extension as `build.sh -t` makes it, and operators' library: (driver, opp folder)."""
    from hostsim.npu import custom
    from hostsim.npu.kernels import KernelDriver
    from tierkv_ascendc import binding

    if not shutil.which("cmake"):
        pytest.skip("the extension needs cmake")
    folder = device.BUILD / "torch"
    configure = ["cmake", "-S", device.BUILD.parents[1], "-B", folder, "-DTIERKV_TORCH=ON"]
    for command in (
        [*configure, f"-DPython3_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", folder],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    driver = KernelDriver(FOLDERS, cores=4)
    library = custom.build(driver.operators, device.standins_folder(), device.BUILD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "EXTENSION", folder / "_torch.so")
        patch.setenv("ASCEND_CUSTOM_OPP_PATH", str(library))
        yield driver


@pytest.fixture(scope="module")
def kernels(built):
    """``torch.ops.tierkv`` on the device runs the kernels of this driver."""
    from hostsim.npu import custom
    from tierkv_ascendc import libraries

    libraries.load()
    with custom.installed(RUNTIME, built):
        yield built


@pytest.fixture(scope="session")
def compilers():
    """GE's and npugraph_ex, in the one order in which a process can have both."""
    import torch
    from torchair._ge_concrete_graph import fx2ge_converter  # noqa: F401

    run = torch.compile(lambda x: x + 1, backend="npugraph_ex", dynamic=False)
    run(torch.ones(4, device="npu:0"))
    torch._dynamo.reset()


@pytest.fixture
def collected():
    """Graphs of earlier tests are gone: one that is collected in a capture ends the process."""
    import torch

    torch._dynamo.reset()
    gc.collect()


@pytest.fixture
def runtime():
    """The stand-in of CANN's runtime, eager and without work that is left."""
    import torch

    RUNTIME.hostnpu_set_order(device.Order.EAGER)
    torch.npu.set_stream(torch.npu.default_stream())  # a failed capture leaves its own
    yield RUNTIME
    torch.npu.synchronize()
    assert RUNTIME.hostnpu_pending() == 0


@pytest.fixture(params=list(device.Order) if importlib.util.find_spec("torch_npu") else [])
def any_order(request, runtime):
    """The test runs once in every order that streams allow."""
    with device.order(runtime, request.param):
        yield request.param
