"""Traces: what indexers selected, step by step; their format, and where they come from.

``open_trace(path)`` reads one as a stream, ``Trace.from_arrays(ids, kv_len)`` makes one,
``Trace.save(path)`` and :class:`TraceWriter` write one. ``synthesize(name)`` describes a synthetic
one, ``speculate(trace, queries, accept)`` one that drafts tokens.
"""

from tierkv.trace.chunk import Chunk
from tierkv.trace.reader import open_trace
from tierkv.trace.speculate import speculate
from tierkv.trace.synth import MODELS, Shape, synthesize
from tierkv.trace.trace import Trace
from tierkv.trace.writer import TraceWriter

__all__ = [
    "MODELS",
    "Chunk",
    "Shape",
    "Trace",
    "TraceWriter",
    "open_trace",
    "speculate",
    "synthesize",
]
