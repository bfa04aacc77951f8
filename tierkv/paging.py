"""Pages of backing rows, who holds them, and the block tables that map positions to them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.errors import CapacityError, say
from tierkv.limits import Limits
from tierkv.prefix_index import PrefixIndex


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of a lane that will be written: from `start`, up to but without `stop`.

    With both equal nothing is written yet, only room is made.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A page whose records must be copied, all layers and parts, before the lane writes to it."""

    lane: int
    number: int
    """Of the page, within the lane."""
    source: int
    target: int


class Paging:
    """Pages are shared: a page is written by its sole holder, and never once the index names it.

    Decide, then apply: a refused call changes nothing.
    """

    def __init__(self, limits: Limits) -> None:
        self.page = limits.page
        self.pages = limits.pages
        self.index = PrefixIndex(limits.page)
        self.block_table = torch.full((limits.lanes, limits.lane_pages), -1, dtype=torch.int32)
        """[lanes, pages] int32 on the host; -1 unmapped."""
        self._free = list(range(limits.pages - 1, -1, -1))
        self._holders = [0] * limits.pages
        self._held: list[list[int]] = [[] for _ in range(limits.lanes)]
        self._shares = 0
        """Counts what may have given a page a further holder, or a name."""
        self._alone: dict[int, tuple[int, Span]] = {}
        """Lane -> that count, and the span that it held alone then."""

    @property
    def used(self) -> int:
        """Pages that lanes hold, shared ones counted once."""
        return self.pages - len(self._free) - self.index.idle

    def grow(self, spans: Mapping[int, Span]) -> list[Copy]:
        """Let each lane hold pages up to its span's end, and those of the span alone.

        Returns
        -------
        list
            Copies that the caller makes before anything else happens to these pages.

        Raises
        ------
        CapacityError
            If free and idle pages do not suffice for all of them.
        """
        shared = self._to_copy(spans)
        missing = {
            lane: max(self._count(span.stop) - len(self._held[lane]), 0)
            for lane, span in spans.items()
        }
        total = sum(missing.values()) + len(shared)
        free = len(self._free) + self.index.idle
        if total > free:
            wrong = (
                f"{total} pages of {self.page} tokens are needed, {free} of {self.pages} are free"
            )
            do = "release a request and retry, or raise it"
            raise CapacityError(say("backing.capacity", wrong, do=do))
        copies = [self._replace(lane, number) for lane, number in shared]
        for lane, count in missing.items():
            for _ in range(count):
                self._append(lane, self._take())
            self._alone[lane] = self._shares, spans[lane]
        return copies

    def undo(self, copies: Sequence[Copy], held: Mapping[int, int]) -> None:
        """Take a growth back whose copies failed; `held` says how many pages each lane had."""
        self._alone.clear()
        for lane, count in held.items():
            self.shrink(lane, count * self.page)
        for copy in reversed(copies):  # a later one may have taken what an earlier one gave up
            self._held[copy.lane][copy.number] = copy.source
            self.block_table[copy.lane, copy.number] = copy.source
            self._drop(copy.target)
            if self._holders[copy.source] == 0 and copy.source not in self.index:
                self._free.remove(copy.source)
            self._hold(copy.source)

    def _count(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def _to_copy(self, spans: Mapping[int, Span]) -> list[tuple[int, int]]:
        """Find (lane, number of page) of what is written but not held alone."""
        found: list[tuple[int, int]] = []
        left: dict[int, int] = {}
        for lane, span in spans.items():
            held = self._held[lane]
            stop = min(self._count(span.stop), len(held)) if span.start < span.stop else 0
            for number in range(self._unchecked(lane, span), stop):
                page = held[number]
                holders = left.setdefault(page, self._holders[page])
                if holders > 1 or page in self.index:
                    found.append((lane, number))
                    left[page] -= 1
        return found

    def _unchecked(self, lane: int, span: Span) -> int:
        """Give the number of the first page of a span that is not known to be the lane's alone."""
        shares, known = self._alone.get(lane, (-1, span))
        if shares == self._shares and known.start <= span.start < known.stop:
            return self._count(known.stop)
        return span.start // self.page

    def _take(self) -> int:
        if not self._free:
            self._free.extend(self.index.evict())
        return self._free.pop()

    def _append(self, lane: int, page: int) -> None:
        self.block_table[lane, len(self._held[lane])] = page
        self._held[lane].append(page)
        self._hold(page)

    def _replace(self, lane: int, number: int) -> Copy:
        copy = Copy(lane, number, self._held[lane][number], self._take())
        self._held[lane][number] = copy.target
        self.block_table[lane, number] = copy.target
        self._hold(copy.target)
        self._drop(copy.source)
        return copy

    def _hold(self, page: int) -> None:
        self._holders[page] += 1
        self.index.hold(page)

    def _drop(self, page: int) -> None:
        self._holders[page] -= 1
        if self._holders[page] == 0:
            if page in self.index:
                self.index.rest(page)
            else:
                self._free.append(page)

    def share(self, lane: int, pages: Sequence[int]) -> None:
        """Let an empty lane hold `pages` too, as its first ones."""
        self._shares += 1
        for page in pages:
            self._append(lane, page)

    def held(self, lane: int) -> list[int]:
        """Give the pages of a lane."""
        return list(self._held[lane])

    def name(self, lane: int, tokens: Sequence[int], salt: Hashable) -> None:
        """Enter the full pages of a lane's first `tokens` into the prefix index."""
        self._shares += 1
        full = len(tokens) // self.page
        self.index.insert(tokens, salt, self._held[lane][:full])

    def shrink(self, lane: int, tokens: int) -> None:
        """Give back a lane's pages behind so many tokens, the last first."""
        held = self._held[lane]
        keep = self._count(tokens)
        while len(held) > keep:
            self._drop(held.pop())
        self.block_table[lane, keep:] = -1

    def rows(self, lane: int, start: int, stop: int) -> Tensor:
        """Give the backing rows of positions `start` to `stop` of a lane, [n] int64, all mapped."""
        position = torch.arange(start, stop)
        pages = self.block_table[lane].long()[position // self.page]
        return pages * self.page + position % self.page
