"""A file."""

import os
import tempfile
from collections.abc import Sequence

import attrs
import torch
from torch import Tensor

from tierkv.errors import CapacityError, TierError, say
from tierkv.interfaces.tier import DONE, Ready, Tier
from tierkv.limits import Limits
from tierkv.tiers.memory import advise_random
from tierkv.tiers.rows import records_of

_PAGE = os.sysconf("SC_PAGESIZE")


@attrs.frozen
class FileOptions:
    """Where the file lies."""

    path: str = attrs.field(factory=tempfile.gettempdir)
    """A directory with room for the capacity; the file has no name in it once it is mapped."""


class FileTier(Tier):
    """One private file, reserved before it is mapped and unlinked at once.

    Reserving first turns a full disk into an error here instead of a fatal signal later;
    unlinking leaves nothing behind after a crash. Reads announce their rows to the system, then
    copy: a cold gather costs one round of parallel disk reads.
    """

    Options = FileOptions

    def __init__(self, options: FileOptions, limits: Limits) -> None:
        self.path = options.path
        self._file = -1
        self._layers: list[Tensor] = []
        self._starts: list[int] = []

    def allocate(self, rows: Sequence[int], strides: Sequence[int]) -> None:
        sizes = [count * stride for count, stride in zip(rows, strides, strict=True)]
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // _PAGE) * _PAGE)
        total = max(starts[-1], _PAGE)
        records = self._map(total)
        advise_random(records.data_ptr(), total)
        self._starts = starts[:-1]
        self._layers = [
            records[start : start + size].view(count, stride)
            for start, size, count, stride in zip(self._starts, sizes, rows, strides, strict=True)
        ]

    def _map(self, total: int) -> Tensor:
        try:
            self._file, name = tempfile.mkstemp(prefix="tierkv-", dir=self.path)
        except OSError as error:
            raise TierError(
                say("backing.path", f"cannot create a file: {error.strerror}", got=self.path)
            ) from None
        try:
            os.posix_fallocate(self._file, 0, total)
            return torch.from_file(name, shared=True, size=total, dtype=torch.uint8)
        except (OSError, RuntimeError) as error:  # the latter where it cannot be mapped
            self.close()
            why = error.strerror if isinstance(error, OSError) else error
            raise CapacityError(
                say(
                    "backing.capacity",
                    f"{total:,} bytes do not fit: {why}",
                    got=self.path,
                    do="lower it, or set backing.path",
                )
            ) from None
        finally:
            os.unlink(name)

    def read(self, layer: int, rows: Tensor, out: Tensor) -> Ready:
        records = records_of("file tier", self._layers, layer, rows)
        start, stride = self._starts[layer], records.shape[1]
        for row in rows.unique().tolist():
            os.posix_fadvise(self._file, start + row * stride, stride, os.POSIX_FADV_WILLNEED)
        torch.index_select(records, 0, rows, out=out)
        return DONE

    def write(self, layer: int, rows: Tensor, records: Tensor) -> Ready:
        records_of("file tier", self._layers, layer, rows).index_copy_(0, rows, records)
        return DONE

    def close(self) -> None:
        self._layers = []
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
