"""A cache's whole state in dictionaries, and its comparison with the cache."""

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from typing import Any

from tierkv.cache import TieredCache
from tierkv.constants import Counter
from tierkv.testing.assemble import bytes_of
from tierkv.testing.invariants import Residents, check_placements, check_tables, residents
from tierkv.testing.model import Records, Row, RowPlan, plan_row
from tierkv.testing.model_residency import Residency, placed
from tierkv.types import Placement, Plan, Selection

Served = tuple[list[list[list[int]]], list[list[list[bytes]]]]
"""[B][Q][K] ids, and records."""
COUNTERS = [counter.name.lower() for counter in Counter]
PLACED = ("installs", "superseded", "bypassed")
"""Counters that a policy adds to."""


class Recorder:
    """Keeps, per group, what planner and installer of a cache gave last."""

    def __init__(self, cache: TieredCache) -> None:
        self.plans: dict[int, Plan] = {}
        self.placements: dict[int, Placement] = {}
        self._listen(cache.planner, "plan", self.plans)
        self._listen(cache.installer, "commit", self.placements)

    @staticmethod
    def _listen(component: Any, method: str, kept: dict[int, Any]) -> None:
        call = getattr(component, method)

        def recorded(*arguments: Any) -> Any:
            result = call(*arguments)
            kept[result.group if method == "plan" else result.plan.group] = result
            return result

        setattr(component, method, recorded)


