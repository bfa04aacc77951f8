"""Host memory in huge pages, and small tensors on their way to a device."""

import ctypes
import functools
import os

import torch
from torch import Tensor

from tierkv.errors import CapacityError, say

HUGE_PAGE = 2 * 1024 * 1024
_MADV_RANDOM, _MADV_HUGEPAGE = 1, 14


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def advise(pointer: int, nbytes: int, advice: int) -> bool:
    """Call madvise on page-aligned memory; False where the system does not know the advice."""
    if not hasattr(_libc(), "madvise"):
        return False
    return bool(_libc().madvise(ctypes.c_void_p(pointer), ctypes.c_size_t(nbytes), advice) == 0)


def advise_random(pointer: int, nbytes: int) -> bool:
    """Say that pages will be touched at random: no read-ahead."""
    return advise(pointer, nbytes, _MADV_RANDOM)


def installed() -> int:
    """Bytes of main memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def allocate(
    where: str, shape: tuple[int, ...], device: torch.device, pinned: bool = False
) -> Tensor:
    """Allocate uninitialised uint8 memory, on the host in huge pages where the system has them.

    Parameters
    ----------
    where
        Setting to name if it fails.
    pinned
        Page-lock it for an accelerator's copies.

    Raises
    ------
    CapacityError
        If the memory is refused.
    """
    nbytes = 1
    for size in shape:
        nbytes *= size
    try:
        if device.type != "cpu" or pinned:
            return torch.empty(shape, dtype=torch.uint8, device=device, pin_memory=pinned)
        spare = HUGE_PAGE if nbytes >= HUGE_PAGE else 0
        if nbytes > installed():  # it would be given, and the process ended once it is touched
            raise MemoryError
        memory = torch.empty(nbytes + spare, dtype=torch.uint8)
    except (RuntimeError, MemoryError, OverflowError):
        raise CapacityError(
            say(where, f"{nbytes:,} bytes were refused on {device}", do="lower it, or free memory")
        ) from None
    start = -memory.data_ptr() % HUGE_PAGE if spare else 0
    if spare:  # before first touch, or the pages are small already
        advise(memory.data_ptr() + start, nbytes // HUGE_PAGE * HUGE_PAGE, _MADV_HUGEPAGE)
    return memory[start : start + nbytes].view(shape)


def send(values: Tensor, target: Tensor) -> Tensor:
    """Copy values to a tensor, on an accelerator without waiting for it; give that tensor."""
    if values.is_cpu and not target.is_cpu:
        values = values.to(target.dtype).pin_memory()  # kept until the copy is done
    return target.copy_(values, non_blocking=True)
