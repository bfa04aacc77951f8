"""Leave out one sync statement after the other."""

from collections.abc import Callable, Sequence

from hostsim import Fault, Kernel

Site = tuple[str, int]
Run = Callable[[Site | None], Sequence[Fault]]
"""Runs the kernel on inputs of its own without one statement; gives the faults."""


def unreported(kernel: Kernel, runs: Sequence[Run]) -> list[Site]:
    """Sync statements that no run reports as missing."""
    for run in runs:
        assert not run(None), "a fault with all statements in place"
    assert kernel.sync_sites
    return [site for site in kernel.sync_sites if not any(run(site) for run in runs)]
