"""One forward of the model: either a step over selections, or a prompt the stock way."""

from abc import ABC, abstractmethod

import torch.nn.functional as F
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.integrations.transformers.indexer_keys import IndexerKeys, key_part
from tierkv.integrations.transformers.new_tokens import NewTokens
from tierkv.types import Selection

WARM = 32
"""Queries at a prompt's end whose selections are made resident."""


class Pass(ABC):
    """One forward over all layers.

    1. In each layer :meth:`write`, then :meth:`write_keys` where it has an indexer, then
       :meth:`select` and attention over what it gives.
    2. After the last layer :meth:`end`, and so if the forward raised.
    """

    keys: int
    """T of the keys that the module hands to attention."""
    table: Tensor
    """[B, pages] int32, the batch's block table."""

    def __init__(self, tiered: TieredCache, new: NewTokens, buffer: IndexerKeys) -> None:
        self.tiered, self.new = tiered, new
        self._buffer = buffer
        self.top_k = tiered.limits.spec.top_k

    def write(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        """Take the latents of the new tokens; give those that the model's module is to expand.

        Parameters
        ----------
        nope
            [B, 1, S, kv_lora_rank].
        rope
            [B, 1, S, qk_rope_head_dim].
        """
        self.put(layer, {"nope": nope[:, 0].detach(), "rope": rope[:, 0].detach()})
        return self.latents(layer, nope, rope)

    def write_keys(self, layer: int, keys: Tensor) -> Tensor:
        """Take the indexer keys [B, S, width] of the new tokens; give those of all, [B, T, width].

        Row ``b`` holds the keys of its positions in order, behind them anything.
        """
        name = key_part(self.tiered.limits.spec, layer)
        self.put(layer, {name: keys.detach()})
        part = self.tiered.store.device[layer][name]
        return self._buffer.gather(part, self.table, max(self.new.lengths))

    def visible(self, mask: Tensor, ids: Tensor) -> Tensor:
        """Replace ids that the mask hides by -1."""
        seen = mask[:, 0].expand(len(ids), -1, -1).gather(-1, ids.long())
        return ids.masked_fill(~seen, -1)

    @abstractmethod
    def put(self, layer: int, parts: dict[str, Tensor]) -> None:
        """Write parts [B, S, width] of the new tokens."""

    @abstractmethod
    def latents(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        """Give the latents to expand, where these are the new ones."""

    @abstractmethod
    def select(self, layer: int, mask: Tensor, ids: Tensor) -> Selection | None:
        """Give the records to attend to; None if attention is to read what the module expanded.

        Parameters
        ----------
        mask
            [B or 1, 1, S, T] bool, True at the keys that a query sees.
        ids
            [B, S, min(K, T)] int32, the indexer's choice. Where a query sees fewer keys, it is
            filled with keys that the mask hides.
        """

    @abstractmethod
    def end(self, failed: bool) -> None:
        """Make what was written count; if the forward failed, leave requests as long as before."""


class Decode(Pass):
    """A step: new records are appended, and attention sees only what was selected.

    The module expands one token, which nobody reads; it cannot expand none.
    """

    keys = 1

    def __init__(self, tiered: TieredCache, new: NewTokens, buffer: IndexerKeys) -> None:
        super().__init__(tiered, new, buffer)
        self._owner_of = tiered.owner_of
        step = tiered.step(new.lanes, new.lengths, new.counts, queries=new.width)
        self._step = step.__enter__()
        self.table = step.batch.block_table

    def put(self, layer: int, parts: dict[str, Tensor]) -> None:
        self._step.append(layer, parts)

    def latents(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        return nope[:, :, :1], rope[:, :, :1]

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> Selection:
        if layer != self._owner_of[layer]:
            return self._step.select(layer)
        ids = F.pad(self.visible(mask, ids), (0, self.top_k - ids.shape[-1]), value=-1)
        return self._step.select(layer, ids)

    def end(self, failed: bool) -> None:
        error = RuntimeError("the forward did not reach its last layer") if failed else None
        self._step.__exit__(type(error) if error else None, error, None)


class Prefill(Pass):
    """A prompt or a chunk of one: the past is read back, one layer at a time."""

    def __init__(self, tiered: TieredCache, new: NewTokens, buffer: IndexerKeys) -> None:
        super().__init__(tiered, new, buffer)
        self.keys = max(new.lengths)
        self._last: dict[int, Tensor] = {}

    def put(self, layer: int, parts: dict[str, Tensor]) -> None:
        new = self.new
        for row, (request, past, count) in enumerate(
            zip(new.requests, new.past, new.counts, strict=True)
        ):
            tokens = {name: part[row, -count:] for name, part in parts.items()}
            self.tiered.prefill(request, layer, tokens, past)
        self.table = self.tiered.paging.block_table[list(new.lanes)].to(self.tiered.limits.device)

    def latents(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        new = self.new
        if new.uniform and not new.past[0]:
            return nope, rope
        shape = len(nope), 1, self.keys
        whole = tuple(part.new_zeros((*shape, part.shape[-1])) for part in (nope, rope))
        for row, (request, past, count) in enumerate(
            zip(new.requests, new.past, new.counts, strict=True)
        ):
            held = self.tiered.read(request, layer, 0, past) if past else {}
            for name, part, out in zip(("nope", "rope"), (nope, rope), whole, strict=True):
                if past:
                    out[row, 0, :past] = held[name]
                out[row, 0, past : past + count] = part[row, 0, -count:]
        return whole[0], whole[1]

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> None:
        if any(self.new.warm) and layer == self.tiered.owner_of[layer]:
            self._last[layer] = self.visible(mask[:, :, -WARM:], ids[:, -WARM:])

    def end(self, failed: bool) -> None:
        if not failed:
            try:
                self.tiered.settle()
            except BaseException:
                self._take_back()
                raise
            self._warm()
        else:
            self._take_back()

    def _warm(self) -> None:
        new = self.new
        for row, request in enumerate(new.requests):
            if new.warm[row]:
                for layer, ids in self._last.items():
                    self.tiered.warm(request, layer, ids[row, -new.counts[row] :])

    def _take_back(self) -> None:
        new = self.new
        for request, lane, past in zip(new.requests, new.lanes, new.past, strict=True):
            held = int(self.tiered.lengths.tiered[lane].max())
            self.tiered.truncate(request, min(past, held))
