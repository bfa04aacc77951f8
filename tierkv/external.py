"""Engines that page by themselves: their block table, their records."""

from collections.abc import Mapping, Sequence

import attrs
import torch
from torch import Tensor

from tierkv.constants import MAX_PAGE, MIN_PAGE
from tierkv.errors import ConfigError, ShapeError, say
from tierkv.layout import KVLayout, ModelSpec
from tierkv.limits import Limits
from tierkv.paging import Copy, Paging, Span
from tierkv.tiers.view_tier import ViewTier


@attrs.frozen(eq=False)
class External:
    """An engine's own KV, in place of a backing tier: ``load(..., blocks=External(...))``.

    The engine maps positions to pages and passes the batch's block table to ``begin``. It writes
    records itself and says so by ``append(layer, None)``, or lets ``append`` write them. Admitting
    a request only binds a lane; releasing or truncating one only drops its residency.
    """

    records: Sequence[Tensor]
    """One a layer, [rows, stride] uint8: whole records of the layer's tiered parts. Rows ``n *
    page`` and up are page ``n``. Kernels address this memory directly."""
    page: int
    """Records a page, a power of two from 16 to 1024."""

    def spec(self, model: ModelSpec) -> ModelSpec:
        """Give the part of a model that is cached here: device parts are the engine's.

        Raises
        ------
        ConfigError
            If the records do not fit the model.
        """
        if not MIN_PAGE <= self.page <= MAX_PAGE or self.page & (self.page - 1):
            wrong = f"must be a power of two from {MIN_PAGE} to {MAX_PAGE}"
            raise ConfigError(say("blocks.page", wrong, got=self.page))
        layers = len(model.layouts)
        if len(self.records) != layers:
            wrong = f"the model has {layers} layers"
            raise ConfigError(say("blocks.records", wrong, got=len(self.records)))
        for layer, (records, layout) in enumerate(zip(self.records, model.layouts, strict=True)):
            shape = (len(self.records[0]), layout.stride)
            if records.dtype != torch.uint8 or records.shape != shape or records.stride(1) != 1:
                wrong = f"must be uint8 {list(shape)} with contiguous rows"
                got = f"{records.dtype} {list(records.shape)}"
                raise ConfigError(say(f"blocks.records, layer {layer}", wrong, got=got))
        return attrs.evolve(model, layouts=tuple(KVLayout(at.tiered) for at in model.layouts))

    @property
    def pages(self) -> int:
        """Whole pages."""
        return len(self.records[0]) // self.page


def widen(block_table: Tensor, shape: torch.Size, limits: Limits) -> Tensor:
    """Check an engine's block table [B, pages] and widen it to a batch's `shape`.

    One on an accelerator is not read, unless ``debug`` is set: it loses pages that do not exist.

    Raises
    ------
    ShapeError
    """
    if block_table.dim() != 2 or len(block_table) != shape[0] or block_table.shape[1] > shape[1]:
        wrong = f"block_table must be [{shape[0]}, at most {shape[1]}]"
        raise ShapeError(say("begin", wrong, got=list(block_table.shape)))
    if block_table.is_cpu or limits.debug:
        beyond = int(block_table.max()) if block_table.numel() else -1
        if beyond >= limits.pages:
            wrong = f"block_table names a page of {limits.pages}"
            raise ShapeError(say("begin", wrong, got=beyond))
    wide = torch.full(shape, -1, dtype=torch.int32, device=block_table.device)
    wide[:, : block_table.shape[1]] = torch.where(block_table < limits.pages, block_table, -1)
    return wide


class ExternalTier(ViewTier):
    """The engine's records as a backing."""

    def __init__(self, blocks: External, limits: Limits) -> None:
        super().__init__(blocks, limits)
        self._layers = list(blocks.records)

    def memory(self, rows: int, stride: int) -> Tensor:
        raise AssertionError("an engine's records are not allocated here")


class ExternalPaging(Paging):
    """No pages of our own."""

    def grow(self, spans: Mapping[int, Span]) -> list[Copy]:
        return []

    def shrink(self, lane: int, tokens: int) -> None:
        pass
