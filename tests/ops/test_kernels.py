"""The kernels build and pass alone, here and for aarch64."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = {
    "native": (["g++"], []),
    "aarch64": (["aarch64-linux-gnu-g++", "-static"], ["qemu-aarch64"]),
}


@pytest.mark.parametrize("target", TARGETS)
def test_kernels(target, tmp_path):
    compiler, runner = TARGETS[target]
    for tool in (compiler[0], *runner):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    generate = [
        sys.executable,
        ROOT / "ops/cpu/generate_constants.py",
        ROOT / "tierkv/constants.py",
    ]
    subprocess.run([*generate, tmp_path / "constants.hpp"], check=True)
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{tmp_path}"]
    program = tmp_path / "test_kernels"
    subprocess.run(
        [*compiler, *flags, ROOT / "ops/cpu/test_kernels.cpp", "-o", program], check=True
    )
    assert b"all good" in subprocess.run([*runner, program], check=True, capture_output=True).stdout
