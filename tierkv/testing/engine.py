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

    def __init__(self, shape: Shape) -> None:
        self.page = shape.page
        lane_pages = -(-shape.max_tokens // shape.page)
        self.table = [[-1] * lane_pages for _ in range(shape.lanes)]
        self.records = [
            torch.full((shape.pages * shape.page, layout.stride), 0xA5, dtype=torch.uint8)
            for layout in shape.spec.layouts
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
        self.records[layer][rows] = records

    def block_table(self, rows: Sequence[Row]) -> Tensor:
        """Give a batch's, no wider than it must be."""
        unmapped = [-1] * len(self.table[0])
        table = [self.table[row.lane] if row.lane >= 0 else unmapped for row in rows]
        width = max(sum(page >= 0 for page in pages) for pages in table)
        return torch.tensor([pages[:width] for pages in table], dtype=torch.int32)
