"""Where records live."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from tierkv.interfaces.component import Component


class Ready:
    """The completion of a read or write that a tier may do asynchronously."""

    def wait(self, timeout: float | None = None) -> None:
        """Return once it is complete; `timeout` in seconds.

        Raises
        ------
        TierError
            If it failed or did not end in time; the message names the rows.
        """


DONE = Ready()
"""What a synchronous tier returns."""


class Tier(Component, ABC):
    """Fixed-stride records of every layer, addressed by row.

    Protocol
    --------
    1. ``build`` calls :meth:`allocate` once, after everything has been validated.
    2. :meth:`read` and :meth:`write` may be called in any order, for rows below the allocated
       number. A read sees every write whose Ready was waited for. Rows that were never written
       hold anything. With the ``worker`` schedule prompts are written on another thread, while
       other rows may be read and written here.
    3. :meth:`close` ends it; it may be called twice, and before ``allocate``.

    `rows`, `out` and `records` lie on the host.

    An implementer that can be addressed by kernels also offers :class:`SupportsView`. One without
    it must be readable from the host and is refused for capture and full-graph compilation.
    """

    @abstractmethod
    def allocate(self, rows: Sequence[int], strides: Sequence[int]) -> None:
        """Reserve ``rows[layer]`` records of ``strides[layer]`` bytes in each layer.

        Raises
        ------
        CapacityError
            If the memory or disk does not suffice.
        TierError
            If the place cannot be used at all. In either case nothing is left behind.
        """

    @abstractmethod
    def read(self, layer: int, rows: Tensor, out: Tensor) -> Ready:
        """Copy records into `out` [n, stride] uint8; `rows` [n] int64, any order, repeats allowed.

        Raises
        ------
        TierError
            If a row cannot be read; the message names it. `out` then holds anything.
        """

    @abstractmethod
    def write(self, layer: int, rows: Tensor, records: Tensor) -> Ready:
        """Copy `records` [n, stride] uint8 into `rows` [n] int64, distinct.

        Raises
        ------
        TierError
            If a row cannot be written; the message names it.
        """

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


@runtime_checkable
class SupportsView(Protocol):
    """A tier whose records kernels address directly: pinned host memory, device memory."""

    def view(self, layer: int) -> Tensor:
        """Give a layer's records, [rows, stride] uint8; valid from allocate to close."""
        ...
