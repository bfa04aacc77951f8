"""One model decoded twice: with the stock cache and with tierkv."""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs
import torch
from torch import Tensor

from tierkv.blueprint import model_mapping
from tierkv.cache import TieredCache
from tierkv.config import Config
from tierkv.errors import ConfigError, say
from tierkv.integrations.transformers.attention import NAME
from tierkv.integrations.transformers.cache import TieredDynamicCache
from tierkv.integrations.transformers.layer import stock_tensors
from tierkv.integrations.transformers.library import (
    CACHE_ARGUMENT,
    DynamicCache,
    PreTrainedModel,
)
from tierkv.integrations.transformers.make import tiered_cache
from tierkv.integrations.transformers.model import build_model
from tierkv.types import GroupStats, Stats

CHUNK = 256
"""Prompt tokens a forward: the indexer's scores of a whole prompt grow with its square."""

Around = Callable[[PreTrainedModel, TieredCache], AbstractContextManager[Any]]
Progress = Callable[[str, int, int], None]
"""Called with the phase, ``prefill`` or ``decode``, how much of it is done, and of how much."""


@attrs.frozen
class Comparison:
    """What came out, from cold pools on. Rates count entries; "per step" is over all rows."""

    tokens_equal: bool
    """Greedy tokens of every step and row."""
    max_logit_diff: float
    hit_rate: float
    groups: list[dict[str, Any]]
    """Per layer group: ``layers``, ``hit_rate``, ``hits_per_step``, ``misses_per_step``,
    ``fetched_per_step`` (records a layer)."""
    device_kv_bytes: int
    """Pools, selection buffers and indexer keys."""
    stock_kv_bytes: int
    """Latents and indexer keys of all positions."""
    backing_kv_bytes: int
    bytes_fetched_per_step: float
    misses_per_step: float
    """Entries; a group counts once."""
    ms_per_step: float
    """Median."""
    stock_ms_per_step: float
    steps: int
    context: int
    """Prompt tokens."""
    batch: int


def compare(
    config: Config,
    *,
    context: int = 4096,
    tokens: int = 32,
    batch: int = 1,
    around: Around = lambda model, cache: nullcontext(),
    on_progress: Progress | None = None,
) -> Comparison:
    """Decode `tokens` greedy tokens after a random prompt of `context`, step by step in turn.

    Both caches are given the stock's token, so that one difference does not grow into others.

    Parameters
    ----------
    around
        Entered with the model and the cache underneath for the time of decoding: to force
        selections, or to record them.

    Raises
    ------
    ConfigError, CapacityError, LibraryError
    """
    if config.model is None:
        raise ConfigError(say("model", "is missing", do="set it, or choose a scheme"))
    report = on_progress or (lambda phase, done, total: None)
    mapping = model_mapping(config.model)
    model = build_model(mapping, context + tokens)
    stock = DynamicCache(config=model.config)
    generator = torch.Generator().manual_seed(mapping.get("seed", 0))
    prompt = torch.randint(model.config.vocab_size, (batch, context), generator=generator)
    with (
        torch.inference_mode(),
        tiered_cache(model, config, batch=batch, max_tokens=context + tokens) as tiered,
    ):
        race = _Race(model, stock, tiered, report)
        race.prefill(prompt)
        before = tiered.tiered.stats()
        with around(model, tiered.tiered):
            race.decode(tokens)
        return _result(race, before, context)


class _Race:
    """The same forwards with two caches, in turn."""

    def __init__(
        self,
        model: PreTrainedModel,
        stock: DynamicCache,
        tiered: TieredDynamicCache,
        report: Progress,
    ) -> None:
        self.model, self.stock, self.tiered, self.report = model, stock, tiered, report
        self.caches = {"sdpa": stock, NAME: tiered}
        self.seconds: dict[str, list[float]] = {name: [] for name in self.caches}
        self.equal = True
        self.difference = 0.0
        self.next = torch.empty(0)

    def prefill(self, prompt: Tensor) -> None:
        """Run the prompt once: a prompt through tierkv computes the same."""
        self.model.set_attn_implementation("sdpa")
        total = prompt.shape[1]
        for start in range(0, total, CHUNK):
            logits = self._forward("sdpa", prompt[:, start : start + CHUNK])
            self.report("prefill", min(start + CHUNK, total), total)
        self.next = logits.argmax(-1, keepdim=True)
        self.tiered.adopt(self.stock)

    def decode(self, steps: int) -> None:
        for step in range(steps):
            logits = {}
            for attention in self.caches:
                self.model.set_attn_implementation(attention)
                start = time.perf_counter()
                logits[attention] = self._forward(attention, self.next)
                self.seconds[attention].append(time.perf_counter() - start)
            self._judge(logits)
            self.report("decode", step + 1, steps)

    def _forward(self, attention: str, ids: Tensor) -> Tensor:
        cache = {CACHE_ARGUMENT: self.caches[attention]}
        logits: Tensor = self.model(ids, **cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        return logits

    def _judge(self, logits: dict[str, Tensor]) -> None:
        stock, tiered = logits["sdpa"].float(), logits[NAME].float()
        self.next = stock.argmax(-1, keepdim=True)
        self.equal &= torch.equal(self.next, tiered.argmax(-1, keepdim=True))
        self.difference = max(self.difference, float((stock - tiered).abs().max()))


def _result(race: _Race, before: Stats, context: int) -> Comparison:
    after = race.tiered.tiered.stats()
    steps = len(race.seconds["sdpa"])
    groups = [_group(old, new, steps) for old, new in zip(before.groups, after.groups, strict=True)]
    hits = sum(group["hits_per_step"] for group in groups)
    misses = sum(group["misses_per_step"] for group in groups)
    milliseconds = {name: 1e3 * statistics.median(race.seconds[name]) for name in race.seconds}
    return Comparison(
        tokens_equal=race.equal,
        max_logit_diff=race.difference,
        hit_rate=hits / max(hits + misses, 1),
        groups=groups,
        device_kv_bytes=race.tiered.device_bytes,
        stock_kv_bytes=_stock_bytes(race.stock),
        backing_kv_bytes=after.backing_bytes,
        bytes_fetched_per_step=(after.fetched_bytes - before.fetched_bytes) / steps,
        misses_per_step=misses,
        ms_per_step=milliseconds[NAME],
        stock_ms_per_step=milliseconds["sdpa"],
        steps=steps,
        context=context,
        batch=len(race.next),
    )


def _group(before: GroupStats, after: GroupStats, steps: int) -> dict[str, Any]:
    def per_step(name: str) -> float:
        return float(getattr(after, name) - getattr(before, name)) / steps

    hits, misses = per_step("hits"), per_step("misses")
    return {
        "layers": list(after.layers),
        "hit_rate": hits / max(hits + misses, 1),
        "hits_per_step": hits,
        "misses_per_step": misses,
        "fetched_per_step": per_step("fetched"),
    }


def _stock_bytes(cache: DynamicCache) -> int:
    return sum(tensor.nbytes for layer in cache.layers for tensor in stock_tensors(layer))
