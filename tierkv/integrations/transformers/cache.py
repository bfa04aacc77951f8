"""The cache that transformers' models and ``generate`` work with."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import StateError, say
from tierkv.integrations.transformers.attention import NAME, UPDATED
from tierkv.integrations.transformers.layer import TieredLayer, stock_tensors
from tierkv.integrations.transformers.library import DynamicCache, PreTrainedModel
from tierkv.integrations.transformers.passes import Decode, Pass, Prefill
from tierkv.integrations.transformers.rows import Rows
from tierkv.types import Selection


class TieredDynamicCache(DynamicCache):
    """A ``DynamicCache`` whose latents are in tiers; made by :func:`tiered_cache`.

    A forward over at most ``queries`` new tokens is a step: attention reads selected records
    alone. A longer one (a prompt, a chunk of one) computes what the stock cache does, with the
    past read back one layer at a time.

    A forward that raised is undone by whatever is called next: the rows are as long as before it.
    """

    def __init__(self, tiered: TieredCache, model: PreTrainedModel) -> None:
        super().__init__(config=model.config)
        self.tiered = tiered
        """The cache underneath, for its ``stats()``."""
        self._config = model.config
        self._rows = Rows(tiered)
        self._pass: Pass | None = None
        self._layers = [TieredLayer(self._rows) for _ in tiered.limits.spec.layouts]
        self.layers = list(self._layers)

    @property
    def device_bytes(self) -> int:
        """KV bytes on the device: pools, selection buffers, indexer keys."""
        keys = [layer.indexer_keys for layer in self._layers if layer.indexer_keys is not None]
        return self.tiered.stats().device_bytes + sum(tensor.nbytes for tensor in keys)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take a layer's new latents, [B, 1, S, rank] and [B, 1, S, rope].

        Returns
        -------
        tuple
            The latents to expand: those of all tokens in a prompt, of one in a step.

        Raises
        ------
        StateError, CapacityError, ShapeError, TierError
        """
        if layer_idx == 0:
            self._undo()
            self._check_attention()
            rows, _, tokens, _ = key_states.shape
            self._open(rows, tokens)
        if self._pass is None:
            do = "run the model from its first layer"
            raise StateError(say(f"update, layer {layer_idx}", "no forward is open", do=do))
        latents = self._pass.write(layer_idx, key_states, value_states)
        UPDATED.set(self)
        return latents

    def awaits(self, keys: int) -> bool:
        """Say whether the open forward, if any, lets attention see so many keys."""
        return self._pass is not None and self._pass.keys == keys

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> Selection | None:
        """Give the records to attend to, or None; see :meth:`Pass.select`."""
        assert self._pass is not None, "attention follows update"
        return self._pass.select(layer, mask, ids)

    def layer_done(self, layer: int) -> None:
        """Take note that a layer has attended; the last one ends the forward."""
        if layer == len(self._layers) - 1 and self._pass is not None:
            self._pass.finish()
            self._pass = None

    def adopt(self, cache: DynamicCache) -> None:
        """Hold a copy of what a stock cache of the same model holds, in place of all else.

        Raises
        ------
        CapacityError, StateError, ShapeError
        """
        self.reset()
        held = [stock_tensors(layer) for layer in cache.layers]
        rows, _, tokens, _ = held[0][0].shape
        self._rows.open(rows)
        self._pass = prefill = Prefill(self._rows, tokens)
        for number, (nope, rope, *keys) in enumerate(held):
            prefill.write(number, nope, rope)
            for key in keys:
                self._layers[number].update_indexer(key)
        self.layer_done(len(held) - 1)

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens of every row.

        Parameters
        ----------
        tokens_to_remove
            How many, as a negative number; a positive one is the length to keep at most.
        """
        self._undo()
        length = self._rows.length
        keep = tokens_to_remove if tokens_to_remove > 0 else length + tokens_to_remove
        self._rows.crop(min(max(keep, 0), length))

    def reset(self) -> None:
        """Forget all rows; the next forward may have another batch size."""
        self._undo()
        self._rows.clear()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let row ``i`` hold what row ``beam_idx[i]`` held; a row named again is forked."""
        self._rearrange(beam_idx.tolist())

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows `indices` (numbers, or a bool for each row), in their order."""
        chosen = indices.nonzero().flatten() if indices.dtype == torch.bool else indices
        self._rearrange(chosen.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row, which forks it; the cache must have been made for so many rows."""
        self._rearrange([row for row in range(len(self._rows)) for _ in range(repeats)])

    def close(self) -> None:
        """Give all memory back."""
        self._pass = None
        self.tiered.close()
        for layer in self._layers:
            layer.free()

    def __enter__(self) -> "TieredDynamicCache":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, rows: int, tokens: int) -> None:
        self._rows.open(rows)
        kind = Decode if tokens <= self.tiered.limits.queries else Prefill
        self._pass = kind(self._rows, tokens)

    def _undo(self) -> None:
        """Abandon a forward that did not reach its last layer."""
        UPDATED.set(None)
        broken, self._pass = self._pass, None
        if broken is not None:
            broken.abandon()

    def _check_attention(self) -> None:
        name = self._config._attn_implementation
        if name != NAME:
            do = f"call model.set_attn_implementation({NAME!r})"
            raise StateError(say("attention", f"must be {NAME!r} with this cache", got=name, do=do))

    def _rearrange(self, rows: Sequence[int]) -> None:
        self._undo()
        self._rows.rearrange(rows)
        for layer in self._layers:
            layer.rearrange(rows)
