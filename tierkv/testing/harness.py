"""A cache and its model side by side: make a call on both, compare all that can be seen."""

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.testing.mirror import Mirror, Served
from tierkv.testing.model import Row, RowPlan
from tierkv.testing.model_residency import Residency
from tierkv.types import Selection

Ids = list[list[list[int]]]
"""[B][Q][K] positions."""


class Interrupted(Exception):  # noqa: N818 - nobody's error
    """Raised in the middle of a step to see what it leaves behind."""


@dataclass
class Request:
    """What a request has written."""

    lane: int
    length: list[int]
    """Per group."""
    stable: list[int]
    """Per group, at its last step."""


class Harness:
    """Makes calls on a cache and on the model of it; :meth:`check` compares.

    Parameters
    ----------
    make
        Makes the policy's model, one lane each; None only checks what holds of every policy.
    pooled
        Whether residents lie in the cache's pool; a scheme may keep them elsewhere.
    watched
        Compare tables and pool between calls, which waits for all that is pending. Without it only
        what is planned and served is compared, and a model is needed.
    tabled
        Whether plans and the policies' tables say who is resident; without it only what is served
        is compared, and lengths.
    """

    def __init__(
        self,
        cache: TieredCache,
        make: Callable[[], Residency] | None = None,
        pooled: bool = True,
        watched: bool = True,
        tabled: bool = True,
    ) -> None:
        self.cache, self.spec = cache, cache.limits.spec
        self.pooled, self.watched, self.tabled = pooled, watched, tabled
        self.requests: dict[Hashable, Request] = {}
        self.mirror = Mirror(cache, make)
        self.planned: list[int] = []
        """Groups that the last step planned."""
        self._bytes = random.Random(0)

    def check(self) -> None:
        """Compare tables, counters, pool and lengths, with nothing pending."""
        if not self.watched:
            return
        self.cache.installer.drain()
        stable = [[0] * self.cache.limits.lanes for _ in self.spec.groups]
        for name, request in self.requests.items():
            if not self.cache.limits.external:  # else only the engine knows
                length = self.cache.length(name)
                wrong = f"length of {name!r} is {length}, not {request}"
                assert length == min(request.length), wrong
            for group, known in enumerate(stable):
                known[request.lane] = request.stable[group]
        if self.tabled:
            self.mirror.check(stable, self.pooled)

    def admit(self, name: Hashable, tokens: int = 0, reserve: int = 0) -> int:
        """Admit a request with some tokens; give its lane."""
        lane = self.cache.admit(name, reserve)
        assert lane not in [request.lane for request in self.requests.values()], lane
        none = [0] * len(self.spec.groups)
        self.requests[name] = Request(lane, list(none), list(none))
        self.prefill(name, none, tokens)
        return lane

    def fork(self, name: Hashable, copy: Hashable) -> int:
        """Admit a request that starts with all that another holds; give its lane."""
        lane, known = self.cache.fork(name, copy), self.requests[name]
        self.requests[copy] = Request(lane, list(known.length), list(known.stable))
        self.mirror.records.copy(known.lane, lane)
        return lane

    def prefill(self, name: Hashable, starts: Sequence[int], end: int) -> None:
        """Write each group's layers from its start to `end`."""
        request = self.requests[name]
        for group, (members, start) in enumerate(zip(self.spec.groups, starts, strict=True)):
            for layer in members.layers:
                records = self.content(name, layer, start, end)
                self.fill(name, layer, start, records)
                self._written(request.lane, layer, range(start, end), records)
            request.length[group] = end

    def content(self, name: Hashable, layer: int, start: int, end: int) -> Tensor:
        """Make up the records of a prefill, [end - start, stride] uint8."""
        return self._draw(layer, end - start)

    def fill(self, name: Hashable, layer: int, start: int, records: Tensor) -> None:
        """Prefill one layer."""
        self.cache.prefill(name, layer, records, start)

    def truncate(self, name: Hashable, length: int) -> None:
        """Take tokens back."""
        self.cache.truncate(name, length)
        request = self.requests[name]
        request.length = [min(length, known) for known in request.length]
        request.stable = [min(length, known) for known in request.stable]
        for group in range(len(self.spec.groups)):
            self.mirror.forget(group, request.lane, length)

    def release(self, name: Hashable) -> None:
        """End a request."""
        self.cache.release(name)
        lane = self.requests.pop(name).lane
        for group in range(len(self.spec.groups)):
            self.mirror.forget(group, lane)

    def read(self, name: Hashable, layer: int, start: int, stop: int) -> None:
        """Read a range back and compare it."""
        lane = self.requests[name].lane
        records = torch.zeros((stop - start, self.spec.layouts[layer].stride), dtype=torch.uint8)
        parts = self.cache.read(name, layer, start, stop)
        for part, view in self.spec.layouts[layer].views(records).items():
            view.copy_(parts[part])
        known = [self.mirror.records.read(lane, layer, at) for at in range(start, stop)]
        assert records.numpy().tobytes() == b"".join(known), f"read {name!r}, {start} to {stop}"

    def step(
        self,
        rows: Sequence[Row],
        ids: Ids | Mapping[int, Ids],
        stop_at: tuple[int, str] | None = None,
    ) -> bool:
        """Make a step and compare all it planned, served and placed; say whether it ended well.

        Parameters
        ----------
        ids
            Of each group that the step touches, or the same for all groups.
        stop_at
            Layer and the call after which the step is interrupted: ``append`` or ``select``.
        """
        chosen = (
            ids if isinstance(ids, Mapping) else dict.fromkeys(range(len(self.spec.groups)), ids)
        )
        counted = self.cache.site.counters.tolist()
        if self.watched:
            self.mirror.remember()
        step = self.begin(self._stepper(rows, chosen), rows)
        touched: list[int] = []
        self.planned = []
        try:
            with step:
                for group, selected in chosen.items():
                    touched.append(group)
                    self._group(step, group, rows, selected, stop_at)
        except Interrupted:
            self._end(touched, rows, whole=False)
            return False
        self._end(touched, rows, whole=True)
        if self.watched and self.tabled:
            self.cache.installer.drain()
            self.mirror.check_placements(self.planned, counted)
        return True

    def begin(self, stepper: Stepper, rows: Sequence[Row]) -> Step:
        """Open a step."""
        return stepper.begin(
            [row.lane for row in rows], [row.kv_len for row in rows],
            [row.q_len for row in rows], [row.stable for row in rows],
        )  # fmt: skip

    def _stepper(self, rows: Sequence[Row], ids: Mapping[int, Ids]) -> Stepper:
        return self.cache.stepper_for(len(rows), len(next(iter(ids.values()))[0]))

    def _group(
        self,
        step: Step,
        group: int,
        rows: Sequence[Row],
        ids: Ids,
        stop_at: tuple[int, str] | None,
    ) -> None:
        held, plans = [], list[RowPlan]()
        for layer in self.spec.groups[group].layers:
            self.append(step, layer, rows)
            if stop_at == (layer, "append"):
                raise Interrupted
            selection, wanted = self.select(step, layer, rows, ids, plans)
            held.append((layer, selection, wanted))
            held = held[-self.cache.server.depth :]  # these promise to be valid still
            for known in held:
                self.mirror.check_selection(*known)
            if stop_at == (layer, "select"):
                raise Interrupted

    def append(self, step: Step, layer: int, rows: Sequence[Row]) -> None:
        """Append a layer's records."""
        step.append(layer, self._appended(rows, layer, step.batch.queries))

    def select(
        self, step: Step, layer: int, rows: Sequence[Row], ids: Ids, plans: list[RowPlan]
    ) -> tuple[Selection, Served]:
        """Select a layer; give what it must hold too. `plans` are the group's, made at its owner.

        The owner's call fills `plans`.
        """
        if plans:
            selection = step.select(layer)
        else:
            group = self.spec.group_of[layer]
            selection = step.select(layer, torch.tensor(ids, dtype=torch.int32))
            self.planned.append(group)
            plans += self.mirror.plan(group, rows, ids, self.pages)
            if self.tabled:
                self.mirror.check_plan(group, plans)
        return selection, self.mirror.served(layer, rows, plans)

    def pages(self, lane: int) -> list[int]:
        """Give a lane's block table."""
        table: list[int] = self.cache.paging.block_table[lane].tolist()
        return table

    def _appended(self, rows: Sequence[Row], layer: int, queries: int) -> Tensor:
        stride = self.spec.layouts[layer].stride
        raw, write = self._bytes.randbytes(len(rows) * queries * stride), self.mirror.records.write
        for number, row in enumerate(rows):
            for query, position in row.written(queries).items():
                start = (number * queries + query) * stride
                write(row.lane, layer, position, raw[start : start + stride])
        return tensor_of(raw, stride).view(len(rows), queries, stride)

    def _end(self, groups: Sequence[int], rows: Sequence[Row], whole: bool) -> None:
        request_of = {request.lane: request for request in self.requests.values()}
        for group in groups:
            for row in (row for row in rows if row.lane >= 0):
                request = request_of[row.lane]
                if whole:
                    request.length[group], request.stable[group] = row.kv_len, row.stable
                else:
                    request.length[group] = min(request.length[group], row.first)
                    self.mirror.forget(group, row.lane)

    def _draw(self, layer: int, count: int) -> Tensor:
        stride = self.spec.layouts[layer].stride
        return tensor_of(self._bytes.randbytes(count * stride), stride)

    def _written(self, lane: int, layer: int, positions: Iterable[int], records: Tensor) -> None:
        raw, stride = records.numpy().tobytes(), records.shape[-1]
        for place, position in enumerate(positions):
            record = raw[place * stride : (place + 1) * stride]
            self.mirror.records.write(lane, layer, position, record)


def tensor_of(raw: bytes, stride: int) -> Tensor:
    """Give bytes as records, [n, stride] uint8."""
    if not raw:
        return torch.empty((0, stride), dtype=torch.uint8)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, stride)
