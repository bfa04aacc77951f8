"""``sim("dsa_plan")`` is the operator, compiled for the core model."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from hostsim import Kernel, NoCompilerError  # noqa: E402

torch.set_num_threads(1)


@functools.cache
def _kernel(name: str, source: Path | None) -> Kernel:
    return Kernel(name, source)


@pytest.fixture(scope="session")
def sim() -> Callable[..., Kernel]:
    """Give kernels by name; skips where the host has no C++ compiler."""

    def kernel(name: str, source: Path | None = None) -> Kernel:
        try:
            return _kernel(name, source)
        except NoCompilerError as error:
            pytest.skip(str(error))

    return kernel
