import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

from tierkv.cli import checks
from tierkv.cli.checks import CHECKS, Status
from tierkv.integrations import releases

ROOT = Path(__file__).parents[2]


@pytest.fixture
def version(monkeypatch):
    """Say which version a distribution has; None if it is not there."""
    real = checks._version

    def pretend(name, version):
        monkeypatch.setattr(
            checks, "_version", lambda asked: version if asked == name else real(asked)
        )

    return pretend


def test_this_machine(invoke):
    result = invoke("doctor", "--json")
    report = json.loads(result.output)
    assert result.exit_code == (0 if report["good"] else 1)
    names = [check["check"].replace(" ", "_") for check in report["checks"]]
    assert names[: len(CHECKS)] == [check.__name__ for check in CHECKS]
    for check in report["checks"]:
        assert check["status"] in ("ok", "warn", "fail")
        assert check["found"]
        if check["status"] == "warn":
            assert check["do"]
    assert all(check.__doc__ for check in CHECKS)


def test_people_get_a_line_a_check(invoke):
    lines = invoke("doctor").output.splitlines()
    assert sum(line.startswith(("ok", "warn", "fail")) for line in lines) >= len(CHECKS)


def test_a_broken_plugin_fails(invoke, distribution):
    distribution("broken-one", "import no_such_module")
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "plugin broken-one (broken-one 1.0): does not load" in result.output


def test_a_check_that_breaks_is_a_failure_not_a_traceback(invoke, monkeypatch):
    def broken():
        raise RuntimeError("it\nbreaks")

    monkeypatch.setattr("tierkv.cli.doctor.CHECKS", (broken,))
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "RuntimeError: it breaks" in result.output


class TestTransformers:
    @pytest.mark.parametrize(
        ("installed", "status"),
        [("5.18.0", Status.OK), ("5.24.0", Status.OK), ("5.17.1", Status.FAIL),
         ("6.0.0rc1", Status.FAIL), ("4.57.3", Status.FAIL), (None, Status.WARN)],
    )  # fmt: skip
    def test_the_supported_range(self, version, installed, status):
        version("transformers", installed)
        finding = checks.transformers()
        assert finding.status is status
        assert ">=5.18,<6" in finding.found
        assert ("pip install" in finding.do) == (status is not Status.OK)

    def test_it_is_that_of_the_package(self):
        wanted = f">={'.'.join(map(str, releases.LOWEST))},<{releases.ABOVE[0]}"
        assert f'transformers = ["transformers{wanted}"]' in (ROOT / "pyproject.toml").read_text()


BACKEND = """
    from tierkv import hookimpl
    from tierkv.finding import Finding, Status
    from tierkv.ops import Ops

    class Mine(Ops):
        @classmethod
        def doctor(cls):
            {}

    @hookimpl
    def tierkv_register(registry):
        registry.add("ops", "mine", Mine)
"""


