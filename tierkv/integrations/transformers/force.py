"""A trace in place of a model's indexers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from tierkv.blueprint import model_mapping
from tierkv.config import Config
from tierkv.errors import ConfigError, say
from tierkv.integrations.transformers.library import PreTrainedModel
from tierkv.trace import Trace
from tierkv.trace.chunk import Ints


@contextmanager
def force(model: PreTrainedModel, trace: Trace) -> Iterator[None]:
    """Let a model's indexers select what a trace says, at the positions it knows.

    A model of random weights selects without locality; this gives it the trace's. Row ``b`` of the
    batch follows lane ``b``, and the ``i``-th indexer group ``i``, each modulo how many there are;
    of a lane that ran several requests, the first. Where the trace gives fewer than top-k ids that
    the query sees, the newest others are added, so that every cache attends to the same.

    Raises
    ------
    ConfigError
        If the model has no indexers.
    """
    indexers = [part for name, part in model.named_modules() if name.endswith("self_attn.indexer")]
    if not indexers:
        raise ConfigError(say("force", "the model has no indexers", got=model.config.model_type))
    rows = _Rows(trace)
    hooks = [
        indexer.register_forward_hook(_hook(rows, number), with_kwargs=True)
        for number, indexer in enumerate(indexers)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def span(trace: Trace, batch: int) -> range:
    """Give the positions that a trace knows for every row of a batch."""
    positions = [_positions(trace, row % trace.lanes) for row in range(batch)]
    return range(max(map(min, positions)), min(map(max, positions)) + 1)


def with_top_k(config: Config, trace: Trace) -> Config:
    """Let the configured model select as many positions as a trace does."""
    mapping = {**model_mapping(config.model), "index_topk": trace.top_k}
    return attrs.evolve(config, model=mapping)


def _positions(trace: Trace, lane: int) -> dict[int, tuple[int, int]]:
    """Give position -> step and query that selected for it, the last that did."""
    running = np.flatnonzero(trace.request[:, lane] >= 0)
    if not len(running):
        raise ConfigError(say("force", f"no request runs in lane {lane}", got=trace.name))
    first = trace.request[running[0], lane]
    return {
        int(trace.kv_len[step, lane]) - trace.queries + query: (int(step), query)
        for step in running[trace.request[running, lane] == first]
        for query in range(trace.queries - int(trace.q_len[step, lane]), trace.queries)
    }


class _Rows:
    """The ids of a trace by group, lane and position."""

    def __init__(self, trace: Trace) -> None:
        self._ids = trace.ids()
        self._at = [_positions(trace, lane) for lane in range(trace.lanes)]

    def get(self, group: int, lane: int, position: int) -> Ints | None:
        lane %= len(self._at)
        at = self._at[lane].get(position)
        if at is None:
            return None
        ids: Ints = self._ids[at[0], group % self._ids.shape[1], lane, at[1]]
        return ids


def _hook(rows: _Rows, group: int) -> Any:
    def forced(indexer: Any, inputs: Any, options: dict[str, Any], ids: Tensor) -> Tensor | None:
        mask = options["attention_mask"] if "attention_mask" in options else inputs[3]
        batch, queries, width = ids.shape
        first = mask.shape[-1] - queries
        found = [
            [rows.get(group, row, first + query) for query in range(queries)]
            for row in range(batch)
        ]
        if any(given is None for row in found for given in row):
            return None
        chosen = [
            [_fill(given, first + query, width) for query, given in enumerate(row)] for row in found
        ]
        return torch.tensor(np.array(chosen), dtype=torch.int32, device=ids.device)

    return forced


def _fill(given: Any, position: int, width: int) -> np.ndarray:
    """Give `width` distinct ids: the given ones that are visible, then the newest others."""
    ids = given[(given >= 0) & (given <= position)]
    order = np.concatenate([ids, np.arange(position, -1, -1), np.arange(position + 1, width)])
    _, first = np.unique(order, return_index=True)
    return order[np.sort(first)][:width]
