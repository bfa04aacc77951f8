"""A harness whose requests have prompts, warm starts, a flaky tier, or an engine's own pages."""

import hashlib
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.testing.assemble import device_parts, tensor_of
from tierkv.testing.engine import Engine
from tierkv.testing.flaky_tier import FlakyTier
from tierkv.testing.harness import Harness
from tierkv.testing.ledger import Request
from tierkv.testing.model import Row
from tierkv.testing.model_residency import Residency


def prompt_records(
    prompt: tuple[tuple[int, ...], Hashable], layer: int, start: int, end: int, stride: int
) -> Tensor:
    """Give the records [end - start, stride] of a prompt: tokens and salt."""
    tokens, salt = prompt
    digest = hashlib.blake2b(repr((salt, layer)).encode())
    raw = []
    for position in range(end):
        digest.update(tokens[position].to_bytes(8, "little", signed=True))
        if position >= start:
            raw.append((digest.digest() * (stride // 64 + 1))[:stride])
    return tensor_of(b"".join(raw), stride)


class Serving(Harness):
    """Adds the calls of a serving engine that are not steps.

    A prompt's records are a function of its tokens and salt, as KV is, so that a page shared with
    the wrong request shows. Device parts are a function of the tiered ones.
    """

    def __init__(
        self,
        cache: TieredCache,
        make: Callable[[], Residency] | None = None,
        engine: Engine | None = None,
        watched: bool = True,
    ) -> None:
        tabled = cache.server.ordered  # others may keep residents where no table tells
        make = make if tabled else None
        super().__init__(cache, make, pooled=tabled, watched=watched, tabled=tabled)
        self.engine = engine
        self.prompts: dict[Hashable, tuple[tuple[int, ...], Hashable]] = {}
        self.selecting = False
        self._owners = {group.owner for group in self.spec.groups}
        self.tier = FlakyTier(cache.site.backing, self._spared)

    def _spared(self, layer: int) -> bool:
        """Whether a failure now would leave the policy's model behind.

        It does not know whether a placement was made before its owner was served.
        """
        modelled = bool(self.mirror.residency[0])
        return modelled and self.selecting and layer in self._owners

    def admit(self, name: Hashable, tokens: int = 0, reserve: int = 0) -> int:
        return super().admit(name, tokens, 0 if self.engine else reserve)

    def admit_prompt(self, name: Hashable, tokens: Sequence[int], salt: Hashable = None) -> int:
        """Admit a request by its tokens; give how many of them it need not compute."""
        lane = self.cache.admit(name, tokens=tokens, salt=salt)
        length = self.cache.length(name)
        assert length % self.cache.limits.page == 0, f"{length} tokens shared, not whole pages"
        assert length < len(tokens), f"{length} tokens shared, the last must be left to compute"
        groups = len(self.spec.groups)
        self.requests[name] = Request(lane, [length] * groups, [0] * groups)
        self.prompts[name] = tuple(tokens), salt
        for layer in range(len(self.spec.layouts)):
            self._written(lane, layer, range(length), self.content(name, layer, 0, length))
        return length

    def prefill(self, name: Hashable, starts: Sequence[int], end: int) -> None:
        request = self.requests[name]
        if self.engine and any(a < b for a, b in zip(starts, request.length, strict=True)):
            # An engine that rewrites records outside a step must truncate, or nobody knows.
            low, high = max(request.stable), min(request.length)
            starts = request.length
            if low <= high:
                self.truncate(name, low)
                starts = [low] * len(starts)
        super().prefill(name, starts, end)

    def content(self, name: Hashable, layer: int, start: int, end: int) -> Tensor:
        prompt = self.prompts.get(name, ((), None))
        stride, known = self.spec.layouts[layer].stride, min(len(prompt[0]), end)
        drawn = self._draw(layer, end - max(start, known))
        return torch.cat([prompt_records(prompt, layer, start, known, stride), drawn])

    def fill(self, name: Hashable, layer: int, start: int, records: Tensor) -> None:
        if self.engine:
            lane = self.requests[name].lane
            self.engine.grow(lane, start + len(records))
            self.engine.write(lane, layer, start, records)
            return
        layout = self.spec.layouts[layer]
        parts = {**layout.views(records), **device_parts(layout, records)}

        def prefill() -> None:
            self.cache.prefill(name, layer, parts, start)
            if watch:
                self.cache.settle()  # it may be written in the background

        watch = self.tier.armed == "write"
        self.tier.retry(prefill)

    def fork(self, name: Hashable, copy: Hashable) -> int:
        lane = super().fork(name, copy)
        if name in self.prompts:
            self.prompts[copy] = self.prompts[name]
        return lane

    def truncate(self, name: Hashable, length: int) -> None:
        super().truncate(name, length)
        if self.engine:
            self.engine.shrink(self.requests[name].lane, max(self.requests[name].length))

    def release(self, name: Hashable) -> None:
        lane = self.requests[name].lane
        super().release(name)
        self.prompts.pop(name, None)
        if self.engine:
            self.engine.shrink(lane, 0)

    def read(self, name: Hashable, layer: int, start: int, stop: int) -> None:
        if self.engine:
            return
        self.tier.retry(lambda: Harness.read(self, name, layer, start, stop))
        layout, lane = self.spec.layouts[layer], self.requests[name].lane
        known = [self.mirror.records.read(lane, layer, at) for at in range(start, stop)]
        wanted = device_parts(layout, tensor_of(b"".join(known), layout.stride))
        got = self.cache.read(name, layer, start, stop)
        for part, values in wanted.items():
            found = got[part].cpu()
            assert torch.equal(found, values), f"layer {layer}: device part {part} differs"

    def warm(self, name: Hashable, group: int, ids: list[list[int]]) -> None:
        """Make records resident; whatever was counted before is counted still."""
        request, members = self.requests[name], self.spec.groups[group]
        armed, self.tier.armed = self.tier.armed, ""  # nor would the model know how far it came
        self.cache.warm(name, members.owner, self.positions(ids))
        self.tier.armed = armed
        row = Row(request.lane, request.length[group], 1, request.length[group])
        counted = self.mirror.tallies[group].copy()
        for selected in ids:
            padded = selected + [-1] * (self.spec.top_k - len(selected))
            self.mirror.plan(group, [row], [[padded]], self.pages)
        self.mirror.tallies[group] = counted
        self.mirror.remember()
        request.stable[group] = request.length[group]

    def pages(self, lane: int) -> list[int]:
        return self.engine.table[lane] if self.engine else super().pages(lane)
