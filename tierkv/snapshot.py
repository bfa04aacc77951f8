"""Counters as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierkv.constants import Counter
from tierkv.types import GroupStats, Stats

if TYPE_CHECKING:
    from tierkv.cache import TieredCache


def snapshot(cache: TieredCache) -> Stats:
    """Read a cache's counters; safe from any thread."""
    spec = cache.limits.spec
    groups = tuple(
        GroupStats(group.layers, **{counter.name.lower(): row[counter] for counter in Counter})
        for group, row in zip(spec.groups, cache.site.counters.tolist(), strict=True)
    )
    return Stats(
        groups=groups,
        lanes_used=len(cache.lanes),
        pages_used=cache.paging.used,
        pages=cache.limits.pages,
        device_bytes=cache.footprint.device,
        table_bytes=cache.footprint.tables,
        backing_bytes=cache.footprint.backing,
        fetched_bytes=sum(
            group.fetched * sum(spec.layouts[layer].stride for layer in group.layers)
            for group in groups
        ),
    )
