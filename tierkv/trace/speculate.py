"""Speculative decoding: a trace of several queries a step, from one of one query."""

from collections.abc import Iterator

import numpy as np

from tierkv.errors import TraceError, say
from tierkv.trace.chunk import Chunk, Ints
from tierkv.trace.layout import make_head
from tierkv.trace.trace import Trace


def speculate(trace: Trace, queries: int, accept: float, seed: int = 0) -> Trace:
    """Decode the tokens of a trace `queries` at a time, 1 + drafts.

    A step's queries are consecutive tokens of `trace`. Drafts are accepted one after the other,
    each with probability `accept`, up to the first that is not; the next step starts at the token
    behind the accepted ones, so that rejected positions are selected for again. All lanes of a step
    accept alike. Where a lane changes its request or jumps, the step before has fewer live queries.

    Raises
    ------
    TraceError
        If a step of `trace` has several queries already.
    """
    if trace.queries != 1:
        wrong = "must have one query a step to be speculated on"
        raise TraceError(say(f"{trace.name}, queries", wrong, got=trace.queries))
    if not (queries >= 1 and 0 <= accept <= 1):
        wrong = "queries must be at least 1 and accept from 0 to 1"
        raise TraceError(say(trace.name, wrong, got=(queries, accept)))
    first, live = _schedule(trace, queries, accept, seed)
    last = first + live - 1
    rows = {
        "kv_len": trace.kv_len[last],
        "q_len": np.repeat(live[:, None], trace.lanes, axis=1).astype(np.int32),
        "stable": trace.stable[first],
        "request": trace.request[last],
    }
    meta = {**trace.meta, "queries": queries, "accept": accept, "accept_seed": seed}
    if "warmup" in meta:
        meta["warmup"] = int(np.searchsorted(first, meta["warmup"]))
    shape = (len(first), trace.groups, trace.lanes, queries, trace.top_k)

    def read(most: int) -> Iterator[Ints]:
        window = _Window(trace)
        for start in range(0, len(first), most):
            steps = slice(start, start + most)
            ids = np.full((len(first[steps]), *shape[1:]), -1, np.int32)
            for row, (token, count) in enumerate(zip(first[steps], live[steps], strict=True)):
                tokens = window.get(token, token + count)  # [count, groups, lanes, 1, K]
                ids[row, :, :, queries - count :] = np.moveaxis(tokens[:, :, :, 0], 0, 2)
            yield ids

    return Trace(make_head(f"{trace.name}, {queries} queries", shape, rows, meta), read)


def _schedule(
    trace: Trace, queries: int, accept: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Give the first token and the live queries of every step."""
    random = np.random.default_rng(seed)
    changed = (trace.request[1:] != trace.request[:-1]).any(axis=1)
    jumps = np.diff(trace.kv_len, axis=0) != 1
    changed |= (jumps & (trace.request[1:] >= 0)).any(axis=1)
    ends = np.append(np.flatnonzero(changed) + 1, trace.steps)
    first, live, token = [], [], 0
    while token < trace.steps:
        end = int(ends[np.searchsorted(ends, token, side="right")])
        count = min(queries, end - token)
        refused = np.flatnonzero(random.random(count - 1) >= accept)
        first.append(token)
        live.append(count)
        token += 1 + (int(refused[0]) if len(refused) else count - 1)
    return np.array(first), np.array(live)


class _Window:
    """The ids of some tokens, moving forwards."""

    def __init__(self, trace: Trace) -> None:
        self._chunks = trace.chunks()
        self._held: list[Chunk] = []

    def get(self, start: int, stop: int) -> Ints:
        while not self._held or self._end(self._held[-1]) < stop:
            self._held.append(next(self._chunks))
        while self._end(self._held[0]) <= start:
            self._held.pop(0)
        parts = [
            chunk.ids[max(start - chunk.start, 0) : stop - chunk.start] for chunk in self._held
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @staticmethod
    def _end(chunk: Chunk) -> int:
        return chunk.start + len(chunk)
