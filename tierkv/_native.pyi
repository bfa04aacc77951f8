"""The compiled module; mypy cannot see it.

The operators take the number of threads and then their schema's arguments. They say whether they
ran; if not, nothing was written and the reference must.
"""

from typing import Any

from torch import Tensor

def version() -> str:
    """Version of tierkv this module was built from."""

def reserve_threads(threads: int) -> None:
    """Start pool threads so that this many, the caller included, can work at once."""

def lookup(slot_of: Tensor, ids: Tensor, out: Tensor) -> bool:
    """Bare ``out = slot_of[ids]`` on vectors, for benchmarks."""

def stream_copy(to: Tensor, source: Tensor) -> bool:
    """Copy a vector by streaming stores on one thread, for benchmarks."""

def append(threads: int, *arguments: Any) -> bool: ...
def plan(threads: int, *arguments: Any) -> bool: ...
def serve(threads: int, *arguments: Any) -> bool: ...
def install(threads: int, *arguments: Any) -> bool: ...
def place_set_fifo(threads: int, *arguments: Any) -> bool: ...
def place_clock(threads: int, *arguments: Any) -> bool: ...
def place_lru(threads: int, *arguments: Any) -> bool: ...
def place_last_step(threads: int, *arguments: Any) -> bool: ...
def place_unbounded(threads: int, *arguments: Any) -> bool: ...
def start_worker() -> None:
    """Start the thread behind ``submit``, if it does not run."""

def delay_worker(microseconds: int) -> None:
    """Hold the worker up between two jobs, for tests."""

def submit(threads: int, *arguments: Any) -> bool: ...
def submit_install(threads: int, *arguments: Any) -> bool: ...
def wait(threads: int, *arguments: Any) -> bool: ...
