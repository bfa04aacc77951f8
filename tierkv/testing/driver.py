"""A harness that does all that a serving engine does, and in the middle of its steps too."""

from collections.abc import Callable, Sequence
from typing import Any

from tierkv.cache import TieredCache
from tierkv.errors import StateError
from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.testing.assemble import device_parts
from tierkv.testing.engine import Engine
from tierkv.testing.harness import Harness, Ids, Interrupted
from tierkv.testing.invariants import residents
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row, RowPlan
from tierkv.testing.model_residency import Residency
from tierkv.testing.serving import Serving
from tierkv.types import Selection


class Driver(Serving):
    """Adds to steps what else may happen in one: other calls, reuse, failures, own records."""

    def __init__(
        self,
        cache: TieredCache,
        make: Callable[[], Residency] | None = None,
        engine: Engine | None = None,
        watched: bool = True,
    ) -> None:
        super().__init__(cache, make, engine, watched)
        self.during: Callable[[], None] | None = None
        """Called once in the next step, after a layer was selected."""
        self.reusing = False
        """Try to use selections again before selecting."""
        self.reused = 0
        """Selections that were used again."""
        self._begun = 0
        """Failures when the last step began."""
        self._frozen: dict[tuple[int, int], tuple[Sequence[Row], list[RowPlan]]] = {}
        self._pending: dict[tuple[int, int], tuple[Sequence[Row], list[RowPlan]]] = {}

    def begin(self, stepper: Stepper, rows: Sequence[Row]) -> Step:
        if not self.engine:
            step = self.tier.retry(lambda: Harness.begin(self, stepper, rows))
            self._begun = self.tier.fired
            return step
        for row in (row for row in rows if row.lane >= 0):
            self.engine.grow(row.lane, row.kv_len)
        return stepper.begin(
            [row.lane for row in rows], [row.kv_len for row in rows],
            [row.q_len for row in rows], [row.stable for row in rows],
            block_table=self.engine.block_table(rows),
        )  # fmt: skip

    def append(self, step: Step, layer: int, rows: Sequence[Row]) -> None:
        records = self._appended(rows, layer, step.batch.queries)
        if self.engine and layer % 2:
            for row, given in zip(rows, records, strict=True):
                for query, position in row.written(step.batch.queries).items():
                    self.engine.write(row.lane, layer, position, given[query : query + 1])
            step.append(layer, None)
            return
        step.append(layer, records)
        parts = device_parts(self.spec.layouts[layer], records)
        if parts:
            step.append(layer, parts)

    def select(
        self, step: Step, layer: int, rows: Sequence[Row], ids: Ids, plans: list[RowPlan]
    ) -> tuple[Selection, Served]:
        again = self._reuse(step, layer, plans) if self.reusing else None
        if again:
            return again
        self.selecting = True
        try:
            selected = super().select(step, layer, rows, ids, plans)
        finally:
            self.selecting = False
        self._pending[step.batch.key, layer] = rows, plans
        if self.during:
            during, self.during = self.during, None
            during()
            idle = set(range(self.cache.limits.lanes)) - {row.lane for row in rows}
            now = [residents(policy) for policy in self.cache.site.policies]
            for group, lane in ((group, lane) for group in range(len(now)) for lane in idle):
                self.mirror.found[group][lane] = now[group][lane]
        return selected

    def _reuse(
        self, step: Step, layer: int, plans: list[RowPlan]
    ) -> tuple[Selection, Served] | None:
        """Use a layer's selection again, if its group does and the cache says it is exact."""
        group = self.spec.group_of[layer]
        if group in self.planned:
            return None
        try:
            selection = step.reuse(layer)
        except StateError as error:
            if f"layer {layer}" not in str(error):
                raise AssertionError(f"which layer was refused? {error}") from error
            if plans:  # the owner was used again, so this one cannot be selected
                raise Interrupted from None
            return None
        assert (step.batch.key, layer) in self._frozen, "there is no selection to use again"
        rows, before = self._frozen[step.batch.key, layer]
        plans[:] = before
        self.reused += 1
        kept = sum(len(query) for plan in before for query in plan.entries)
        self.mirror.tallies[group]["reused"] += kept
        return selection, self.mirror.served(layer, rows, before)

    def step(self, rows: Sequence[Row], ids: Any, stop_at: tuple[int, str] | None = None) -> bool:
        self._pending = {}
        try:
            return super().step(rows, ids, stop_at)
        finally:
            self.during = None

    def _end(self, groups: Sequence[int], rows: Sequence[Row], whole: bool) -> None:
        super()._end(groups, rows, whole)
        if whole:
            assert self.tier.fired == self._begun, "a tier failed, but the step did not"
            self._frozen |= self._pending
        else:
            self._pending = {}
            self.mirror.recount()
