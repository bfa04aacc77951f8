"""What ``tierkv doctor`` looks at: one small function each."""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CANN = Path("/usr/local/Ascend")
_COMPILERS = ("c++", "g++", "clang++")


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    status: Status
    found: str
    do: str = ""
    """What mends it; empty if nothing has to be done."""


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def python() -> Finding:
    """Say which interpreter runs; pip refuses those that are too old."""
    machine = f"{platform.system()} {platform.machine()}"
    found = f"{platform.python_version()} on {machine}"
    if platform.system() != "Linux":
        return Finding(Status.WARN, found, "only Linux is tested")
    return Finding(Status.OK, found)


def torch() -> Finding:
    """Import it: a vendor's extension that is broken shows here."""
    try:
        import torch as library
    except Exception as error:  # a torch extension is loaded too, and may raise anything
        found = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Finding(Status.FAIL, found, "reinstall torch, or remove the extension it names")
    return Finding(Status.OK, f"{library.__version__}, {library.get_num_threads()} threads")


def devices() -> Finding:
    """Say which devices torch sees."""
    import torch as library

    accelerator = library.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return Finding(Status.OK, "cpu")
    return Finding(Status.OK, f"cpu, {library.accelerator.device_count()} {accelerator.type}")


def torch_npu() -> Finding:
    """Say whether the Ascend extension has its runtime; never imports it."""
    version = _version("torch_npu")
    if version is None:
        return Finding(Status.OK, "not installed")
    if not _CANN.is_dir():
        do = f"install CANN, or pip uninstall torch_npu; without {_CANN} torch may not import"
        return Finding(Status.FAIL, f"{version}, without CANN", do)
    return Finding(Status.OK, f"{version}, CANN in {_CANN}")


def native_operators() -> Finding:
    """Say whether the compiled CPU operators are there."""
    if find_spec("tierkv._native") is not None:
        from tierkv import _native

        return Finding(Status.OK, f"built, {_native.version()}")
    reinstall = "pip install --force-reinstall --no-deps tierkv (from a checkout: pip install -e .)"
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        do = f"install a C++ compiler (Debian: apt install g++), then {reinstall}"
        return Finding(Status.WARN, "not built: no C++ compiler was found; reference is used", do)
    return Finding(Status.WARN, f"not built, though there is {compiler}; reference is used",
                   reinstall)  # fmt: skip


def huge_pages() -> Finding:
    """Say whether host tiers get transparent huge pages."""
    if not _HUGE_PAGES.exists():
        return Finding(Status.WARN, "this system has none", "records are read more slowly")
    modes = _HUGE_PAGES.read_text(encoding="ascii")
    mode = modes[modes.index("[") + 1 : modes.index("]")]
    if mode == "never":
        do = f"as root: echo madvise > {_HUGE_PAGES}"
        return Finding(Status.WARN, "never: host tiers read more slowly", do)
    return Finding(Status.OK, f"{mode}: host tiers use them")


def cpus() -> Finding:
    """Compare threads with the CPUs that this process may use."""
    import torch as library

    allowed, threads = len(os.sched_getaffinity(0)), library.get_num_threads()
    found = f"{allowed} of {os.cpu_count()} usable, torch uses {threads} threads"
    if threads > allowed:
        return Finding(Status.WARN, found, f"call torch.set_num_threads({allowed})")
    if allowed < 2:
        return Finding(Status.WARN, found, "a worker has no CPU of its own here: schedule inline")
    return Finding(Status.OK, found)


def transformers() -> Finding:
    """Compare its version with the range that is supported."""
    from tierkv.integrations.releases import ABOVE, LOWEST, numbers

    version = _version("transformers")
    do = "pip install 'tierkv[transformers]'"
    wanted = f">={'.'.join(map(str, LOWEST))},<{'.'.join(map(str, ABOVE))}"
    if version is None:
        return Finding(Status.WARN, f"not installed; tierkv run needs {wanted}", do)
    if not LOWEST <= numbers(version) < ABOVE:
        return Finding(Status.FAIL, f"{version} is not supported, {wanted} is", do)
    return Finding(Status.OK, f"{version}, supported {wanted}")


def plugins() -> Finding:
    """Say which plugins load."""
    from tierkv.config import make_registry

    registry = make_registry()
    if registry.broken:
        return Finding(Status.FAIL, "; ".join(map(str, registry.broken.values())))
    return Finding(Status.OK, ", ".join(registry.distributions.values()))


CHECKS: tuple[Callable[[], Finding], ...] = (
    python,
    torch_npu,  # before torch, which loads it
    torch,
    devices,
    native_operators,
    huge_pages,
    cpus,
    transformers,
    plugins,
)
