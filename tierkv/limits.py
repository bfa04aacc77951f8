"""The sizes of a cache, settled before anything is allocated."""

from dataclasses import dataclass

import torch

from tierkv.layout import ModelSpec


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """What a cache is built for."""

    spec: ModelSpec
    device: torch.device
    lanes: int
    max_tokens: int
    """Positions a lane can hold."""
    queries: int
    """Q of the widest stepper."""
    page: int
    """Records a page."""
    pages: int
    """Pages of the backing."""
    slots: tuple[int, ...]
    """P of each group."""
    external: bool = False
    """Pages and records are an engine's own."""
    debug: bool = False
    """Check on every step what is otherwise the caller's word; this reads from the device."""

    @property
    def rows(self) -> int:
        """Backing rows of each layer."""
        return self.pages * self.page

    @property
    def lane_pages(self) -> int:
        """Pages that a full lane takes."""
        return -(-self.max_tokens // self.page)
