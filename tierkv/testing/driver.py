"""A harness that does all that a serving engine does, and in the middle of its steps too."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import StateError
from tierkv.stepper import Stepper
from tierkv.testing.assemble import device_parts
from tierkv.testing.engine import Engine
from tierkv.testing.harness import Calls, Harness, Interrupted, Pick
from tierkv.testing.invariants import residents
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row, RowPlan
from tierkv.testing.model_residency import Residency
from tierkv.testing.open_step import Ids, OpenStep
from tierkv.testing.serving import Serving
from tierkv.types import Selection

Size = tuple[int, int]
"""Rows and query positions of a batch."""


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
        self._frozen: dict[tuple[int, int], tuple[Sequence[Row], list[RowPlan]]] = {}
        self._pairs: dict[tuple[Size, Size], tuple[Stepper, Stepper]] = {}

    def pair(self, one: Size, other: Size) -> tuple[Stepper, Stepper]:
        """Give two kept steppers that may be open together."""
        if (one, other) not in self._pairs:
            first, second = self.cache.stepper(*one), self.cache.stepper(*other)
            if first.overlaps(second):  # the second one's rows begin at 0 again
                first = self.cache.stepper(*one)
            self._pairs[one, other] = first, second
        return self._pairs[one, other]

    def begin(
        self, stepper: Stepper, rows: Sequence[Row], ids: Mapping[int, Ids] | None = None
    ) -> OpenStep:
        return self.tier.retry(lambda: Harness.begin(self, stepper, rows, ids))

    def block_table(self, rows: Sequence[Row]) -> Tensor | None:
        if not self.engine:
            return None
        for row in (row for row in rows if row.lane >= 0):
            self.engine.grow(row.lane, row.kv_len)
        return self.engine.block_table(rows)

    def append(self, opened: OpenStep, layer: int) -> None:
        self.tier.heard(lambda: self._append(opened, layer))

    def _append(self, opened: OpenStep, layer: int) -> None:
        step, records = opened.step, self._appended(opened, layer)
        if self.engine and layer % 2:
            for row, given in zip(opened.rows, records, strict=True):
                for query, position in row.written(step.batch.queries).items():
                    self.engine.write(row.lane, layer, position, given[query : query + 1])
            step.append(layer, None)
            return
        step.append(layer, records)
        parts = device_parts(self.spec.layouts[layer], records)
        if parts:
            step.append(layer, parts)

    def select(self, opened: OpenStep, layer: int) -> tuple[Selection, Served]:
        again = self._reuse(opened, layer) if self.reusing else None
        if again:
            return again
        self.selecting = True
        try:
            selected = self.tier.heard(lambda: Harness.select(self, opened, layer))
        finally:
            self.selecting = False
        opened.selected.append(layer)
        if self.during:
            during, self.during = self.during, None
            during()
            self._remember_idle()
        return selected

    def _remember_idle(self) -> None:
        """Take the tables of lanes that are in no step as they are now."""
        lanes = {lane for step in self.begun for lane in step.lanes}
        for group, policy in enumerate(self.cache.site.policies):
            now = residents(policy)
            for lane in set(range(self.cache.limits.lanes)) - lanes:
                self.mirror.found[group][lane] = now[lane]

    def _reuse(self, opened: OpenStep, layer: int) -> tuple[Selection, Served] | None:
        """Use a layer's selection again, if its group does and the cache says it is exact."""
        group = self.spec.group_of[layer]
        if self.spec.groups[group].owner in opened.selected:
            return None
        try:
            selection = opened.step.reuse(layer)
        except StateError as error:
            if f"layer {layer}" not in str(error):
                raise AssertionError(f"which layer was refused? {error}") from error
            if group in opened.plans:  # the owner was used again, so this one cannot be selected
                raise Interrupted from None
            return None
        key = opened.step.batch.key, layer
        assert key in self._frozen, "there is no selection to use again"
        rows, plans = self._frozen[key]
        opened.plans[group] = plans
        self.reused += 1
        kept = sum(len(query) for plan in plans for query in plan.entries)
        self.mirror.tallies[group]["reused"] += kept
        return selection, self.mirror.served(layer, rows, plans)

    def run(self, steps: list[Calls], pick: Pick = itemgetter(0)) -> bool:
        try:
            return super().run(steps, pick)
        finally:
            self.during = None

    def _end(self, opened: OpenStep) -> None:
        super()._end(opened)
        if not opened.whole:
            self.mirror.recount()
        for layer in opened.selected if opened.whole else ():
            plans = opened.plans[self.spec.group_of[layer]]
            self._frozen[opened.step.batch.key, layer] = opened.rows, plans
