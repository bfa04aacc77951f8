"""An engine that pages by itself, as :class:`~tierkv.External` blocks expect one."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from tierkv.errors import CapacityError
from tierkv.external import External
from tierkv.testing.assemble import Shape
from tierkv.testing.model import Row


class Engine:
    """Hands pages out in an order of its own, keeps the block table and writes records."""

    def __init__(self, shape: Shape, device: torch.device | None = None) -> None:
        self.page = shape.page
        lane_pages = -(-shape.max_tokens // shape.page)
        self.table = [[-1] * lane_pages for _ in range(shape.lanes)]
        rows, strides = shape.pages * shape.page, [known.stride for known in shape.spec.layouts]
        self.records = [
            torch.full((rows, stride), 0xA5, dtype=torch.uint8, device=device) for stride in strides
        ]
        self._free = list(range(shape.pages))
        random.Random(0).shuffle(self._free)

    @property
    def blocks(self) -> External:
        """What a cache is told of it."""
        return External(self.records, self.page)

    def grow(self, lane: int, tokens: int) -> None:
        """Map a lane's first `tokens` positions."""
        for number in range(-(-tokens // self.page)):
            if self.table[lane][number] < 0:
                if not self._free:
                    raise CapacityError("engine: no page is free")
                self.table[lane][number] = self._free.pop(0)

    def shrink(self, lane: int, tokens: int) -> None:
        """Take back the pages behind `tokens`."""
        for number in range(-(-tokens // self.page), len(self.table[lane])):
            page, self.table[lane][number] = self.table[lane][number], -1
            if page >= 0:
                self._free.append(page)

    def write(self, lane: int, layer: int, position: int, records: Tensor) -> None:
        """Write records [n, stride] from a position on."""
        at = range(position, position + len(records))
        rows = [self.table[lane][n // self.page] * self.page + n % self.page for n in at]
        memory = self.records[layer]
        at_rows = torch.tensor(rows, dtype=torch.int64, device=memory.device)
        memory[at_rows] = records.to(memory.device)

    def block_table(self, rows: Sequence[Row]) -> Tensor:
        """Give a batch's, no wider than it must be."""
        unmapped = [-1] * len(self.table[0])
        table = [self.table[row.lane] if row.lane >= 0 else unmapped for row in rows]
        width = max(sum(page >= 0 for page in pages) for pages in table)
        short = [pages[:width] for pages in table]
        return torch.tensor(short, dtype=torch.int32, device=self.records[0].device)
