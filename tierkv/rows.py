"""What the host knows of a step's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv.errors import CapacityError, ShapeError, StateError, say
from tierkv.tiers import memory

if TYPE_CHECKING:
    from tierkv.cache import TieredCache
    from tierkv.lanes import Lanes

Numbers = Sequence[int] | Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a batch as ``begin`` found them, [B] each; lane -1 is padding, its numbers 0."""

    lanes: list[int]
    kv_len: list[int]
    """With ``seen`` an upper bound."""
    q_len: list[int]
    stable: list[int]
    """With ``seen`` -1, which is below all."""
    first: list[int]
    """Position of the first live query, at least 0; with ``seen`` a lower bound."""
    seen: Tensor | None = None
    """[4, B] int32, if only the device knows them: kv_len, stable, first, and whether they keep
    the bounds: 1, or all are 0."""

    @property
    def live(self) -> list[int]:
        """The rows that are not padding."""
        return [row for row, lane in enumerate(self.lanes) if lane >= 0]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The arguments of ``begin``, a number a row each."""

    lanes: Numbers
    kv_len: Numbers
    q_len: Numbers | None = None
    stable: Numbers | None = None


def on_device(values: Numbers | None) -> bool:
    """Say whether reading `values` would wait for a device."""
    return isinstance(values, Tensor) and not values.is_cpu


def rows_of(cache: TieredCache, width: int, queries: int, given: Given) -> Rows:
    """Check what ``begin`` was given for `width` rows of `queries`.

    Lengths on the device stay there: the result says what bounds they keep. With ``debug`` they
    are read, and must keep them.

    Raises
    ------
    StateError, ShapeError, CapacityError
    """
    lanes = _lanes(cache.lanes, given.lanes, width)
    q_len = [queries] * width if given.q_len is None else _numbers("q_len", given.q_len, width)
    q_len = _live(lanes, q_len)
    for row, live in enumerate(q_len):
        if lanes[row] >= 0 and not 1 <= live <= queries:
            where = f"begin, row {row}, lane {lanes[row]}"
            raise StateError(say(where, f"q_len must be 1 to {queries}", got=live))
    there = on_device(given.kv_len)
    if not there or cache.limits.debug:
        cache.lengths.read(lanes)
    bounds = _bounds(cache, lanes, q_len) if there else None
    if bounds is None or cache.limits.debug:
        return _check(cache, _exact(lanes, q_len, given), bounds)
    return replace(bounds, seen=_see(cache, bounds, given))


def _lanes(known: Lanes, values: Numbers, width: int) -> list[int]:
    lanes = _numbers("lanes", values, width)
    used = [lane for lane in lanes if lane != -1]
    if len(set(used)) < len(used):
        raise StateError(say("begin", "a lane stands twice", got=lanes))
    for row, lane in enumerate(lanes):
        where = f"begin, row {row}, lane {lane}"
        if lane != -1 and not known.bound(lane):
            raise StateError(say(where, "no request runs there", do="admit one; -1 is padding"))
        if lane in known.open:
            raise StateError(say(where, "is in an open step", do="end that step first"))
    return lanes


def _exact(lanes: list[int], q_len: list[int], given: Given) -> Rows:
    kv_len = _live(lanes, _numbers("kv_len", given.kv_len, len(lanes)))
    first = [max(kv - q, 0) for kv, q in zip(kv_len, q_len, strict=True)]
    stable = first if given.stable is None else _numbers("stable", given.stable, len(lanes))
    return Rows(lanes, kv_len, q_len, _live(lanes, stable), first)


def _live(lanes: list[int], numbers: list[int]) -> list[int]:
    return [number if lane >= 0 else 0 for lane, number in zip(lanes, numbers, strict=True)]


def _bounds(cache: TieredCache, lanes: list[int], q_len: list[int]) -> Rows:
    """Bound what only the device knows: a step begins where a lane ends or before."""
    most, longest = cache.limits.max_tokens, cache.lengths.longest(lanes)
    kv_len = [min(length + q, most) for length, q in zip(longest, q_len, strict=True)]
    first = _live(lanes, cache.lengths.start(lanes))
    return Rows(lanes, _live(lanes, kv_len), q_len, [-1] * len(lanes), first)


def _check(cache: TieredCache, rows: Rows, bounds: Rows | None) -> Rows:
    for row in rows.live:
        lane, kv_len, stable, first = (
            values[row] for values in (rows.lanes, rows.kv_len, rows.stable, rows.first)
        )
        where = f"begin, row {row}, lane {lane}"
        if kv_len < 0:
            raise StateError(say(where, "kv_len must not be negative", got=kv_len))
        if not 0 <= stable <= first:
            raise StateError(say(where, f"stable must be 0 to {first}", got=stable))
        if kv_len > cache.limits.max_tokens:
            most = cache.limits.max_tokens
            wrong = f"lane {lane} needs {kv_len}, the limit is {most}"
            raise CapacityError(say("max_tokens", wrong, do="release the request, or raise it"))
        if bounds is not None and not bounds.first[row] <= first <= kv_len <= bounds.kv_len[row]:
            wrong = (
                f"with kv_len on the device the step must begin at {bounds.first[row]} or behind, "
                f"and end at {bounds.kv_len[row]} or before"
            )
            do = "pass kv_len on the host"
            raise StateError(say(where, wrong, got=f"{first} to {kv_len}", do=do))
    return rows


def _numbers(name: str, values: Numbers, width: int) -> list[int]:
    """Bring a per-row argument of begin to the host as a list of `width` ints."""
    numbers = values.tolist() if isinstance(values, Tensor) else list(values or ())
    if len(numbers) != width or not all(isinstance(number, int) for number in numbers):
        raise ShapeError(say(f"begin, {name}", f"expected {width} whole numbers", got=values))
    return [int(number) for number in numbers]


def _see(cache: TieredCache, bounds: Rows, given: Given) -> Tensor:
    """Launch what judges the lengths by all that the device knows."""
    device, width = cache.limits.device, len(bounds.lanes)
    q_len = torch.tensor(bounds.q_len)
    q_len = memory.send(q_len, torch.empty_like(q_len, device=device))
    longest, first = cache.lengths.reach(bounds)
    kv_len = _column("kv_len", given.kv_len, width, device)
    begin = (kv_len - q_len).clamp(min=0)
    stable = begin
    if given.stable is not None:
        stable = _column("stable", given.stable, width, device).clamp(min=0).minimum(begin)
    most = (longest + q_len).clamp(max=cache.limits.max_tokens)
    kept = (kv_len >= 0) & (kv_len <= most) & (begin >= first)
    seen = torch.stack([kv_len, stable, begin, torch.ones_like(begin)])
    return torch.where(kept, seen, 0).to(torch.int32)


def _column(name: str, values: Numbers, width: int, device: torch.device) -> Tensor:
    column = torch.as_tensor(values)
    if column.shape != (width,) or column.dtype not in (torch.int32, torch.int64):
        got = f"{column.dtype} {list(column.shape)}"
        raise ShapeError(say(f"begin, {name}", f"expected [{width}] int32 or int64", got=got))
    if column.device == device:
        return column
    return memory.send(column, torch.empty_like(column, device=device))
