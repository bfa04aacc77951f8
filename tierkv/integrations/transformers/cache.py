"""The cache that ``generate`` works with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.integrations.transformers.forward_cache import ForwardCache
from tierkv.integrations.transformers.layer import stock_tensors
from tierkv.integrations.transformers.library import DynamicCache, PreTrainedModel
from tierkv.integrations.transformers.new_tokens import NewTokens
from tierkv.integrations.transformers.passes import Prefill
from tierkv.integrations.transformers.rows import Rows


class TieredDynamicCache(ForwardCache):
    """For ``generate`` and its like: rows of equal length, left padding included.

    Made by :func:`tiered_cache`.
    """

    def __init__(self, tiered: TieredCache, model: PreTrainedModel) -> None:
        super().__init__(tiered, model)
        self._rows = Rows(tiered)

    @property
    def tokens(self) -> int:
        return self._rows.length

    def start(self, rows: int, tokens: int) -> None:
        self.undo()
        self._rows.open(rows)
        self.open(self._rows.extended(tokens, warm=True))

    def ended(self, new: NewTokens) -> None:
        self._rows.length = new.lengths[0]

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
        assert self._keys is not None, "reset refuses a closed cache"
        self._pass = prefill = Prefill(
            self.tiered, self._rows.extended(tokens, warm=False), self._keys
        )
        for number, (nope, rope, *keys) in enumerate(held):
            prefill.write(number, nope, rope)
            for key in keys:
                prefill.write_keys(number, key)
        self.layer_done(len(held) - 1)

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens of every row.

        Parameters
        ----------
        tokens_to_remove
            How many, as a negative number; a positive one is the length to keep at most.
        """
        self.undo()
        length = self._rows.length
        keep = tokens_to_remove if tokens_to_remove > 0 else length + tokens_to_remove
        self._rows.crop(min(max(keep, 0), length))

    def reset(self) -> None:
        """Forget all rows; the next forward may have another batch size."""
        self.undo()
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

    def _rearrange(self, rows: Sequence[int]) -> None:
        self.undo()
        self._rows.rearrange(rows)
