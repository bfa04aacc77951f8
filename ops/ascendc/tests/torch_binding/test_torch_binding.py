"""The PyTorch extension, built with PyTorch's headers alone, against a stand-in operator library.

What runs is in ``drive.py``, in one process of its own: a device for PrivateUse1 cannot be removed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hostsim import build
from hostsim.native import Library

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "test_torch"
TORCH = Path(torch.__path__[0])

pytestmark = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("g++")), reason="needs cmake and g++"
)


def run(*command):
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    ran = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, f"{' '.join(map(str, command))}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="session")
def extension():
    run(
        "cmake", "-S", ROOT, "-B", BUILD, "-DTIERKV_TORCH=ON", "-DCMAKE_CXX_FLAGS=-O1 -Werror",
        f"-DPython3_EXECUTABLE={sys.executable}",
    )  # fmt: skip
    run("cmake", "--build", BUILD)
    return BUILD / "_torch.so"


def stand_in(name, *flags):
    """Compile a source of this folder, unless that is done already."""
    source, target = HERE / f"{name}.cpp", BUILD / f"{name}.so"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        run("g++", "-O0", "-fPIC", "-shared", "-Wall", source, "-o", target, *flags)
    return target


@pytest.fixture(scope="session")
def results(extension):
    flags = [
        "-std=c++20",
        "-isystem",
        TORCH / "include",
        f"-L{TORCH / 'lib'}",
        "-lc10",
        "-ltorch_cpu",
    ]
    device, library = stand_in("stand_in_device", *flags), stand_in("stand_in_opapi", "-std=c++17")
    printed = run(sys.executable, HERE / "drive.py", extension, device, library)
    return json.loads(printed.splitlines()[-1])


CASES = re.findall(r"^def case_(\w+)", (HERE / "drive.py").read_text(), re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
def test_case(results, case):
    assert results[case] is None, results[case]


def test_the_extension_asks_for_nothing_of_cann(extension):
    needed = run("readelf", "-d", extension)
    assert "libtorch_cpu.so" in needed
    assert not re.search(r"ascend|libacl|torch_npu|opapi", needed)


def generated_arguments(operator):
    """What CANN makes of a definition: inputs, attributes, outputs that are no inputs."""
    host = build.host(build.Operator(operator, ROOT / "src"))
    known = Library(host).ask("hostsim_describe")
    names = {k: [one["name"] for one in known[k]] for k in ("inputs", "attrs", "outputs")}
    outputs = [name for name in names["outputs"] if name not in names["inputs"]]
    return [*names["inputs"], *names["attrs"], *outputs]


STAND_INS = dict(
    re.findall(
        r"^OPERATOR\((\w+),\s*\(([^)]*), END\)",
        (HERE / "stand_in_opapi.cpp").read_text(),
        re.MULTILINE,
    )
)


@pytest.mark.parametrize(
    "operator", sorted(path.parent.name for path in ROOT.glob("src/*_*/op_host"))
)
def test_the_stand_in_is_called_like_the_definition(operator):
    parameters = STAND_INS["".join(word.capitalize() for word in operator.split("_"))]
    assert [word.split()[-1] for word in parameters.split(",")] == generated_arguments(operator)
