"""Compile the model and operators, each once for the same sources."""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from generate_constants import write

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
MODEL = ROOT / "hostsim"
FLAGS = [
    *("-std=c++17", "-O2", "-g0", "-fPIC", "-ffp-contract=off", "-DTIERKV_HOSTSIM"),
    *("-fvisibility=hidden", "-fno-gnu-unique"),  # operators do not see each other
    *("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-parameter"),
]


class NoCompilerError(RuntimeError):
    """There is no C++ compiler."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Where an operator's sources are: `source`/`name`, which share `source`/common."""

    name: str
    source: Path

    @property
    def op_type(self) -> str:
        """``dsa_plan`` is ``DsaPlan``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def host(self) -> Path:
        return self.source / self.name / "op_host"

    @property
    def kernel(self) -> Path:
        return self.source / self.name / "op_kernel" / f"{self.name}.cpp"

    def includes(self, side: str) -> list[Path]:
        """Folders of headers; `side` is ``op_host`` or ``op_kernel``."""
        here = self.source / self.name
        folders = [here / side, here / "op_host", self.source / "common" / side, self.source]
        return [*folders, here, BUILD / "include", MODEL / "include"]


@functools.cache
def compiler() -> str:
    """Path of the compiler."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise NoCompilerError("no C++ compiler (g++ or clang++) on PATH")
    return found


@functools.cache
def compiler_version() -> str:
    """What the compiler says it is."""
    run = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True)
    return run.stdout


def constants() -> Path:
    """Write tierkv_constants.h where it is missing or old."""
    path = BUILD / "include" / "tierkv_constants.h"
    write(path)
    return path


def model() -> Path:
    """Library of the model itself."""
    sources = sorted(p for p in (MODEL / "src").glob("*.cpp") if p.name != "host.cpp")
    visible = ["-shared", "-fvisibility=default"]
    return _library("model", sources, [MODEL / "include"], visible, _files(MODEL))


def host(operator: Operator) -> Path:
    """Library of an operator's definition, tiling and inference."""
    return _library(
        f"{operator.name}-host",
        [*sorted(operator.host.glob("*.cpp")), _host_object()],
        operator.includes("op_host"),
        ["-shared", "-O0"],
        _inputs(operator),
    )


def _host_object() -> Path:
    """The driver's half of such a library, the same for all."""
    folders = [MODEL / "include", MODEL / "src"]
    return _library("host", [MODEL / "src" / "host.cpp"], folders, ["-c", "-O1"], _files(MODEL))


def kernel(operator: Operator) -> Path:
    """Library of an operator's kernel."""
    includes = [f'#include "{operator.kernel}"']
    tiling = operator.host / f"{operator.name}_tiling.h"
    lines = [
        '#include "register/tilingdata_base.h"',
        f'#include "{tiling}"',
        "using namespace optiling;",
        *includes,
        '#include "hostsim/entry.h"',
        f"HOSTSIM_ENTRY({operator.name})",
        "",
    ]
    flags = [
        "-shared",
        "-DTIERKV_HOSTSIM_KERNEL",
        f"-DHOSTSIM_TILING=optiling::HostsimTiling{operator.op_type}",
    ]
    entry = BUILD / "hostsim" / f"{operator.name}-entry.cpp"
    text = "\n".join(lines).encode()
    if not entry.exists() or entry.read_bytes() != text:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _replace(entry, text)
    return _library(
        f"{operator.name}-kernel",
        [entry],
        operator.includes("op_kernel"),
        flags,
        _inputs(operator),
    )


def _inputs(operator: Operator) -> list[Path]:
    folders = [MODEL / "include", operator.source / operator.name]
    return [*(p for f in (*folders, operator.source / "common") for p in _files(f)), constants()]


def _files(folder: Path) -> list[Path]:
    endings = {".h", ".hpp", ".cpp"}
    return sorted(p for p in folder.rglob("*") if p.suffix in endings and "npu" not in p.parts)


def _replace(path: Path, content: bytes) -> None:
    other = path.with_suffix(f".{os.getpid()}")
    other.write_bytes(content)
    other.replace(path)


@contextmanager
def _alone() -> Iterator[None]:
    """One compilation at a time on this machine."""
    folder = BUILD / "hostsim"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _library(
    name: str,
    sources: list[Path],
    includes: list[Path],
    flags: list[str],
    inputs: Iterable[Path],
) -> Path:
    """Compile `sources` unless that has been done with the same `inputs` and flags."""
    prefixes = [f"-ffile-prefix-map={ROOT}/=", *(f"-I{folder}" for folder in includes)]
    command = [compiler(), *FLAGS, *flags, *prefixes]
    known = hashlib.sha256()
    for part in (compiler_version(), *command, *map(str, sources)):
        known.update(part.encode() + b"\0")
    for path in inputs:
        known.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    ending = ".o" if "-c" in flags else ".so"
    target = BUILD / "hostsim" / f"{name}-{known.hexdigest()[:16]}{ending}"
    if target.exists():
        return target
    with _alone():
        if target.exists():
            return target
        for old in target.parent.glob(f"{name}-*{ending}"):
            old.unlink(missing_ok=True)
        part = target.with_suffix(f".part{ending}")
        run = subprocess.run(
            [*command, *map(str, sources), "-o", str(part)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise RuntimeError(f"{name} does not compile:\n{run.stderr}")
        part.replace(target)
    return target
