"""What the model's forward asks of a cache, whoever drives the model."""

from abc import abstractmethod
from types import TracebackType
from typing import Any, Self

from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import StateError, say
from tierkv.integrations.transformers.attention import NAME, UPDATED
from tierkv.integrations.transformers.indexer_keys import IndexerKeys
from tierkv.integrations.transformers.layer import TieredLayer
from tierkv.integrations.transformers.library import DynamicCache, PreTrainedModel
from tierkv.integrations.transformers.new_tokens import NewTokens
from tierkv.integrations.transformers.passes import Decode, Pass, Prefill
from tierkv.types import Selection


class ForwardCache(DynamicCache):
    """A ``DynamicCache`` whose latents are in tiers; its subclasses say which rows there are.

    A forward over at most ``queries`` new tokens a row is a step: attention reads selected records
    alone. A longer one (a prompt, a chunk of one) computes what the stock cache does, with the
    past read back one layer at a time; the last selections of a prompt are then made resident.

    A forward that raised is undone by whatever is called next: the rows are as long as before it.
    """

    def __init__(self, tiered: TieredCache, model: PreTrainedModel) -> None:
        super().__init__(config=model.config)
        self.tiered = tiered
        """The cache underneath, for its ``stats()``."""
        self._config = model.config
        self._keys: IndexerKeys | None = IndexerKeys(tiered.limits)
        self._pass: Pass | None = None
        self.layers = [TieredLayer(self, layer) for layer in range(len(tiered.owner_of))]

    @property
    @abstractmethod
    def tokens(self) -> int:
        """Tokens of the longest row."""

    @abstractmethod
    def start(self, rows: int, tokens: int) -> None:
        """Open the forward that now runs over [rows, tokens] new ones."""

    @abstractmethod
    def ended(self, new: NewTokens) -> None:
        """Take note that a forward is complete."""

    @property
    def device_bytes(self) -> int:
        """KV bytes on the device: pools, selection buffers, indexer keys."""
        dense = self._keys.nbytes if self._keys else 0
        return self.tiered.stats().device_bytes + dense

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
            self._check_attention()
            rows, _, tokens, _ = key_states.shape
            self.start(rows, tokens)
        latents = self._running("update", layer_idx).write(layer_idx, key_states, value_states)
        UPDATED.set(self)
        return latents

    def write_keys(self, layer: int, keys: Tensor) -> Tensor:
        """Take a layer's new indexer keys [B, S, width]; see :meth:`Pass.write_keys`."""
        return self._running("update_indexer", layer).write_keys(layer, keys)

    def awaits(self, keys: int) -> bool:
        """Say whether the open forward, if any, lets attention see so many keys."""
        return self._pass is not None and self._pass.keys == keys

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> Selection | None:
        """Give the records to attend to, or None; see :meth:`Pass.select`."""
        return self._running("attention", layer).select(layer, mask, ids)

    def layer_done(self, layer: int) -> None:
        """Take note that a layer has attended; the last one ends the forward."""
        if layer == len(self.layers) - 1 and self._pass is not None:
            done, self._pass = self._pass, None
            done.end(failed=False)
            self.ended(done.new)

    def close(self) -> None:
        """Give all memory back."""
        self._pass = self._keys = None
        self.tiered.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self, new: NewTokens) -> None:
        """Open a forward over these tokens: a step if they are few enough."""
        if self._keys is None:
            raise StateError(say("cache", "is closed", do="make another"))
        kind = Decode if new.width <= self.tiered.limits.queries else Prefill
        self._pass = kind(self.tiered, new, self._keys)

    def undo(self) -> None:
        """Abandon a forward that did not reach its last layer."""
        UPDATED.set(None)
        broken, self._pass = self._pass, None
        if broken is not None:
            broken.end(failed=True)

    def _running(self, what: str, layer: int) -> Pass:
        if self._pass is None:
            do = "run the model from its first layer"
            raise StateError(say(f"{what}, layer {layer}", "no forward is open", do=do))
        return self._pass

    def _check_attention(self) -> None:
        name = self._config._attn_implementation
        if name != NAME:
            self.undo()
            do = f"call model.set_attn_implementation({NAME!r})"
            raise StateError(say("attention", f"must be {NAME!r} with this cache", got=name, do=do))
