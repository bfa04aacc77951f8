"""``torch.ops.tierkv`` on NPU tensors: load the extension and say where operators and streams are.

The extension (``build.sh -t``) needs neither CANN nor torch_npu to load, so that its absence is an
error of the first operator and not of the import.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

import tierkv.ops  # noqa: F401  # declares the operators

EXTENSION = Path(__file__).with_name("_torch.so")
LIBRARY = "libcust_opapi.so"

_StreamHook = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)
_HOOKS: list[Any] = []
"""What the extension may call; C++ does not keep it alive."""


def npu_stream(device: int) -> int:
    """Give the address of the stream that `device` currently queues work on.

    torch_npu's own queue has been handed over when this returns, so the order of launches holds.
    """
    address: int = torch.npu.current_stream(device).npu_stream  # type: ignore[attr-defined]
    return address


def load(
    library: str | Path = LIBRARY,
    stream: Callable[[int], int] = npu_stream,
    extension: Path = EXTENSION,
) -> None:
    """Put the kernels of `extension` behind the operators of ``tierkv`` on NPU tensors.

    Parameters
    ----------
    library
        The operators that CANN built: a path, or a name that the dynamic linker finds once the
        package's ``set_env.bash`` has been sourced.
    stream
        Device index -> ``aclrtStream`` as a number; called at each launch.
    extension
        What ``build.sh -t`` built.

    Raises
    ------
    OSError
        If `extension` or `library` cannot be opened.
    """
    if not extension.exists():
        raise OSError(f"tierkv_ascendc: no extension, got {extension} (run build.sh -t)")
    binding = _extension(extension)
    wrong = binding.tierkv_ascendc_open(str(library).encode())
    if wrong is not None:
        raise OSError(f"tierkv_ascendc: cannot open {library}: {wrong.decode()} (run build.sh)")
    hook = _StreamHook(stream)
    _HOOKS.append(hook)
    binding.tierkv_ascendc_set_stream_hook(hook)


@cache
def _extension(path: Path) -> ctypes.CDLL:
    torch.ops.load_library(path)
    binding = ctypes.CDLL(str(path))
    binding.tierkv_ascendc_open.restype = ctypes.c_char_p
    binding.tierkv_ascendc_open.argtypes = [ctypes.c_char_p]
    binding.tierkv_ascendc_set_stream_hook.restype = None
    binding.tierkv_ascendc_set_stream_hook.argtypes = [_StreamHook]
    return binding
