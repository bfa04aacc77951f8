"""What was built: where it is, and what to do where it is not."""

import ctypes
import os
from functools import cache
from importlib import metadata
from pathlib import Path

from tierkv.errors import ConfigError, say
from tierkv.finding import Finding, Status
from tierkv_ascendc import binding
from tierkv_ascendc.operators import OPERATORS

CUSTOM = "ASCEND_CUSTOM_OPP_PATH"
"""CANN's variable: folders of operators that do not come with it. ``set_env.bash`` sets it."""
BUILD_EXTENSION = "run ops/ascendc/build.sh -t, then pip install ops/ascendc"
BUILD_OPERATORS = (
    "run ops/ascendc/build.sh and the package that it makes, build/custom_opp_*.run, then source "
    f"vendors/tierkv/bin/set_env.bash below its --install-path, which sets {CUSTOM}"
)
INSTALL_TORCH_NPU = (
    "pip install the torch_npu of your torch, after CANN's toolkit and its set_env.sh"
)


def library() -> Path | None:
    """Find the operators' library; None where neither CANN nor the dynamic linker would."""
    folders = [Path(path, "op_api", "lib") for path in _paths(CUSTOM)]
    folders += map(Path, _paths("LD_LIBRARY_PATH"))
    found = (folder / binding.LIBRARY for folder in folders)
    ours = (path for path in found if path.is_file() and _symbol() in path.read_bytes())
    return next(ours, None)


def _paths(variable: str) -> list[str]:
    return [path for path in os.environ.get(variable, "").split(os.pathsep) if path]


def _symbol() -> bytes:
    """Give a name that only tierkv's library holds: other vendors' are called like it."""
    return f"aclnn{OPERATORS['serve'].type}GetWorkspaceSize".encode()


def check() -> Path:
    """Give the operators' library; ConfigError if that or the extension is not there."""
    if not binding.EXTENSION.exists():
        got = str(binding.EXTENSION)
        raise ConfigError(say("ops", "there is no extension", got=got, do=BUILD_EXTENSION))
    found = library()
    if found is None:
        got = os.environ.get(CUSTOM, "")
        wrong = f"{CUSTOM} names no folder with tierkv's {binding.LIBRARY}"
        raise ConfigError(say("ops", wrong, got=got, do=BUILD_OPERATORS))
    return found


@cache
def load() -> None:
    """Put the kernels behind ``torch.ops.tierkv``; once a process.

    Raises
    ------
    ConfigError
        Naming what cannot be loaded or lacks an operator.
    """
    path = check()
    try:
        binding.load(path, extension=binding.EXTENSION)
        functions = ctypes.CDLL(str(path))
    except (OSError, RuntimeError) as error:
        do = f"{BUILD_EXTENSION}; {BUILD_OPERATORS}; with this machine's torch and CANN"
        raise ConfigError(say("ops", f"cannot be loaded, {error}", do=do)) from None
    wanted = {f"aclnn{operator.type}GetWorkspaceSize" for operator in OPERATORS.values()}
    lacks = sorted(name for name in wanted if not hasattr(functions, name))
    if lacks:
        wrong = f"{path} lacks {', '.join(lacks)}"
        raise ConfigError(say("ops", wrong, do=BUILD_OPERATORS))


def finding() -> Finding:
    """Say what is missing; loads nothing."""
    try:
        version = metadata.version("torch_npu")
    except metadata.PackageNotFoundError:
        return Finding(Status.WARN, "torch_npu is not installed", INSTALL_TORCH_NPU)
    try:
        path = check()
    except ConfigError as error:
        what, _, do = str(error).removeprefix("ops: ").rpartition(" (")
        return Finding(Status.WARN, f"torch_npu {version}, but {what}", do.removesuffix(")"))
    return Finding(Status.OK, f"torch_npu {version}, extension and operators built, {path}")