class TestOperators:
    """What a plugin's backend says of itself."""

    @pytest.mark.parametrize(
        ("code", "status", "line"),
        [
            ('return Finding(Status.OK, "version 3")', 0, "ok    operators mine     version 3"),
            ('return Finding(Status.FAIL, "no library", "build it")', 1,
             "fail  operators mine     no library"),
            ('raise OSError("no such device")', 1,
             "fail  operators mine     OSError: no such device"),
        ],
    )  # fmt: skip
    def test_a_finding(self, invoke, distribution, monkeypatch, code, status, line):
        good = (checks.python, checks.torch)
        monkeypatch.setattr("tierkv.cli.doctor.CHECKS", good)
        distribution("tierkv-mine", BACKEND.format(code))
        result = invoke("doctor")
        assert result.exit_code == status
        assert line.split() in [told.split() for told in result.output.splitlines()]

    def test_nothing_to_say(self, invoke):
        assert "operators reference" not in invoke("doctor").output

    def test_nothing_is_asked_without_torch(self, invoke, distribution, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        monkeypatch.setattr("tierkv.cli.doctor.CHECKS", (checks.torch,))
        distribution("tierkv-mine", BACKEND.format('return Finding(Status.OK, "version 3")'))
        result = invoke("doctor")
        assert result.exit_code == 1
        assert "operators mine" not in result.output


class TestTorchNpu:
    @pytest.fixture(autouse=True)
    def _environment(self, version, monkeypatch, tmp_path):
        version("torch_npu", "2.9.0")
        monkeypatch.setattr(checks, "_CANN", tmp_path / "none")
        for name in (checks._HOME, checks._CUSTOM, checks._AUTOLOAD):
            monkeypatch.delenv(name, raising=False)

    def test_without_its_runtime(self):
        finding = checks.torch_npu()
        assert finding.status is Status.FAIL
        assert finding.found == "2.9.0, without CANN; import torch loads it, and fails"
        assert "install CANN" in finding.do
        assert "export TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finding.do
        assert "pip uninstall torch_npu" in finding.do

    def test_without_its_runtime_and_not_loaded(self, monkeypatch):
        monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        finding = checks.torch_npu()
        assert finding.status is Status.WARN
        assert "2.9.0, without CANN; with TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finding.found
        assert "the CPU alone works" in finding.found
        assert "unset TORCH_DEVICE_BACKEND_AUTOLOAD for device npu" in finding.do

    def test_with_a_runtime_that_is_not_in_the_environment(self, monkeypatch, tmp_path):
        monkeypatch.setattr(checks, "_CANN", tmp_path)
        finding = checks.torch_npu()
        assert finding.status is Status.FAIL
        assert f"ASCEND_HOME_PATH is not set, though there is {tmp_path}" in finding.found
        assert f"source CANN's set_env.sh, below {tmp_path}" in finding.do

    def test_with_a_runtime_that_is_gone(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "gone"))
        finding = checks.torch_npu()
        assert finding.status is Status.FAIL
        assert f"ASCEND_HOME_PATH names no directory, {tmp_path / 'gone'}" in finding.found

    def test_with_its_runtime(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        finding = checks.torch_npu()
        assert finding.status is Status.OK
        assert finding.found == f"2.9.0, CANN in {tmp_path}"

    def test_operators_that_do_not_come_with_it(self, monkeypatch, tmp_path):
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path}:")
        finding = checks.torch_npu()
        assert finding.status is Status.OK
        assert finding.found.endswith(f"operators in {tmp_path}")
        monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path}:{tmp_path}/gone")
        finding = checks.torch_npu()
        assert finding.status is Status.WARN
        assert f"ASCEND_CUSTOM_OPP_PATH names no directory, {tmp_path}/gone" in finding.found
        assert "set_env.bash" in finding.do

    def test_it_is_never_imported(self, tmp_path):
        (tmp_path / "torch_npu.py").write_text("raise SystemExit('imported')")
        info = tmp_path / "torch_npu-2.9.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.9.0\n")
        code = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
            "from tierkv.cli.checks import torch_npu\n"
            "print(torch_npu().found)\n"
            "assert 'torch' not in sys.modules and 'torch_npu' not in sys.modules"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
        )
        assert "2.9.0" in done.stdout


class TestNativeOperators:
    @pytest.fixture
    def missing(self, monkeypatch):
        monkeypatch.setattr(checks, "find_spec", lambda name: None)

    def test_without_a_compiler(self, missing, monkeypatch):
        monkeypatch.setattr(checks.shutil, "which", lambda name: None)
        finding = checks.native_operators()
        assert finding.status is Status.WARN
        assert "no C++ compiler" in finding.found
        assert "apt install g++" in finding.do
        assert "pip install" in finding.do

    def test_installed_before_the_compiler(self, missing, monkeypatch):
        monkeypatch.setattr(checks.shutil, "which", lambda name: f"/bin/{name}")
        finding = checks.native_operators()
        assert finding.status is Status.WARN
        assert "/bin/c++" in finding.found
        assert finding.do.startswith("pip install")


class TestMachine:
    @pytest.mark.parametrize(
        ("modes", "status", "found"),
        [("always [madvise] never", Status.OK, "madvise"),
         ("[always] madvise never", Status.OK, "always"),
         ("always madvise [never]", Status.WARN, "never")],
    )  # fmt: skip
    def test_huge_pages(self, monkeypatch, tmp_path, modes, status, found):
        (tmp_path / "enabled").write_text(f"{modes}\n")
        monkeypatch.setattr(checks, "_HUGE_PAGES", tmp_path / "enabled")
        finding = checks.huge_pages()
        assert finding.status is status
        assert finding.found.startswith(found)

    def test_no_huge_pages(self, monkeypatch, tmp_path):
        monkeypatch.setattr(checks, "_HUGE_PAGES", tmp_path / "none")
        assert checks.huge_pages().status is Status.WARN

    @pytest.mark.parametrize(
        ("allowed", "threads", "status", "do"),
        [(4, 4, Status.OK, ""), (2, 4, Status.WARN, "torch.set_num_threads(2)"),
         (1, 1, Status.WARN, "inline")],
    )  # fmt: skip
    def test_cpus(self, monkeypatch, allowed, threads, status, do):
        monkeypatch.setattr(checks.os, "sched_getaffinity", lambda pid: set(range(allowed)))
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        finding = checks.cpus()
        assert finding.status is status
        assert do in finding.do

    def test_a_torch_that_does_not_import(self, monkeypatch, invoke):
        monkeypatch.setitem(sys.modules, "torch", None)
        finding = checks.torch()
        assert finding.status is Status.FAIL
        assert "reinstall torch" in finding.do
        monkeypatch.setattr("tierkv.cli.doctor.CHECKS", (checks.torch, checks.cpus))
        assert "fail  cpus   needs torch" in invoke("doctor").output


def test_versions_are_read_from_metadata():
    assert checks._version("torch") == metadata.version("torch")
    assert checks._version("no-such-distribution") is None
