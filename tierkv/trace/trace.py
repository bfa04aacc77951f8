"""A trace: what a model's indexers selected, step by step."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tierkv.errors import TraceError, say
from tierkv.trace.chunk import Chunk, Ints
from tierkv.trace.layout import ROWS, Head, make_head, steps_of
from tierkv.trace.writer import TraceWriter

Read = Callable[[int], Iterator[Ints]]
"""Gives ids [T, groups, lanes, Q, K] from the first step on; T is at most the argument."""


class Trace:
    """Selections of every step, in a file (:func:`open_trace`) or in memory (:meth:`from_arrays`).

    Ids are streamed, chunk by chunk, as often as asked for; only what stands beside them is held.
    """

    def __init__(self, head: Head, read: Read) -> None:
        self.name = head.name
        """Path, or what made it."""
        self.meta = head.meta
        """``model``, ``source``, ``seed`` and the like; may be empty."""
        self.steps, self.groups, self.lanes, self.queries, self.top_k = head.shape
        self.kv_len: Ints = head.rows["kv_len"]
        """[steps, lanes], as the others: see :class:`Chunk`."""
        self.q_len: Ints = head.rows["q_len"]
        self.stable: Ints = head.rows["stable"]
        self.request: Ints = head.rows["request"]
        self._read = read

    @classmethod
    def from_arrays(
        cls,
        ids: Any,
        kv_len: Any,
        *,
        meta: Mapping[str, Any] | None = None,
        name: str = "trace",
        **rows: Any,
    ) -> "Trace":
        """Make a trace of arrays.

        Parameters
        ----------
        ids
            [steps, groups, lanes, Q, K] int32; -1 is none.
        kv_len
            [steps, lanes] int32.
        rows
            ``q_len``, ``stable``, ``request``: [steps, lanes] int32; default: Q,
            ``max(kv_len - q_len, 0)``, the lane's number.

        Raises
        ------
        TraceError
        """
        ids = np.asarray(ids)
        if ids.dtype != np.int32:
            raise TraceError(say(f"{name}, ids", "must be int32", got=str(ids.dtype)))
        head = make_head(name, ids.shape, {"kv_len": kv_len, **rows}, meta or {})

        def read(most: int) -> Iterator[Ints]:
            for start in range(0, len(ids), most):
                yield ids[start : start + most]

        return cls(head, read)

    @property
    def positions(self) -> int:
        """Positions that a lane needs: the largest ``kv_len`` of a running request."""
        return int(np.where(self.request >= 0, self.kv_len, 0).max())

    def chunks(self, steps: int | None = None) -> Iterator[Chunk]:
        """Give the steps in order, at most `steps` at a time; default: a few megabytes of ids.

        Raises
        ------
        TraceError
            When a damaged part of the file is reached.
        """
        step_bytes = 4 * self.groups * self.lanes * self.queries * self.top_k
        start = 0
        for ids in self._read(steps or steps_of(step_bytes, self.steps)):
            at = slice(start, start + len(ids))
            rows = (self.kv_len[at], self.q_len[at], self.stable[at], self.request[at])
            yield Chunk(start, ids, *rows)
            start += len(ids)

    def held(self) -> "Trace":
        """Give the same trace, in memory: for several passes over a synthetic one."""
        rows = {name: getattr(self, name) for name in ROWS}
        return Trace.from_arrays(self.ids(), meta=self.meta, name=self.name, **rows)

    def ids(self) -> Ints:
        """Give all ids at once, [steps, groups, lanes, Q, K]; may take much memory."""
        return np.concatenate([chunk.ids for chunk in self.chunks()])

    def save(self, path: str | Path, *, compress: bool = True) -> None:
        """Write the trace to a file."""
        shape = (self.groups, self.lanes, self.queries, self.top_k)
        with TraceWriter(path, shape, meta=self.meta, compress=compress) as writer:
            for chunk in self.chunks():
                writer.write(chunk)
