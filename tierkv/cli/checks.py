"""What ``tierkv doctor`` looks at: one small function each.

Nowhere else does tierkv ask the environment: here it is what is explained.
"""

import os
import platform
import shutil
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tierkv.finding import Finding, Status

__all__ = ["CHECKS", "Finding", "Status"]

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_CUSTOM = "ASCEND_CUSTOM_OPP_PATH"
_HOME = "ASCEND_HOME_PATH"
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CANN = Path("/usr/local/Ascend")
_COMPILERS = ("c++", "g++", "clang++")


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
    home, loads = os.environ.get(_HOME), os.environ.get(_AUTOLOAD, "1") == "1"
    if home and Path(home).is_dir():
        return _custom_operators(f"{version}, CANN in {home}")
    found, do = f"{version}, without CANN", "install CANN"
    if home or _CANN.is_dir():
        wrong = f"names no directory, {home}" if home else f"is not set, though there is {_CANN}"
        found, do = f"{version}, {_HOME} {wrong}", f"source CANN's set_env.sh, below {_CANN}"
    if loads:
        found += "; import torch loads it, and fails"
        do += f"; for the CPU alone export {_AUTOLOAD}=0, or pip uninstall torch_npu"
        return Finding(Status.FAIL, found, do)
    found += f"; with {_AUTOLOAD}=0 torch does not load it, the CPU alone works"
    return Finding(Status.WARN, found, f"{do} and unset {_AUTOLOAD} for device npu")


def _custom_operators(found: str) -> Finding:
    """Add where CANN looks for operators that do not come with it."""
    paths = [path for path in os.environ.get(_CUSTOM, "").split(os.pathsep) if path]
    missing = [path for path in paths if not Path(path).is_dir()]
    if missing:
        wrong = f"{found}; {_CUSTOM} names no directory, {', '.join(missing)}"
        return Finding(
            Status.WARN, wrong, "build the operators there, or source their set_env.bash"
        )
    return Finding(Status.OK, f"{found}, operators in {', '.join(paths)}" if paths else found)


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