class Mirror:
    """What the model says a cache holds.

    Without a model of the policy the tables are taken from the cache, once they have been checked.
    """

    def __init__(self, cache: TieredCache, make: Callable[[], Residency] | None = None) -> None:
        limits = cache.limits
        self.cache, self.spec, self.recorder = cache, limits.spec, Recorder(cache)
        self.records = Records()
        self.tallies: list[Tally[str]] = [Tally() for _ in self.spec.groups]
        self.residency = [
            [make() for _ in range(limits.lanes)] if make else [] for _ in self.spec.groups
        ]
        self.tables: list[Residents] = [[{} for _ in range(limits.lanes)] for _ in self.spec.groups]
        self.found = self.tables

    def plan(
        self,
        group: int,
        rows: Sequence[Row],
        ids: list[list[list[int]]],
        pages_of: Callable[[int], list[int]],
    ) -> list[RowPlan]:
        """Plan a group and let its misses in, both in the model only."""
        plans = []
        for row, selected in zip(rows, ids, strict=True):
            slot_of = {id: slot for slot, id in self.tables[group][row.lane].items()}
            pages = pages_of(row.lane) if row.lane >= 0 else []
            plans.append(plan_row(selected, row, pages, self.cache.limits.page, slot_of))
            self.tallies[group].update(plans[-1].tally)
        self.tallies[group]["steps"] += 1
        for row, plan in zip(rows, plans, strict=True) if self.residency[group] else ():
            if row.lane >= 0:
                self._place(group, row.lane, plan)
        return plans

    def _place(self, group: int, lane: int, plan: RowPlan) -> None:
        residency = self.residency[group][lane]
        residency.place(plan)
        self.tables[group][lane] = dict(residency.id_at)
        installs = sum(slot >= 0 for slot in placed(residency, plan.misses))
        self.tallies[group]["installs"] += installs
        self.tallies[group][residency.refused] += len(plan.misses) - installs

    def forget(self, group: int, lane: int, from_position: int = 0) -> None:
        """Drop what a lane holds from a position on."""
        table = self.tables[group][lane]
        self.tables[group][lane] = {s: id for s, id in table.items() if id < from_position}
        if self.residency[group]:
            self.residency[group][lane].forget(from_position)

    def check_plan(self, group: int, plans: Sequence[RowPlan]) -> None:
        """Compare the planner's plan with the model's."""
        seen, top_k = self.recorder.plans[group], self.spec.top_k

        def entries(field: str, empty: int) -> list[list[list[int]]]:
            return [
                [
                    _padded([int(getattr(entry, field)) for entry in query], top_k, empty)
                    for query in plan.entries
                ]
                for plan in plans
            ]

        places = seen.miss_id.shape[1]
        for name, got, wanted in (
            ("length", seen.length, [[len(query) for query in plan.entries] for plan in plans]),
            ("ids", seen.ids, entries("id", -1)),
            ("kind", seen.kind, entries("kind", 0)),
            ("index", seen.index, entries("index", -1)),
            ("miss_count", seen.miss_count, [len(plan.misses) for plan in plans]),
            ("miss_id", seen.miss_id, [_padded(plan.misses, places, -1) for plan in plans]),
            ("miss_from", seen.miss_from, [_padded(plan.places, places, -1) for plan in plans]),
        ):
            assert got.tolist() == wanted, f"plan.{name} {got.tolist()}, the model has {wanted}"

    def served(self, layer: int, rows: Sequence[Row], plans: Sequence[RowPlan]) -> Served:
        """Give what a selection of these plans must hold."""
        top_k, stride = self.spec.top_k, self.spec.layouts[layer].stride
        ids = [
            [_padded([entry.id for entry in query], top_k, -1) for query in plan.entries]
            for plan in plans
        ]
        records = [
            self.records.served(row, layer, plan, top_k, stride)
            for row, plan in zip(rows, plans, strict=True)
        ]
        return ids, records

    def check_selection(self, layer: int, selection: Selection, wanted: Served) -> None:
        """Compare ids and bytes, entry by entry; in any order if the server is unordered."""
        ids, records = wanted
        length = [[sum(id >= 0 for id in query) for query in queries] for queries in ids]
        assert selection.length.tolist() == length, (
            f"layer {layer}: {selection.length}, not {length}"
        )
        raw = bytes_of(selection.records)
        known = b"".join(record for queries in records for query in queries for record in query)
        if raw == known and selection.ids.tolist() == ids:
            return
        stride, place = selection.records.shape[-1], 0
        order = list if self.cache.server.ordered else sorted
        for row, queries in enumerate(selection.ids.tolist()):
            for query, served in enumerate(queries):
                got = []
                for id in served:
                    got.append((id, raw[place : place + stride]))
                    place += stride
                pairs = list(zip(ids[row][query], records[row][query], strict=True))
                assert order(got) == order(pairs), (
                    f"layer {layer}, row {row}, query {query}: served ids {served}, "
                    f"the model has {ids[row][query]}; records that differ: "
                    f"{[a[0] for a, b in zip(got, pairs, strict=True) if a != b]}"
                )

    def check_placements(
        self, placements: Sequence[Placement], counted: Sequence[Sequence[int]]
    ) -> None:
        """Check what whole steps, each on its lanes, placed; `counted` are the counters before."""
        for group in {placement.plan.group for placement in placements}:
            counters = self.cache.site.counters[group].tolist()
            grown = {
                name: now - then
                for name, now, then in zip(COUNTERS, counters, counted[group], strict=True)
            }
            before, after = self.found[group], residents(self.cache.site.policies[group])
            mine = [placement for placement in placements if placement.plan.group == group]
            check_placements(mine, before, after, grown)

    def recount(self) -> None:
        """Take the counters as they are, after a step that ended somewhere in its middle."""
        self.cache.installer.drain()  # another step may be open
        self.tallies = [
            Tally(dict(zip(COUNTERS, counters, strict=True)))
            for counters in self.cache.site.counters.tolist()
        ]

    def remember(self) -> None:
        """Keep the tables as a step finds them."""
        self.found = [residents(policy) for policy in self.cache.site.policies]
        self.tables = [
            known if models else list(found)
            for known, found, models in zip(self.tables, self.found, self.residency, strict=True)
        ]

    def check(self, stable: Sequence[Sequence[int]], pooled: bool = True) -> None:
        """Compare tables, counters and pool; `stable` is [groups][lanes]."""
        counters = self.cache.site.counters.tolist()
        for group, policy in enumerate(self.cache.site.policies):
            tables = check_tables(policy, stable[group])
            found = dict(zip(COUNTERS, counters[group], strict=True))
            if self.residency[group]:
                assert tables == self.tables[group], f"{tables}, the model has {self.tables[group]}"
            self.tables[group] = tables
            if not self.residency[group]:
                self.tallies[group].update({n: found[n] - self.tallies[group][n] for n in PLACED})
            known = {name: self.tallies[group][name] for name in found}
            assert found == known, f"group {group} counted {found}, the model has {known}"
            if pooled:
                self._check_pool(group, tables)

    def _check_pool(self, group: int, tables: Residents) -> None:
        for layer in self.spec.groups[group].layers:
            pool = self.cache.site.pool_view(layer)
            raw, (_, slots, stride) = bytes_of(pool), pool.shape
            for lane, id_at in enumerate(tables):
                for slot, id in id_at.items():
                    start = (lane * slots + slot) * stride
                    same = raw[start : start + stride] == self.records.read(lane, layer, id)
                    assert same, f"layer {layer}, lane {lane}: slot {slot} does not hold id {id}"


def _padded(values: list[int], size: int, empty: int) -> list[int]:
    return values + [empty] * (size - len(values))
