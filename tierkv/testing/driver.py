"""A harness that does all that a serving engine does: prompts, warm starts, faults, own pages."""

import hashlib
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import StateError, TierError
from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.testing.assemble import device_parts
from tierkv.testing.engine import Engine
from tierkv.testing.harness import Harness, Ids, Interrupted, Request, tensor_of
from tierkv.testing.invariants import residents
from tierkv.testing.mirror import Served
from tierkv.testing.model import Row, RowPlan
from tierkv.testing.model_residency import Residency
from tierkv.types import Selection

T = TypeVar("T")


class InjectedFault(Interrupted, TierError):  # noqa: N818 - of a test
    """What a tier raises when it is told to."""


class Driver(Harness):
    """Adds to the harness what is not on the path of every step.

    A prompt's records are a function of its tokens and salt, as KV is, so that a page shared with
    the wrong request shows. Device parts are a function of the tiered ones.
    """

    def __init__(
        self,
        cache: TieredCache,
        make: Callable[[], Residency] | None = None,
        engine: Engine | None = None,
        watched: bool = True,
    ) -> None:
        tabled = cache.server.ordered  # others may keep residents where no table tells
        make = make if tabled else None
        super().__init__(cache, make, pooled=tabled, watched=watched, tabled=tabled)
        self.engine = engine
        self.prompts: dict[Hashable, tuple[tuple[int, ...], Hashable]] = {}
        self.during: Callable[[], None] | None = None
        """Called once in the next step, after a layer was selected."""
        self.reusing = False
        """Try to use selections again before selecting."""
        self.reused = 0
        """Selections that were used again."""
        self.armed = ""
        """``read`` or ``write``: what the backing shall fail to do, once."""
        self._selecting = False
        self._owners = {group.owner for group in self.spec.groups}
        self._fired = self._begun = 0
        """Failures that no retry has answered, and how many when the last step began."""
        self._frozen: dict[tuple[int, int], tuple[Sequence[Row], list[RowPlan]]] = {}
        self._pending: dict[tuple[int, int], tuple[Sequence[Row], list[RowPlan]]] = {}
        for verb in ("read", "write"):
            call = getattr(cache.site.backing, verb)
            setattr(cache.site.backing, verb, partial(self._tier, verb, call))

    def _tier(self, verb: str, call: Callable[..., Any], layer: int, rows: Tensor, *to: Any) -> Any:
        # A model's hands would not know whether a placement was made before its owner was served.
        knows = not self._selecting or layer not in self._owners or not self.mirror.residency[0]
        if self.armed == verb and len(rows) and knows:
            self.armed = ""
            self._fired += 1
            raise InjectedFault(f"tier: {verb} of layer {layer}, rows {rows.tolist()[:4]} failed")
        return call(layer, rows, *to)

    def _retry(self, call: Callable[[], T]) -> T:
        """Make a call that may be repeated if the tier fails; the failure must come out."""
        fired = self._fired
        try:
            result = call()
        except TierError:
            if self._fired == fired:
                raise
            self._fired = fired
            return call()
        assert self._fired == fired, "the tier failed, but its error did not reach the caller"
        return result

    # --- requests ---

    def admit(self, name: Hashable, tokens: int = 0, reserve: int = 0) -> int:
        return super().admit(name, tokens, 0 if self.engine else reserve)

    def admit_prompt(self, name: Hashable, tokens: Sequence[int], salt: Hashable = None) -> int:
        """Admit a request by its tokens; give how many of them it need not compute."""
        lane = self.cache.admit(name, tokens=tokens, salt=salt)
        length = self.cache.length(name)
        assert length % self.cache.limits.page == 0, f"{length} tokens shared, not whole pages"
        assert length < len(tokens), f"{length} tokens shared, the last must be left to compute"
        groups = len(self.spec.groups)
        self.requests[name] = Request(lane, [length] * groups, [0] * groups)
        self.prompts[name] = tuple(tokens), salt
        for layer in range(len(self.spec.layouts)):
            self._written(lane, layer, range(length), self.content(name, layer, 0, length))
        return length

    def content(self, name: Hashable, layer: int, start: int, end: int) -> Tensor:
        tokens, salt = self.prompts.get(name, ((), None))
        stride, known = self.spec.layouts[layer].stride, min(len(tokens), end)
        digest = hashlib.blake2b(repr((salt, layer)).encode())
        raw = []
        for position in range(known):
            digest.update(tokens[position].to_bytes(8, "little", signed=True))
            if position >= start:
                raw.append((digest.digest() * (stride // 64 + 1))[:stride])
        drawn = self._draw(layer, end - max(start, known))
        return torch.cat([tensor_of(b"".join(raw), stride), drawn])

    def fill(self, name: Hashable, layer: int, start: int, records: Tensor) -> None:
        if self.engine:
            lane = self.requests[name].lane
            self.engine.grow(lane, start + len(records))
            self.engine.write(lane, layer, start, records)
            return
        layout = self.spec.layouts[layer]
        parts = {**layout.views(records), **device_parts(layout, records)}

        def prefill() -> None:
            self.cache.prefill(name, layer, parts, start)
            if watch:
                self.cache.settle()  # it may be written in the background

        watch = self.armed == "write"
        self._retry(prefill)

    def fork(self, name: Hashable, copy: Hashable) -> int:
        lane = super().fork(name, copy)
        if name in self.prompts:
            self.prompts[copy] = self.prompts[name]
        return lane

    def truncate(self, name: Hashable, length: int) -> None:
        super().truncate(name, length)
        if self.engine:
            self.engine.shrink(self.requests[name].lane, max(self.requests[name].length))

    def release(self, name: Hashable) -> None:
        lane = self.requests[name].lane
        super().release(name)
        self.prompts.pop(name, None)
        if self.engine:
            self.engine.shrink(lane, 0)

    def read(self, name: Hashable, layer: int, start: int, stop: int) -> None:
        if self.engine:
            return
        self._retry(lambda: Harness.read(self, name, layer, start, stop))
        layout, lane = self.spec.layouts[layer], self.requests[name].lane
        known = [self.mirror.records.read(lane, layer, at) for at in range(start, stop)]
        wanted = device_parts(layout, tensor_of(b"".join(known), layout.stride))
        got = self.cache.read(name, layer, start, stop)
        for part, values in wanted.items():
            assert torch.equal(got[part], values), f"layer {layer}: device part {part} differs"

    def warm(self, name: Hashable, group: int, ids: list[list[int]]) -> None:
        """Make records resident; whatever was counted before is counted still."""
        request, members = self.requests[name], self.spec.groups[group]
        armed, self.armed = self.armed, ""  # nor would they know how far it came
        self.cache.warm(name, members.owner, torch.tensor(ids, dtype=torch.int32))
        self.armed = armed
        row = Row(request.lane, request.length[group], 1, request.length[group])
        counted = self.mirror.tallies[group].copy()
        for selected in ids:
            padded = selected + [-1] * (self.spec.top_k - len(selected))
            self.mirror.plan(group, [row], [[padded]], self.pages)
        self.mirror.tallies[group] = counted
        self.mirror.remember()
        request.stable[group] = request.length[group]

    # --- steps ---

    def pages(self, lane: int) -> list[int]:
        return self.engine.table[lane] if self.engine else super().pages(lane)

    def begin(self, stepper: Stepper, rows: Sequence[Row]) -> Step:
        if not self.engine:
            step = self._retry(lambda: Harness.begin(self, stepper, rows))
            self._begun = self._fired
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
        self._selecting = True
        try:
            selected = super().select(step, layer, rows, ids, plans)
        finally:
            self._selecting = False
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
            assert self._fired == self._begun, "a tier failed, but the step did not"
            self._frozen |= self._pending
        else:
            self._pending = {}
            self.mirror.recount()
