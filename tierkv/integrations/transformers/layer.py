"""One layer of the cache as transformers sees it."""

from typing import TYPE_CHECKING, Any, NoReturn

from torch import Tensor

from tierkv.errors import StateError, say
from tierkv.integrations.transformers.library import DynamicIndexedLayer

if TYPE_CHECKING:
    from tierkv.integrations.transformers.forward_cache import ForwardCache


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
    """Holds nothing: latents are in the tiers, indexer keys in the same pages on the device."""

    def __init__(self, cache: "ForwardCache", number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in transformers
        self._cache, self._number = cache, number

    def get_seq_length(self) -> int:
        """Tokens of the longest row, those of an unfinished forward not counted."""
        return self._cache.tokens

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
            [B, T, index_head_dim], the keys of all tokens; valid until the next layer asks.
        """
        return self._cache.write_keys(self._number, indexer_key_states)
