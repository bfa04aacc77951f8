"""One layer of the cache as transformers sees it."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from tierkv.errors import StateError, say
from tierkv.integrations.transformers.library import DynamicIndexedLayer
from tierkv.integrations.transformers.rows import Rows


def stock_tensors(layer: Any) -> list[Tensor]:
    """Give what a stock layer holds.

    Returns
    -------
    list
        Latents [B, 1, T, rank] and [B, 1, T, rope], and with an indexer its keys [B, T, width].
    """
    tensors = layer.keys, layer.values, layer.indexer_keys
    return [tensor for tensor in tensors if tensor is not None]


class TieredLayer(DynamicIndexedLayer):
    """The indexer keys of one layer; its latents are in the tiers.

    The indexer reads the keys of all positions each step, so they stay on the device, allocated
    once for the longest request. The model's indexer wants them dense, not in pages.
    """

    def __init__(self, rows: Rows) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in transformers
        self._rows = rows

    def get_seq_length(self) -> int:
        """Tokens of each row, those of an unfinished forward not counted."""
        return self._rows.length

    def update(self, *arguments: Any, **named: Any) -> NoReturn:
        """Refuse: latents go through the cache."""
        raise StateError(say("layer", "takes no latents", do="call update of the cache"))

    def update_indexer(self, indexer_key_states: Tensor) -> Tensor:
        """Write the keys of the new tokens.

        Parameters
        ----------
        indexer_key_states
            [B, S, index_head_dim].

        Returns
        -------
        Tensor
            [B, T, index_head_dim], a view of the keys of all T = past + S tokens.
        """
        rows, tokens, width = indexer_key_states.shape
        start, stop = self._rows.length, self._rows.length + tokens
        if self.indexer_keys is None:
            limits = self._rows.tiered.limits
            with torch.inference_mode(False):
                self.indexer_keys = indexer_key_states.new_empty(
                    (limits.lanes, limits.max_tokens, width)
                )
        self.indexer_keys[:rows, start:stop] = indexer_key_states.detach()
        return self.indexer_keys[:rows, :stop]

    def rearrange(self, rows: Sequence[int]) -> None:
        """Let row ``i`` hold what row ``rows[i]`` held."""
        if self.indexer_keys is not None:
            kept = self.indexer_keys[list(rows), : self._rows.length]
            self.indexer_keys[: len(rows), : self._rows.length] = kept

    def free(self) -> None:
        """Give the keys' memory back."""
        self.indexer_keys = None
