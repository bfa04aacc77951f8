"""The file format ``tierkv-trace``, version 1: what stands where (docs/traces.md)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tierkv.errors import TraceError, say
from tierkv.trace.chunk import Ints

FORMAT = "tierkv-trace"
VERSION = 1
ROWS = ("kv_len", "q_len", "stable", "request")
"""Arrays [steps, lanes]; all but ``kv_len`` may be left out."""
IDS = re.compile(r"ids(_\d{4,})?")
CHUNK_BYTES = 1 << 23
"""Bytes of ids that are read, or written as one array, at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Everything of a trace but its ids."""

    name: str
    """Path, or what else to call it in messages."""
    shape: tuple[int, int, int, int, int]
    """Steps, groups, lanes, Q, K."""
    rows: Mapping[str, Ints]
    """``kv_len``, ``q_len``, ``stable``, ``request``: [steps, lanes]."""
    meta: Mapping[str, Any]


def member(chunk: int) -> str:
    """Name the array of a chunk of ids."""
    return f"ids_{chunk:04}"


def steps_of(step_bytes: int, most: int) -> int:
    """Give how many steps make a chunk, 1 to `most`."""
    return max(1, min(most, CHUNK_BYTES // max(step_bytes, 1)))


def make_head(
    name: str, shape: tuple[int, ...], rows: Mapping[str, Any], meta: Mapping[str, Any]
) -> Head:
    """Check what stands beside the ids, and fill in what is left out.

    Raises
    ------
    TraceError
    """
    if len(shape) != 5 or min(shape) < 1:
        wrong = "must be [steps, groups, lanes, queries, top-k], each at least 1"
        raise TraceError(say(f"{name}, ids", wrong, got=list(shape)))
    steps, groups, lanes, queries, top_k = shape
    given = {key: _ints(f"{name}, {key}", rows[key], (steps, lanes)) for key in ROWS if key in rows}
    if "kv_len" not in given:
        raise TraceError(say(f"{name}, kv_len", "is missing"))
    kv_len = given["kv_len"]
    full: dict[str, Ints] = {"kv_len": kv_len}
    full["q_len"] = given.get("q_len", np.full_like(kv_len, queries))
    first = np.maximum(kv_len.astype(np.int64) - full["q_len"], 0).astype(np.int32)
    full["stable"] = given.get("stable", first)
    full["request"] = given.get(
        "request", np.broadcast_to(np.arange(lanes, dtype=np.int32), (steps, lanes))
    )
    limits = {
        "kv_len": (0, None),
        "q_len": (1, queries),
        "stable": (0, first),
        "request": (-1, None),
    }
    live = full["request"] >= 0
    for key, (low, high) in limits.items():
        _within(f"{name}, {key}", full[key], low, high, live | (key == "request"))
    return Head(name, (steps, groups, lanes, queries, top_k), full, dict(meta))


def parse_meta(name: str, text: str) -> dict[str, Any]:
    """Read ``meta``, a JSON object."""
    try:
        meta = json.loads(text)
    except ValueError as error:
        raise TraceError(say(f"{name}, meta", f"is not JSON, {error}")) from None
    if not isinstance(meta, dict):
        raise TraceError(say(f"{name}, meta", "must be a JSON object", got=meta))
    return meta


def _ints(where: str, given: Any, shape: tuple[int, int]) -> Ints:
    array = np.asarray(given)
    if array.dtype.newbyteorder("=") != np.int32 or array.shape != shape:
        got = f"{array.dtype} {list(array.shape)}"
        raise TraceError(say(where, f"must be int32 {list(shape)}", got=got))
    return array.astype(np.int32, copy=False)


def _within(where: str, values: Ints, low: int, high: int | Ints | None, live: Any) -> None:
    bad = values < low
    if high is not None:
        bad = bad | (values > high)
    bad &= live
    if bad.any():
        step, lane = (int(at) for at in np.argwhere(bad)[0])
        most = high[step, lane] if isinstance(high, np.ndarray) else high
        limit = f"at least {low}" if high is None else f"{low} to {most}"
        wrong = f"must be {limit} in step {step}, lane {lane}"
        raise TraceError(say(where, wrong, got=int(values[step, lane])))
