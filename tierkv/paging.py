"""Pages of backing rows and the block tables that map positions to them."""

import torch
from torch import Tensor

from tierkv.errors import CapacityError, say
from tierkv.limits import Limits


class Paging:
    """Who holds which page. All or nothing: a refused call changes nothing."""

    def __init__(self, limits: Limits) -> None:
        self.page = limits.page
        self.pages = limits.pages
        self._free = list(range(limits.pages - 1, -1, -1))
        self._held: list[list[int]] = [[] for _ in range(limits.lanes)]
        self.block_table = torch.full((limits.lanes, limits.lane_pages), -1, dtype=torch.int32)
        """[lanes, pages] int32 on the host; -1 unmapped."""

    @property
    def used(self) -> int:
        """Pages that lanes hold."""
        return self.pages - len(self._free)

    def grow(self, wanted: dict[int, int]) -> None:
        """Let each lane hold pages for so many tokens at least.

        Raises
        ------
        CapacityError
            If the free pages do not suffice for all of them.
        """
        missing = {
            lane: -(-tokens // self.page) - len(self._held[lane]) for lane, tokens in wanted.items()
        }
        total = sum(max(count, 0) for count in missing.values())
        if total > len(self._free):
            raise CapacityError(
                say(
                    "backing.capacity",
                    f"{total} pages of {self.page} tokens are needed, "
                    f"{len(self._free)} of {self.pages} are free",
                    do="release a request and retry, or raise it",
                )
            )
        for lane, count in missing.items():
            for _ in range(count):
                held = self._held[lane]
                held.append(self._free.pop())
                self.block_table[lane, len(held) - 1] = held[-1]

    def shrink(self, lane: int, tokens: int) -> None:
        """Give back the pages of a lane behind so many tokens."""
        held = self._held[lane]
        keep = -(-tokens // self.page)
        self._free.extend(reversed(held[keep:]))
        del held[keep:]
        self.block_table[lane, keep:] = -1

    def rows(self, lane: int, start: int, stop: int) -> Tensor:
        """Give the backing rows of positions `start` to `stop` of a lane, [n] int64, all mapped."""
        position = torch.arange(start, stop)
        pages = self.block_table[lane].long()[position // self.page]
        return pages * self.page + position % self.page
