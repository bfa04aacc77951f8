"""The static buffers of a batch shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv.errors import CapacityError, StateError, say
from tierkv.external import widen
from tierkv.frozen import Frozen
from tierkv.paging import Span
from tierkv.requests import make_room
from tierkv.rows import Given, Numbers, Rows, on_device, rows_of
from tierkv.step import Step
from tierkv.tiers import memory
from tierkv.types import Batch

if TYPE_CHECKING:
    from tierkv.cache import TieredCache


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
            [B] tokens including this step's. A tensor on an accelerator is not read: every lane
            grows for the most that it can be, ``q_len`` tokens behind what it may hold. The step
            begins at or behind the highest ``stable`` of the lane's groups, and the end that
            ``admit`` or ``prefill`` left; a row that does not, or that leaves a gap behind the
            longest layer, selects and appends nothing. With ``debug: true`` that is an error.
        q_len
            [B] live queries, the last ones of each row; default Q. Read on the host.
        stable
            [B] leading positions that can no longer change; default ``max(kv_len - q_len, 0)``,
            and no more than that. Not read beside a `kv_len` that is not.
        block_table
            [B, pages] int32, -1 unmapped: an engine's own, with :class:`~tierkv.External` only.

        Raises
        ------
        StateError, CapacityError, ShapeError
            Nothing was changed; after CapacityError release a request and retry.
        """
        cache, given = self.cache, Given(lanes, kv_len, q_len, stable)
        cache.settle()
        self._check_free()
        rows = rows_of(cache, len(self.batch.lanes), self.batch.queries, given)
        table = self._engines(block_table)
        cache.installer.drain()  # pending work reads the buffers and pages that follow
        touchable = cache.lengths.touchable(rows)
        make_room(cache, {rows.lanes[i]: Span(rows.first[i], rows.kv_len[i]) for i in rows.live})
        self.fill(rows, cache.paging.block_table[rows.lanes] if table is None else table)
        return Step(self, rows, touchable.tolist())

    def overlaps(self, other: Stepper) -> bool:
        """Say whether the two use the same rows of the selection buffers."""
        mine, yours = self.batch.first_row, other.batch.first_row
        return mine < yours + len(other.batch.lanes) and yours < mine + len(self.batch.lanes)

    def _engines(self, block_table: Tensor | None) -> Tensor | None:
        """Check an engine's block table and widen it to the batch's."""
        limits = self.cache.limits
        if (block_table is not None) != limits.external:
            do = "pass it with External blocks, and only then"
            raise StateError(say("begin", "block_table does not go with this cache", do=do))
        if block_table is None:
            return None
        return widen(block_table, self.batch.block_table.shape, limits)

    def fill(self, rows: Rows, table: Tensor) -> None:
        """Write a batch and its block table [B, pages] to the device."""
        batch = self.batch
        lanes, q_len, kv_len, stable = torch.tensor(
            [rows.lanes, rows.q_len, rows.kv_len, rows.stable], dtype=torch.int32
        )
        if rows.seen is not None:
            kv_len, stable, *_ = rows.seen
        memory.send(lanes, batch.lanes)
        memory.send(q_len, batch.q_len)
        memory.send(kv_len, batch.kv_len)
        memory.send(stable, batch.stable)
        memory.send(table, batch.block_table)
        if rows.seen is not None or on_device(table):
            lanes, q_len, kv_len, table = batch.lanes, batch.q_len, batch.kv_len, batch.block_table
        memory.send(_backing_rows(lanes, q_len, kv_len, table, batch), batch.rows)

    def _check_free(self) -> None:
        for stepper in self.cache.opened:
            if stepper is self:
                do = "end it, or make another stepper"
                raise StateError(say("begin", "the stepper is in an open step", do=do))
            if self.overlaps(stepper):
                do = "steppers open together need lanes for all their rows"
                raise StateError(say("begin", "an open step uses the same buffers", do=do))


def _backing_rows(
    lanes: Tensor, q_len: Tensor, kv_len: Tensor, table: Tensor, batch: Batch
) -> Tensor:
    """Give the backing row of each query's record, [B, Q]; -1 for what append must drop."""
    query = torch.arange(batch.queries, device=lanes.device)
    position = kv_len[:, None] - batch.queries + query
    live = (lanes[:, None] >= 0) & (position >= 0) & (query >= batch.queries - q_len[:, None])
    at = position.clamp(min=0)
    number = (at // batch.page).clamp(max=table.shape[1] - 1)  # padding may say anything
    page = table.gather(1, number.long())
    return torch.where(live & (page >= 0), page * batch.page + at % batch.page, -1)


def _check_size(name: str, value: int, setting: str, most: int) -> None:
    if not 1 <= value <= most:
        raise CapacityError(say(f"stepper, {name}", f"must be 1 to {setting} {most}", got=value))
