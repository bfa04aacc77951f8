"""A cache and its model side by side: make a call on both, compare all that can be seen."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.testing.ledger import Ledger, tensor_of
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row, RowPlan
from tierkv.types import Selection

Ids = list[list[list[int]]]
"""[B][Q][K] positions."""


class Interrupted(Exception):  # noqa: N818 - nobody's error
    """Raised in the middle of a step to see what it leaves behind."""


class Harness(Ledger):
    """Makes steps, too, and compares all they planned, served and placed."""

    planned: list[int]
    """Groups that the last step planned."""

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
