"""``build.sh`` and ``CMakeLists.txt``, against a folder that stands in for CANN."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tierkv_ascendc import limits

ROOT = Path(__file__).parents[2]
OPERATORS = sorted(
    path.parent.name for path in ROOT.glob("src/*/op_host") if path.parent.name != "common"
)
FUNCTIONS = (
    "npu_op_package", "npu_op_package_add", "npu_op_code_gen", "npu_op_kernel_sources",
    "npu_op_kernel_library",
)  # fmt: skip
"""CANN's CMake functions; npu_op_library makes a target, the others are only noted."""


def build(*arguments, **environment):
    known = {**os.environ, **environment}
    if "ASCEND_HOME_PATH" not in environment:
        known.pop("ASCEND_HOME_PATH", None)
    return subprocess.run(
        [str(ROOT / "build.sh"), *arguments], capture_output=True, text=True, check=False, env=known
    )


def test_without_cann_it_says_what_is_missing(tmp_path):
    ran = build("-n", OPERATORS[0])
    assert ran.returncode == 1
    assert "ASCEND_HOME_PATH is not set" in ran.stderr
    assert "names no folder" in build(ASCEND_HOME_PATH=str(tmp_path / "no")).stderr
    assert "where find_package(ASC) looks" in build(ASCEND_HOME_PATH=str(tmp_path)).stderr


def test_an_unknown_operator():
    ran = build("-n", "dsa_nothing")
    assert ran.returncode == 1
    assert f"unknown operator, got dsa_nothing; known {';'.join(OPERATORS)}" in ran.stderr


@pytest.fixture(scope="session")
def configured(tmp_path_factory):
    """Configure all operators with functions that note their calls; give the notes and folder."""
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    cann, out = tmp_path_factory.mktemp("cann"), tmp_path_factory.mktemp("out")
    modules = cann / "compiler/tikcpp/ascendc_kernel_cmake"
    modules.mkdir(parents=True)
    noted = "".join(
        f'function({name})\n  file(APPEND {out}/calls "{name} ${{ARGN}}\\n")\nendfunction()\n'
        for name in ("npu_op_library", *FUNCTIONS)
    )
    (modules / "ASCConfig.cmake").write_text(noted)
    command = ["cmake", "-S", ROOT, "-B", out, f"-DTIERKV_OPERATORS={';'.join(OPERATORS)}"]
    ran = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False,
        env={**os.environ, "ASCEND_HOME_PATH": str(cann)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return (out / "calls").read_text().splitlines(), out


def test_every_operator_is_in_the_package(configured):
    calls, _ = configured
    generated = next(call for call in calls if call.startswith("npu_op_code_gen"))
    tiling = next(call for call in calls if call.startswith("npu_op_library cust_optiling"))
    for operator in OPERATORS:
        for source in (ROOT / "src" / operator / "op_host").glob("*.cpp"):
            assert str(source) in generated
            assert str(source) in tiling
    assert {call.split()[0] for call in calls} == {"npu_op_library", *FUNCTIONS}
    assert sum(call.startswith("npu_op_package_add") for call in calls) == 2


def test_kernels_lie_side_by_side_with_what_they_include(configured):
    _, out = configured
    staged = {path.name for path in (out / "op_kernel").iterdir()}
    sources = [
        path
        for path in ROOT.glob("src/*/op_kernel/*")
        if path.parents[1].name in (*OPERATORS, "common")
    ]
    assert staged == {path.name for path in sources} | {"tierkv_constants.h"}
    assert len(staged) == len(sources) + 1, "file names of kernels are unique"
    for operator in OPERATORS:
        assert f"{operator}.cpp" in staged, "the entry is named like the operator"


def test_the_readme_states_the_limits():
    rows = re.findall(
        r"^\| .+ \| (\d+) \| `(\w+)` \|$", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert {name: int(value) for value, name in rows} == {
        name: value for name, value in vars(limits).items() if name.startswith("MAX_")
    }
