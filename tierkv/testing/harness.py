"""A cache and its model side by side: make a call on both, compare all that can be seen."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from operator import itemgetter

from torch import Tensor

from tierkv.errors import CapacityError
from tierkv.rows import Numbers, on_device
from tierkv.stepper import Stepper
from tierkv.testing.assemble import tensor_of
from tierkv.testing.ledger import Ledger
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row
from tierkv.testing.open_step import Ids, OpenStep
from tierkv.types import Selection

Calls = Generator[bool, None, None]
"""Makes the next call of a step each time it is asked for a value."""
Pick = Callable[[list[Calls]], Calls]


class Interrupted(Exception):  # noqa: N818 - nobody's error
    """Raised in the middle of a step to see what it leaves behind."""


class Harness(Ledger):
    """Makes steps, too, and compares all they planned, served and placed."""

    begun: list[OpenStep]
    """What was last made at once, in the order begun; some may have ended."""
    told = False
    """Whether the cache is always told the lengths of its steps."""

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
        stepper = self.cache.stepper_for(len(rows), len(next(iter(chosen.values()))[0]))
        return self.run([self.calls(stepper, rows, chosen, stop_at)])

    def run(self, steps: list[Calls], pick: Pick = itemgetter(0)) -> bool:
        """Make steps side by side and compare as for one; say whether all that began ended well.

        Parameters
        ----------
        steps
            Made by :meth:`calls`, on steppers and lanes of their own.
        pick
            Says whose call is next.

        Raises
        ------
        CapacityError
            If one found no room to begin; the others have been made.
        """
        counted = self.cache.site.counters.tolist()
        if self.watched:
            self.mirror.remember()
        self.begun, refused = [], None
        while steps:
            step = pick(steps)
            try:
                if next(step, False):
                    continue
            except CapacityError as error:
                refused = error
            except BaseException:
                for other in steps:
                    other.close()
                raise
            steps.remove(step)
        if refused:
            raise refused
        whole = all(step.whole for step in self.begun)
        if whole and self.watched and self.tabled:
            self.cache.installer.drain()
            placements = [placed for step in self.begun for placed in step.placements]
            self.mirror.check_placements(placements, counted)
        return whole

    def calls(
        self,
        stepper: Stepper,
        rows: Sequence[Row],
        ids: Mapping[int, Ids],
        stop_at: tuple[int, str] | None = None,
    ) -> Calls:
        """Make a step call by call: begin, what each layer needs, end."""
        opened = self.begin(stepper, rows, ids)
        self.begun.append(opened)
        try:
            with opened.step:
                yield True
                for group in ids:
                    opened.touched.append(group)
                    for layer in self.spec.groups[group].layers:
                        yield from self._layer(opened, layer, stop_at)
            opened.whole = True
        except Interrupted:
            pass
        self._end(opened)

    def _layer(
        self, opened: OpenStep, layer: int, stop_at: tuple[int, str] | None
    ) -> Iterator[bool]:
        self.append(opened, layer)
        if stop_at == (layer, "append"):
            raise Interrupted
        yield True
        selection, wanted = self.select(opened, layer)
        opened.hold(layer, selection, wanted, self.cache.server.depth)
        for known in (known for step in self.begun for known in step.held):
            self.mirror.check_selection(*known)
        if stop_at == (layer, "select"):
            raise Interrupted
        yield True

    def begin(
        self, stepper: Stepper, rows: Sequence[Row], ids: Mapping[int, Ids] | None = None
    ) -> OpenStep:
        """Open a step; on an accelerator half of those that may get lengths that are not read."""
        step = stepper.begin(
            [row.lane for row in rows], *self._lengths(rows), block_table=self.block_table(rows)
        )
        return OpenStep(step, rows, ids or {})

    def _lengths(self, rows: Sequence[Row]) -> tuple[Numbers, Numbers, Numbers]:
        kv_len, q_len = [row.kv_len for row in rows], [row.q_len for row in rows]
        stable = [row.stable for row in rows]
        if self.unread(rows):
            return self.positions(kv_len), q_len, self.positions(stable)
        return kv_len, q_len, stable

    def unread(self, rows: Sequence[Row]) -> bool:
        """Say whether the lengths of a batch go to an accelerator, for the cache not to read."""
        if self.told or not on_device(self.positions([])) or self._bytes.random() < 0.5:
            return False
        stable = {known.lane: max(known.stable) for known in self.requests.values()}
        start = self.cache.lengths.start([row.lane for row in rows])
        return all(
            row.first >= max(least, stable[row.lane])
            for row, least in zip(rows, start, strict=True)
            if row.lane >= 0
        )

    def block_table(self, rows: Sequence[Row]) -> Tensor | None:
        """Give a batch's block table if pages are an engine's own."""
        return None

    def append(self, opened: OpenStep, layer: int) -> None:
        """Append a layer's records."""
        opened.step.append(layer, self._appended(opened, layer))

    def select(self, opened: OpenStep, layer: int) -> tuple[Selection, Served]:
        """Select a layer; give what it must hold too. The owner's call makes the group's plans."""
        group, rows = self.spec.group_of[layer], opened.rows
        if group in opened.plans:
            selection = opened.step.select(layer)
        else:
            ids = opened.ids[group]
            selection = opened.step.select(layer, self.positions(ids))
            opened.plans[group] = self.mirror.plan(group, rows, ids, self.pages)
            opened.placements.append(self.mirror.recorder.placements[group])
            if self.tabled:
                self.mirror.check_plan(group, opened.plans[group])
        return selection, self.mirror.served(layer, rows, opened.plans[group])

    def _appended(self, opened: OpenStep, layer: int) -> Tensor:
        queries, stride = opened.step.batch.queries, self.spec.layouts[layer].stride
        raw = self._bytes.randbytes(len(opened.rows) * queries * stride)
        for number, row in enumerate(opened.rows):
            for query, position in row.written(queries).items():
                start = (number * queries + query) * stride
                record = raw[start : start + stride]
                self.mirror.records.write(row.lane, layer, position, record)
        records = tensor_of(raw, stride).view(len(opened.rows), queries, stride)
        return records.to(self.cache.limits.device)

    def _end(self, opened: OpenStep) -> None:
        opened.held.clear()
        request_of = {request.lane: request for request in self.requests.values()}
        for group in opened.touched:
            for row in (row for row in opened.rows if row.lane >= 0):
                request = request_of[row.lane]
                if opened.whole:
                    request.length[group], request.stable[group] = row.kv_len, row.stable
                else:
                    request.length[group] = min(request.length[group], row.first)
                    self.mirror.forget(group, row.lane)
