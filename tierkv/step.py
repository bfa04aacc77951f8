"""One decode step: append, plan, serve, commit, install, in the order that keeps bytes right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv import captured, ending, frozen, refusals
from tierkv.constants import Counter
from tierkv.errors import ShapeError, StateError, say
from tierkv.rows import Rows
from tierkv.store import Records
from tierkv.types import Placement, Plan, Selection

if TYPE_CHECKING:
    from tierkv.stepper import Stepper


class Step:
    """An open step. For each layer in order: :meth:`append`, then :meth:`select`.

    A step touches any of the model's layer groups, each whole. One that ends with an error leaves
    its lanes cold in the groups it touched and their lengths where they were; it may be repeated.

    Its launches may be captured into a graph, between ``begin`` and the end of a step: the captured
    part ends with :meth:`join`, and :meth:`replay` runs it, in this step and in later ones.
    """

    def __init__(self, stepper: Stepper, rows: Rows, touchable: list[bool]) -> None:
        self.batch = stepper.batch
        self.rows = rows
        """What the host knows of the batch."""
        self.stepper = stepper
        self.cache = stepper.cache
        self.touchable = touchable
        """Of each group, whether the step may touch it."""
        spec = self.cache.limits.spec
        self.missing = [{part.name for part in layout.parts} for layout in spec.layouts]
        """Parts of each layer that were not appended yet."""
        self.touched: list[int] = []
        """The groups of which a layer was appended to, in the order of their first."""
        self.selected = [False] * len(spec.layouts)
        self.served: dict[int, Selection] = {}
        """Layer -> what was selected, in order."""
        self.plans: list[Plan | None] = [None] * len(spec.groups)
        """Of each group, once its owner has selected."""
        self._placements: list[Placement | None] = [None] * len(spec.groups)

    def __enter__(self) -> Step:
        self.cache.lanes.open.update(lane for lane in self.rows.lanes if lane >= 0)
        self.cache.opened.append(self.stepper)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.cache.lanes.open.difference_update(self.rows.lanes)
        self.cache.opened.remove(self.stepper)
        unfinished = "" if error else refusals.unfinished(self)
        if error or unfinished:
            ending.abandon(self)
        else:
            ending.advance(self)
        if unfinished:
            raise StateError(unfinished)

    def append(self, layer: int, records: Records | None) -> None:
        """Give this step's records of a layer.

        Parameters
        ----------
        records
            Part name -> [B, Q, width] in the part's dtype, all parts or a disjoint set of them a
            call; or [B, Q, stride] uint8, whole records. Dead queries and padding are dropped.
            None with :class:`~tierkv.External` blocks: the engine has written them.

        Raises
        ------
        StateError, ShapeError, TierError
        """
        cache, stepper = self.cache, self.stepper
        group = cache.group_of("append", layer)
        if not self.touchable[group]:
            raise StateError(refusals.group(f"append, layer {layer}", self, group))
        if records is None:
            records = cache.store.written("append", layer, self.batch.rows)
        parts = cache.store.named("append", layer, records, stepper.rows_shape)
        missing, fresh = self.missing[layer], stepper.fresh_parts[layer]
        if not missing.issuperset(parts):
            where, given = f"append, layer {layer}", sorted(parts)
            raise StateError(
                say(where, "a part was given already", got=given, known=sorted(missing))
            )
        if parts and group not in self.touched:
            self.touched.append(group)
        complete = missing.isdisjoint(fresh)
        missing.difference_update(parts)  # first: from here on a failure may leave half of it
        cache.store.append(layer, parts, self.batch.rows, fresh, stepper.fresh[layer])
        if not cache.store.addressable and not complete and missing.isdisjoint(fresh):
            cache.store.write_live(layer, self.batch.rows, stepper.fresh[layer])

    def select(self, layer: int, ids: Tensor | None = None) -> Selection:
        """Give the selected records of a layer, side by side.

        Parameters
        ----------
        ids
            [B, Q, K] int32 positions in order of rank, -1 for none; on the owner layer of a group.
            None on its other layers, which reuse the owner's.

        Returns
        -------
        Selection
            Valid until a layer ``server.depth`` or more behind it, or a further step, selects.

        Raises
        ------
        StateError, ShapeError, TierError
        """
        cache, stepper = self.cache, self.stepper
        group = cache.group_of("select", layer)
        self._check_appended("select", layer)
        cache.installer.fence(layer)
        if layer == cache.owner_of[layer]:
            plan = self._plan(layer, group, ids)
        else:
            plan = self._follow(layer, group, ids)
        placement = self._placements[group]
        if placement is None:  # before it is served: a server may write where residents lie
            placement = self._placements[group] = cache.installer.commit(plan)
        selection = cache.server.serve(plan, layer, stepper.fresh[layer])
        cache.installer.install(placement, layer, selection)
        self.selected[layer] = True
        self.served[layer] = selection
        return selection

    def reuse(self, layer: int) -> Selection:
        """Give the layer's last selection on this stepper again: the frozen top-k of a draft loop.

        It equals selecting its ids again; what this step appended is not in it.

        Raises
        ------
        StateError
            If it would not: other lanes or queries, records rewritten since, or its buffer used.
        """
        group = self.cache.group_of("reuse", layer)
        self._check_appended("reuse", layer)
        selection = frozen.again(self, layer)
        self.cache.site.counters[group, Counter.REUSED] += selection.length.sum()
        self.selected[layer] = True
        return selection

    def join(self) -> None:
        """Let what is launched next come after all that runs beside the step.

        The last call of what is captured into a graph or compiled: no side stream may outlive it.
        Elsewhere the next ``begin`` does it.
        """
        self.cache.installer.drain()

    def replay(self, recorded: Step, run: Callable[[], None]) -> None:
        """Do what another step did while it was captured, or this one: capturing runs nothing.

        Parameters
        ----------
        recorded
            The step that was captured, on the same stepper.
        run
            Launches the captured work, as a graph's ``replay`` does.

        Raises
        ------
        StateError
            If this step may not do the same; nothing was launched.
        """
        if recorded is not self:
            captured.take_over(self, recorded)  # first: a failure may leave half of it
        run()

    def part(self, layer: int, name: str) -> Tensor:
        """Give a device part, [pages, page, width], to be read with ``batch.block_table``."""
        parts = self.cache.store.device[layer]
        if name not in parts:
            raise StateError(
                say(f"part, layer {layer}", "no such device part", got=name, known=parts)
            )
        pages: Tensor = parts[name].unflatten(0, (-1, self.batch.page))
        return pages

    def _check_appended(self, verb: str, layer: int) -> None:
        fresh = self.stepper.fresh_parts[layer]
        if self.selected[layer] or not self.missing[layer].isdisjoint(fresh):
            raise StateError(refusals.select(f"{verb}, layer {layer}", self, layer))

    def _plan(self, layer: int, group: int, ids: Tensor | None) -> Plan:
        cache = self.cache
        if ids is None:
            raise StateError(refusals.no_ids(layer, self))
        if ids.dtype != torch.int32 or ids.shape != self.stepper.ids_shape:
            raise ShapeError(refusals.ids(layer, self, ids))
        plan = cache.planner.plan(ids, self.batch, group, cache.site.policies[group])
        self.plans[group] = plan
        if cache.limits.debug:
            refusals.check_mapped(layer, plan, ids)
        return plan

    def _follow(self, layer: int, group: int, ids: Tensor | None) -> Plan:
        plan = self.plans[group]
        if plan is None or ids is not None:
            raise StateError(refusals.follower(layer, self.cache.owner_of[layer], plan))
        return plan
