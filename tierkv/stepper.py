"""The static buffers of a batch shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv.errors import CapacityError, ShapeError, StateError, say
from tierkv.frozen import Frozen
from tierkv.paging import Span
from tierkv.requests import make_room
from tierkv.step import Step
from tierkv.types import Batch

if TYPE_CHECKING:
    from tierkv.cache import TieredCache

Numbers = Sequence[int] | Tensor


class Stepper:
    """The static buffers of a batch shape; :meth:`begin` fills them and opens a step.

    Made by :meth:`TieredCache.stepper`. ``append`` and ``select`` only launch operators on these
    buffers; what needs the host (growth, checks) happens in ``begin``.
    """

    @torch.inference_mode(False)  # its buffers outlive the mode they were made in
    def __init__(
        self, cache: TieredCache, batch: int, queries: int, key: int, first_row: int
    ) -> None:
        limits, device = cache.limits, cache.limits.device
        _check_size("batch", batch, "lanes", limits.lanes)
        _check_size("queries", queries, "queries", limits.queries)

        def buffer(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.int32, device=device)

        self.cache = cache
        self.last: dict[int, Frozen] = {}
        """Layer -> its selection in the last step that touched it."""
        self.batch = Batch(
            key=key, first_row=first_row, queries=queries, page=limits.page,
            lanes=buffer(batch), kv_len=buffer(batch), q_len=buffer(batch), stable=buffer(batch),
            rows=buffer(batch, queries), block_table=buffer(batch, limits.lane_pages),
        )  # fmt: skip
        self.rows_shape = (batch, queries)
        self.ids_shape = (batch, queries, limits.spec.top_k)
        self.fresh = [
            torch.zeros((batch, queries, layout.stride), dtype=torch.uint8, device=device)
            for layout in limits.spec.layouts
        ]
        self.fresh_parts = [
            layout.views(records)
            for layout, records in zip(limits.spec.layouts, self.fresh, strict=True)
        ]
        for group in range(len(limits.spec.groups)):
            # All buffers of a step exist before it: a captured graph names them.
            plan = cache.planner.prepare(self.batch, group)
            cache.site.policies[group].prepare(plan)
            cache.server.prepare(plan)

    def begin(
        self,
        lanes: Numbers,
        kv_len: Numbers,
        q_len: Numbers | None = None,
        stable: Numbers | None = None,
        block_table: Tensor | None = None,
    ) -> Step:
        """Check and grow the batch, then open a step; use it as a context manager.

        Parameters
        ----------
        lanes
            [B] distinct lanes, -1 for a padding row.
        kv_len
            [B] tokens including this step's. Read on the host; give host values where speed counts.
        q_len
            [B] live queries, the last ones of each row; default Q.
        stable
            [B] leading positions that can no longer change; default ``max(kv_len - q_len, 0)``.
        block_table
            [B, pages] int32, -1 unmapped: an engine's own, with :class:`~tierkv.External` only.

        Raises
        ------
        StateError, CapacityError, ShapeError
            Nothing was changed; after CapacityError release a request and retry.
        """
        self.cache.settle()
        width = len(self.batch.lanes)
        rows = {
            "lanes": _numbers("lanes", lanes, width),
            "kv_len": _numbers("kv_len", kv_len, width),
            "q_len": _numbers("q_len", q_len, width, [self.batch.queries] * width),
        }
        first = [max(kv - q, 0) for kv, q in zip(rows["kv_len"], rows["q_len"], strict=True)]
        rows["stable"] = _numbers("stable", stable, width, first)
        self._check(rows, first)
        table = self._table(rows["lanes"], block_table)
        cache = self.cache
        cache.installer.drain()  # pending work reads the buffers and pages that follow
        live = [i for i, lane in enumerate(rows["lanes"]) if lane >= 0]
        touchable = cache.lanes.touchable(
            [rows["lanes"][i] for i in live], [first[i] for i in live],
            [rows["stable"][i] for i in live],
        )  # fmt: skip
        spans = {rows["lanes"][i]: Span(first[i], rows["kv_len"][i]) for i in live}
        make_room(cache, spans)
        self.fill(rows, cache.paging.block_table[rows["lanes"]] if table is None else table)
        return Step(self, rows, touchable.tolist())

    def overlaps(self, other: Stepper) -> bool:
        """Say whether the two use the same rows of the selection buffers."""
        mine, yours = self.batch.first_row, other.batch.first_row
        return mine < yours + len(other.batch.lanes) and yours < mine + len(self.batch.lanes)

    def _table(self, lanes: list[int], block_table: Tensor | None) -> Tensor | None:
        """Check an engine's block table and widen it to the batch's."""
        if (block_table is not None) != self.cache.limits.external:
            do = "pass it with External blocks, and only then"
            raise StateError(say("begin", "block_table does not go with this cache", do=do))
        if block_table is None:
            return None
        wide = torch.full(self.batch.block_table.shape, -1, dtype=torch.int32)
        rows, pages = len(lanes), wide.shape[1]
        if block_table.dim() != 2 or len(block_table) != rows or block_table.shape[1] > pages:
            wrong = f"block_table must be [{rows}, at most {pages}]"
            raise ShapeError(say("begin", wrong, got=list(block_table.shape)))
        beyond = int(block_table.max()) if block_table.numel() else -1
        if beyond >= self.cache.limits.pages:
            wrong = f"block_table names a page of {self.cache.limits.pages}"
            raise ShapeError(say("begin", wrong, got=beyond))
        wide[:, : block_table.shape[1]] = block_table
        return wide

    def fill(self, rows: Mapping[str, list[int]], table: Tensor) -> None:
        """Write lanes, kv_len, q_len, stable, [B] each, and the block table [B, pages]."""
        for name, values in rows.items():
            getattr(self.batch, name).copy_(torch.tensor(values, dtype=torch.int32))
        self.batch.block_table.copy_(table)
        self.batch.rows.copy_(self._rows(table, rows))

    def _check(self, rows: Mapping[str, list[int]], first: list[int]) -> None:
        lanes, limits = self.cache.lanes, self.cache.limits
        for stepper in self.cache.opened:
            if stepper is self:
                do = "end it, or make another stepper"
                raise StateError(say("begin", "the stepper is in an open step", do=do))
            if self.overlaps(stepper):
                do = "steppers open together need lanes for all their rows"
                raise StateError(say("begin", "an open step uses the same buffers", do=do))
        used = [lane for lane in rows["lanes"] if lane != -1]
        if len(set(used)) < len(used):
            raise StateError(say("begin", "a lane stands twice", got=rows["lanes"]))
        for i, lane in enumerate(rows["lanes"]):
            if lane == -1:
                continue
            where = f"begin, row {i}, lane {lane}"
            if not lanes.bound(lane):
                raise StateError(say(where, "no request runs there", do="admit one; -1 is padding"))
            if lane in lanes.open:
                raise StateError(say(where, "is in an open step", do="end that step first"))
            kv_len, q_len, stable = (rows[name][i] for name in ("kv_len", "q_len", "stable"))
            if not 1 <= q_len <= self.batch.queries:
                raise StateError(say(where, f"q_len must be 1 to {self.batch.queries}", got=q_len))
            if kv_len < 0:
                raise StateError(say(where, "kv_len must not be negative", got=kv_len))
            if not 0 <= stable <= first[i]:
                raise StateError(say(where, f"stable must be 0 to {first[i]}", got=stable))
            if kv_len > limits.max_tokens:
                raise CapacityError(
                    say(
                        "max_tokens",
                        f"lane {lane} needs {kv_len}, the limit is {limits.max_tokens}",
                        do="release the request, or raise it",
                    )
                )

    def _rows(self, table: Tensor, rows: Mapping[str, list[int]]) -> Tensor:
        """Give the backing row of each query's record, [B, Q]; -1 for what append must drop."""
        queries, page = self.batch.queries, self.batch.page
        query = torch.arange(queries)
        lanes, kv_len, q_len = (
            torch.tensor(rows[n])[:, None] for n in ("lanes", "kv_len", "q_len")
        )
        position = kv_len - queries + query
        live = (lanes >= 0) & (position >= 0) & (query >= queries - q_len)
        at = position.clamp(min=0)
        return torch.where(live, table.long().gather(1, at // page) * page + at % page, -1)


def _numbers(
    name: str, values: Numbers | None, width: int, default: list[int] | None = None
) -> list[int]:
    """Bring a per-row argument of begin to the host as a list of `width` ints."""
    if values is None and default is not None:
        return default
    numbers = values.tolist() if isinstance(values, Tensor) else list(values or ())
    if len(numbers) != width or not all(isinstance(number, int) for number in numbers):
        raise ShapeError(say(f"begin, {name}", f"expected {width} whole numbers", got=values))
    return [int(number) for number in numbers]


def _check_size(name: str, value: int, setting: str, most: int) -> None:
    if not 1 <= value <= most:
        raise CapacityError(say(f"stepper, {name}", f"must be 1 to {setting} {most}", got=value))
