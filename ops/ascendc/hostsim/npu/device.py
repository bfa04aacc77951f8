"""Gives the process a device ``npu:0`` that lies in host memory."""

import ctypes
import functools
import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

from hostsim.npu import fallback, standins

BUILD = Path(__file__).parents[2] / "build" / "npu"


class Order(IntEnum):
    """Which streams run as late as allowed: only when a wait or a synchronisation demands it.

    A missing wait of the main stream for a side stream shows under `LATE_SIDE`, the opposite one
    under `LATE_MAIN`.
    """

    EAGER = 0
    LATE_SIDE = 1
    LATE_MAIN = 2
    LATE = 3


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed here, see `make test-npu`")
    return Path(spec.origin).parent


def standins_folder() -> Path:
    """Folder of the stand-ins, built if need be."""
    return standins.build(_folder("torch_npu"), BUILD)


@functools.cache
def load() -> ctypes.CDLL:
    """Import torch_npu on the host device; what is missing is built first, in about a minute.

    The process must run with ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` from the first import of torch on:
    torch would load torch_npu by itself, before the stand-ins.

    Returns
    -------
    ctypes.CDLL
        The stand-in of the runtime, with the functions ``hostnpu_*`` beside CANN's.
    """
    # The queue of torch_npu would launch from a thread of its own.
    os.environ.update(TORCH_DEVICE_BACKEND_AUTOLOAD="0", TASK_QUEUE_ENABLE="0")
    folder = standins_folder()
    runtime, *_ = (
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in standins.libraries(folder)
    )
    runtime.hostnpu_unsupported_calls.restype = ctypes.c_char_p
    runtime.hostnpu_set_main.argtypes = [ctypes.c_void_p]
    runtime.hostnpu_on_device.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    operators = fallback.build(_folder("torch"), folder, BUILD)

    import torch

    opapi = ctypes.CDLL(str(operators), ctypes.RTLD_GLOBAL)
    import torch_npu  # noqa: F401

    opapi.hostnpu_register_fallback()
    torch.npu.set_device(0)
    with warnings.catch_warnings():  # once, of formats, whatever the tensor
        warnings.simplefilter("ignore")
        torch.empty_like(torch.empty(1, device="npu:0"), memory_format=torch.contiguous_format)
    runtime.hostnpu_set_main(torch.npu.default_stream().npu_stream)
    return runtime


@contextmanager
def order(runtime: ctypes.CDLL, chosen: Order) -> Iterator[None]:
    """Run streams in the order `chosen`; all work is done before and after."""
    import torch

    torch.npu.synchronize()
    runtime.hostnpu_set_order(int(chosen))
    try:
        yield
        torch.npu.synchronize()
    finally:
        runtime.hostnpu_set_order(int(Order.EAGER))
