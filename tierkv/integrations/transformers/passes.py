"""One forward of the model: either a step over selections, or a prompt the stock way."""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from tierkv.integrations.transformers.rows import Rows
from tierkv.types import Selection


class Pass(ABC):
    """One forward over all layers.

    1. In each layer :meth:`write`, then :meth:`select` and attention over what it gives.
    2. After the last layer :meth:`finish`; if the forward raised, :meth:`abandon`.
    """

    keys: int
    """T of the keys that the module hands to attention."""

    @abstractmethod
    def write(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        """Take the latents of the new tokens; give those that the model's module is to expand.

        Parameters
        ----------
        nope
            [B, 1, S, kv_lora_rank].
        rope
            [B, 1, S, qk_rope_head_dim].
        """

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
    def finish(self) -> None:
        """Make what was written count."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave the rows as long as they were."""


class Decode(Pass):
    """A step: new records are appended, and attention sees only what was selected.

    The module expands one token, which nobody reads; it cannot expand none.
    """

    keys = 1

    def __init__(self, rows: Rows, tokens: int) -> None:
        self._rows, self._tokens = rows, tokens
        tiered = rows.tiered
        self._top_k, self._owner_of = tiered.limits.spec.top_k, tiered.owner_of
        kv_len = [rows.length + tokens] * len(rows)
        self._step = tiered.step(rows.lanes, kv_len, queries=tokens).__enter__()

    def write(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        self._step.append(layer, {"nope": nope[:, 0].detach(), "rope": rope[:, 0].detach()})
        return nope[:, :, :1], rope[:, :, :1]

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> Selection:
        if layer != self._owner_of[layer]:
            return self._step.select(layer)
        seen = mask[:, 0].expand(len(ids), -1, -1).gather(-1, ids.long())
        ids = F.pad(ids.masked_fill(~seen, -1), (0, self._top_k - ids.shape[-1]), value=-1)
        return self._step.select(layer, ids)

    def finish(self) -> None:
        self._step.__exit__(None, None, None)
        past = self._rows.length
        self._rows.advance(past + self._tokens, past)

    def abandon(self) -> None:
        error = RuntimeError("the forward did not reach its last layer")
        self._step.__exit__(RuntimeError, error, None)


class Prefill(Pass):
    """A prompt or a chunk of one: the past is read back, one layer at a time."""

    def __init__(self, rows: Rows, tokens: int) -> None:
        self._rows = rows
        self.keys = rows.length + tokens

    def write(self, layer: int, nope: Tensor, rope: Tensor) -> tuple[Tensor, Tensor]:
        rows, tiered = self._rows, self._rows.tiered
        new = {"nope": nope[:, 0].detach(), "rope": rope[:, 0].detach()}
        for row, request in enumerate(rows.requests):
            tokens = {name: part[row] for name, part in new.items()}
            tiered.prefill(request, layer, tokens, rows.length)
        if not rows.length:
            return nope, rope
        past = [tiered.read(request, layer, 0, rows.length) for request in rows.requests]

        def whole(name: str, new: Tensor) -> Tensor:
            old = torch.stack([row[name] for row in past]).unsqueeze(1)
            return torch.cat([old.to(new.device), new], dim=2)

        return whole("nope", nope), whole("rope", rope)

    def select(self, layer: int, mask: Tensor, ids: Tensor) -> None:
        return None

    def finish(self) -> None:
        self._rows.length = self.keys

    def abandon(self) -> None:
        self._rows.truncate(self._rows.length)
