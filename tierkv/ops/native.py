"""The native CPU kernels behind ``torch.ops.tierkv``.

A kernel takes the operator's tensors as they are and says whether it could: false means that one
is not laid out as it needs, or names what does not exist, and that nothing was written. Then the
reference runs, which copes or raises.
"""

from collections.abc import Callable
from typing import Any

import torch

from tierkv import _native
from tierkv.ops import reference
from tierkv.ops.schemas import BEHIND_THE_STEP, SCHEMAS

WITHOUT_KERNEL = {"place_arc"}
"""Operators for study, which the reference alone has."""

start_worker = _native.start_worker


def register(library: torch.library.Library) -> None:
    """Let CPU tensors take the native kernels in `library`."""
    for name in SCHEMAS.keys() - WITHOUT_KERNEL:
        library.impl(name, _kernel(getattr(_native, name), getattr(reference, name)), "CPU")


def direct() -> dict[str, Callable[..., None]]:
    """Give kernels to be called past the dispatcher, which costs more than they do."""
    return {
        name: _kernel(getattr(_native, name), getattr(reference, name)) for name in BEHIND_THE_STEP
    }


def reserve_threads() -> None:
    """Start the pool that serves ``torch.get_num_threads()`` threads; calls start none.

    A later, smaller ``torch.set_num_threads`` is respected; a larger one needs another call here.
    """
    _native.reserve_threads(torch.get_num_threads())


def _kernel(native: Callable[..., bool], specification: Callable[..., None]) -> Callable[..., None]:
    threads = torch.get_num_threads

    def run(*arguments: Any) -> None:
        if not native(threads(), *arguments):
            specification(*arguments)

    return run
