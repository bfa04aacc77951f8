"""The cache of a loop that serves many requests."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import ShapeError, StateError, say
from tierkv.integrations.transformers.forward_cache import ForwardCache
from tierkv.integrations.transformers.library import CACHE_ARGUMENT, PreTrainedModel
from tierkv.integrations.transformers.new_tokens import NewTokens


class ServingCache(ForwardCache):
    """Continuous batching: rows are requests of any length, others in every forward.

    Made by :func:`serving_cache`. The loop drives the model:

    1. :meth:`admit` says how many tokens of a prompt are there already, from another request.
    2. ``model(**cache.batch(...))`` runs new tokens of some requests, prompts and answers alike:
       chunks of prompts in one forward, at most ``queries`` tokens a row in another.
    3. Where :meth:`admit` or :meth:`batch` raises CapacityError, :meth:`release` a request, admit
       it again later with all its tokens, and retry.
    4. :meth:`release` ends a request; what it wrote of its prompt may be shared until the room is
       needed.
    """

    def __init__(self, tiered: TieredCache, model: PreTrainedModel) -> None:
        super().__init__(tiered, model)
        self._lane_of: dict[Hashable, int] = {}
        self._prompts: dict[Hashable, int] = {}
        self._fresh = False

    @property
    def tokens(self) -> int:
        return max(self._pass.new.past) if self._pass else 0

    def admit(self, request: Hashable, tokens: Sequence[int], salt: Hashable = None) -> int:
        """Bind a lane with room for `tokens`, a prompt; say how many of them need not be run.

        At least the last one must be: its logits are not kept.

        Parameters
        ----------
        salt
            Prefixes are shared only under equal salts: an adapter, a tenant.

        Raises
        ------
        CapacityError
            If no lane or too few pages are free; nothing was changed.
        StateError
            If the request is running.
        """
        self.undo()
        lane = self.tiered.admit(request, reserve=len(tokens), tokens=tokens, salt=salt)
        self._lane_of[request], self._prompts[request] = lane, len(tokens)
        return self.tiered.length(request)

    def release(self, request: Hashable) -> None:
        """End a request, or preempt it."""
        self.undo()
        self.tiered.release(request)
        del self._lane_of[request], self._prompts[request]

    def batch(
        self,
        requests: Sequence[Hashable],
        starts: Sequence[int],
        tokens: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Open a forward, and give the arguments to call the model with.

        In its logits [B, S, vocabulary] a row's new tokens are the last ones.

        Parameters
        ----------
        requests
            Running ones, each once, in any order.
        starts
            Position of each row's first new token. What a request held from there on is dropped:
            rejected drafts need no other call.
        tokens
            New tokens of each row, at least one. At most ``queries`` of them in every row make a
            step; more in any of them make it a prompt's chunk for all.

        Raises
        ------
        CapacityError
            Nothing was changed; :meth:`release` a request and retry.
        StateError, ShapeError
            If a request is unknown or does not reach its start.
        """
        self.undo()
        counts = [len(row) for row in tokens]
        if not requests or not len(requests) == len(starts) == len(tokens) or 0 in counts:
            wrong = f"{len(requests)} requests need a start and at least one token each"
            raise ShapeError(say("batch", wrong, got=(list(starts), counts)))
        if len(set(requests)) < len(requests):
            raise StateError(say("batch", "a request stands twice", got=list(requests)))
        for request, start in zip(requests, starts, strict=True):
            if request not in self._lane_of:
                raise StateError(say(f"batch, {request!r}", "is not running", do="admit it first"))
            held = self.tiered.length(request)
            if not 0 <= start <= held:
                raise StateError(
                    say(f"batch, {request!r}", f"start must be 0 to {held}", got=start)
                )
        lanes = [self._lane_of[request] for request in requests]
        ends = [start + count for start, count in zip(starts, counts, strict=True)]
        for request, lane, start in zip(requests, lanes, starts, strict=True):
            if start < self.tiered.lengths.stable[lane].max():
                self.tiered.truncate(request, start)
        warm = [end >= self._prompts[request] for request, end in zip(requests, ends, strict=True)]
        self.open(NewTokens(requests, lanes, starts, counts, warm))
        self._fresh = True
        return self._arguments(ends, tokens)

    def _arguments(self, ends: Sequence[int], tokens: Sequence[Sequence[int]]) -> dict[str, Any]:
        width, device = max(map(len, tokens)), self.tiered.limits.device
        ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in tokens], device=device)
        last = torch.tensor(ends, device=device)[:, None]
        # Queries before a row's first are there for the shape alone; they see one key, not none.
        positions: Tensor = (last - width + torch.arange(width, device=device)).clamp(min=0)
        keys = torch.arange(max(ends), device=device)
        return {
            "input_ids": ids,
            "position_ids": positions,
            "attention_mask": (keys <= positions[..., None])[:, None],
            CACHE_ARGUMENT: self,
            "use_cache": True,
        }

    def start(self, rows: int, tokens: int) -> None:
        fresh, self._fresh = self._fresh, False
        if self._pass is None or not fresh:
            self.undo()
            raise StateError(say("forward", "no batch is open", do="call the model with batch()"))
        new = self._pass.new
        if (rows, tokens) != (len(new.requests), new.width):
            self.undo()
            wrong = f"the open batch is {[len(new.requests), new.width]}"
            raise StateError(say("forward", wrong, got=[rows, tokens]))

    def ended(self, new: NewTokens) -> None:
        pass
