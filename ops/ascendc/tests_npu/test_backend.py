"""The backend ``ascendc``: what it asks for, what it refuses, and that it leaves others alone."""

import os
import subprocess
import sys
from pathlib import Path

import decoding
import pytest
import torch

import tierkv
from tierkv.errors import ConfigError

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 32, torch.float16),))


def settle(top_k=32, **settings):
    """Check a configuration; nothing is allocated."""
    from tierkv import build
    from tierkv import config as configuration

    spec = tierkv.ModelSpec.uniform("test", top_k, [[0]], LAYOUT)
    source = {"device": "npu:0", "ops": "ascendc", "max_tokens": 512, "lanes": 2,
              "pool": {"slots": 128}} | settings  # fmt: skip
    return build.settle(configuration.read(source, model=spec))


@pytest.fixture
def refused(built):
    def check(match, **settings):
        with pytest.raises(ConfigError, match=match):
            settle(**settings)

    return check


@pytest.mark.parametrize("policy", ["lru", "set-lru", "sieve", "s3-fifo", "arc", "last-step",
                                    "unbounded"])  # fmt: skip
def test_policies_without_a_kernel_are_refused_by_name(refused, policy):
    slots = 512 if policy == "unbounded" else 128
    refused(rf"policy.use: has no kernel .*got '{policy}'; known clock, fifo, set-fifo",
            policy=policy, pool={"slots": slots})  # fmt: skip


def test_clock_over_the_whole_pool_is_refused(refused):
    refused(r"policy.ways: at most 64 .*got 'all'", policy={"use": "clock", "ways": "all"})


@pytest.mark.parametrize(
    ("match", "settings"),
    [
        (r"^model, top-k: at most 2,048", {"top_k": 2112}),
        (r"^queries: at most 16", {"queries": 17}),
        (r"^queries times top-k: at most 8,192", {"queries": 8, "top_k": 2048}),
        (r"^pool.slots: at most 16,384", {"pool": {"slots": 16_400}}),
        (r"^ops.mode: unknown mode.*known eager, npugraph_ex, ge_graph",
         {"ops": {"use": "ascendc", "mode": "graph"}}),
        (r"^installer.schedule: worker", {"installer": {"schedule": "worker"}}),
        (r"^ops.use: runs on npu, but device is cpu", {"device": "cpu"}),
    ],
)  # fmt: skip
def test_what_kernels_do_not_take_is_refused(refused, match, settings):
    refused(match, **settings)


def test_auto_takes_it_on_the_device(built):
    assert settle(ops="auto").ops.name == "ascendc"
    assert settle(ops="auto", device="cpu").ops.name != "ascendc"


def test_the_backing_is_host_memory_that_kernels_address(kernels):
    with decoding.make() as cache:
        (name,) = {type(cache.site.backing).__name__}
        assert name == "SwappedTier"
        assert cache.site.backing.view(0).device.type == "npu"
        assert cache.stats().backing_bytes == cache.footprint.backing
        assert cache.footprint.backing >= sum(
            cache.site.backing.view(layer).nbytes for layer in range(len(decoding.TYPES))
        )


def test_refused_host_memory_is_told(kernels, monkeypatch):
    import torch_npu

    def refuse(*_, **__):
        raise RuntimeError("aclrtMallocHost failed")

    monkeypatch.setattr(torch_npu, "empty_with_swapped_memory", refuse)
    with pytest.raises(tierkv.CapacityError, match=r"^backing.capacity: .*swapped memory.*failed"):
        decoding.make()


class TestMissing:
    """Each piece that is missing is named, with what to run."""

    def test_the_extension(self, refused, monkeypatch, tmp_path):
        from tierkv_ascendc import binding

        monkeypatch.setattr(binding, "EXTENSION", tmp_path / "_torch.so")
        refused(r"ops: there is no extension, .*\(run ops/ascendc/build.sh -t")

    @pytest.mark.parametrize("path", ["", "/nowhere", "another"])
    def test_the_operators(self, refused, monkeypatch, tmp_path, path):
        if path == "another":  # another vendor's operators, in a library of that name
            folder = tmp_path / "op_api" / "lib"
            folder.mkdir(parents=True)
            (folder / "libcust_opapi.so").write_bytes(b"aclnnTheirs")
            path = str(tmp_path)
        monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", path)
        refused(r"ops: ASCEND_CUSTOM_OPP_PATH names no folder .*run ops/ascendc/build.sh and .*"
                r"source vendors/tierkv/bin/set_env.bash")  # fmt: skip

    def test_a_library_that_does_not_load(self, built, monkeypatch, tmp_path):
        from tierkv_ascendc import libraries

        folder = tmp_path / "op_api" / "lib"
        folder.mkdir(parents=True)
        (folder / "libcust_opapi.so").write_bytes(b"aclnnDsaServeGetWorkspaceSize")
        monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path))
        with pytest.raises(ConfigError, match=r"ops: cannot be loaded, .*build.sh"):
            libraries.load.__wrapped__()

    def test_the_doctor_says_so(self, built, monkeypatch):
        from tierkv_ascendc.ascend_ops import AscendOps

        assert AscendOps.doctor().status == "ok"
        monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
        finding = AscendOps.doctor()
        assert finding.status == "warn"
        assert "ASCEND_CUSTOM_OPP_PATH" in finding.found
        assert "set_env.bash" in finding.do


ALONE = {key: value for key, value in os.environ.items() if not key.startswith("ASCEND")} | {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"
}


def alone(*command):
    """Run in a process without stand-ins: torch_npu is installed, CANN is not."""
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=ALONE
    )


def test_imports_leave_torch_npu_alone():
    ran = alone("-c", "import sys, tierkv, tierkv_ascendc; assert 'torch_npu' not in sys.modules")
    assert ran.returncode == 0, ran.stderr


def test_the_cpu_works_without_cann(tmp_path):
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import decoding
with decoding.make("cpu") as cache:
    assert len(list(decoding.Decode(cache, 1).steps(count=2))) == 2
assert "torch_npu" not in sys.modules
try:
    decoding.make("npu:0")
except Exception as error:
    print(error)
"""
    ran = alone("-c", code)
    assert ran.returncode == 0, ran.stderr
    assert "device: unknown device, got 'npu:0'" in ran.stdout
    assert "build.sh" in ran.stdout
    assert "import its extension of torch first" in ran.stdout


def test_the_doctor_explains_an_installation_without_cann():
    ran = alone("-c", "from tierkv.cli.main import main; main(['doctor'])")
    assert "without CANN" in ran.stdout
    assert "the CPU alone works" in ran.stdout
    assert "operators ascendc" in ran.stdout
