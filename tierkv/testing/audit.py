"""What must hold of pages at any time: who holds them, and that shared ones are not written."""

import zlib

import torch

from tierkv.cache import TieredCache
from tierkv.prefix_index import _Node
from tierkv.testing.assemble import bytes_of


class PageAudit:
    """Looks at a cache's pages between calls; keeps a checksum of each that the index names."""

    def __init__(self, cache: TieredCache) -> None:
        self.cache = cache
        self._sums: dict[int, tuple[_Node, int]] = {}

    def check(self) -> None:
        """Check holders, free and idle pages, and the bytes of those that the index names."""
        self.check_holders()
        index = self.cache.paging.index
        for page, node in index._nodes.items():
            known = self._sums.get(page)
            found = self._checksum(page)
            if known is not None and known[0] is node:
                assert known[1] == found, f"page {page} was written while the index names it"
            self._sums[page] = node, found
        self._sums = {page: self._sums[page] for page in index._nodes}

    def check_holders(self) -> None:
        """Check who holds which page."""
        paging, counts = self.cache.paging, [0] * self.cache.limits.pages
        for lane in range(self.cache.limits.lanes):
            held = paging.held(lane)
            table: list[int] = paging.block_table[lane].tolist()
            padded = held + [-1] * (len(table) - len(held))
            assert table == padded, f"lane {lane}: block table {table}, but it holds {held}"
            for page in held:
                counts[page] += 1
        wrong = f"holders are counted {paging._holders}, but lanes hold pages {counts} times"
        assert paging._holders == counts, wrong
        free, idle = paging._free, set(paging.index._idle)
        assert len(set(free)) == len(free), f"a page is free twice: {free}"
        taken = {page for page, count in enumerate(counts) if count}
        assert not taken & set(free), f"pages {taken & set(free)} are held, but free"
        assert not idle & (taken | set(free)), f"pages {idle} are idle, but held or free"
        lost = set(range(len(counts))) - taken - idle - set(free)
        assert not lost, f"pages {lost} are neither held nor free"
        assert idle <= set(paging.index._nodes), "an idle page is not in the index"

    def _checksum(self, page: int) -> int:
        size, total = self.cache.limits.page, 0
        rows = torch.arange(page * size, (page + 1) * size)
        for layer, layout in enumerate(self.cache.limits.spec.layouts):
            records = torch.empty((size, layout.stride), dtype=torch.uint8)
            self.cache.site.backing.read(layer, rows, records).wait()
            total = zlib.crc32(bytes_of(records), total)
            for part in self.cache.store.device[layer].values():
                total = zlib.crc32(bytes_of(part[rows.to(part.device)]), total)
        return total
