"""The fused gather in dictionaries and lists: where each query's records lie."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tierkv.cache import TieredCache
from tierkv.constants import Kind
from tierkv.testing.assemble import bytes_of
from tierkv.testing.harness import Harness
from tierkv.testing.invariants import residents
from tierkv.testing.mirror import COUNTERS, Mirror
from tierkv.testing.model import Entry, Row, RowPlan, plan_row
from tierkv.types import Placement

STABLE = (Kind.HIT, Kind.MISS, Kind.REPEAT)


def arrange(entries: Sequence[Entry], held: Mapping[int, int]) -> list[Entry]:
    """Give a query's entries in their places; hits get the place that they are found in.

    Parameters
    ----------
    held
        Place -> id of the query's last selection.
    """
    places: dict[int, list[int]] = {}
    for place in sorted(held, reverse=True):
        places.setdefault(held[place], []).append(place)
    found: dict[int, Entry] = {}
    new = []
    for entry in entries:
        if entry.kind in STABLE and places.get(entry.id):
            place = places[entry.id].pop()
            found[place] = Entry(entry.id, Kind.HIT, place)
        else:
            new.append(entry)
    behind = [found.pop(place) for place in sorted(found, reverse=True) if place >= len(entries)]
    waiting = iter(behind + new)
    return [found[place] if place in found else next(waiting) for place in range(len(entries))]


def gather_row(plan: RowPlan, pages: Sequence[int], page: int, top_k: int) -> None:
    """List the misses of a row whose entries are in their places."""
    first: dict[int, int] = {}
    for query, entries in enumerate(plan.entries):
        for place, entry in enumerate(entries):
            if entry.kind not in (Kind.MISS, Kind.REPEAT):
                continue
            known = first.setdefault(entry.id, query * top_k + place)
            again = known != query * top_k + place
            backing = pages[entry.id // page] * page + entry.id % page
            kind, index = (Kind.REPEAT, known) if again else (Kind.MISS, backing)
            entries[place] = Entry(entry.id, kind, index)
    plan.misses, plan.places = list(first), list(first.values())


class GatherMirror(Mirror):
    """What the model says the selection buffers of a cache hold; `tables` are place -> id."""

    def __init__(self, cache: TieredCache) -> None:
        super().__init__(cache)
        limits = cache.limits
        self.row_of: list[dict[int, int]] = [{} for _ in self.spec.groups]
        """Lane -> buffer row, of each group."""
        self.width = limits.queries * limits.spec.top_k

    def plan(
        self,
        group: int,
        rows: Sequence[Row],
        ids: list[list[list[int]]],
        pages_of: Callable[[int], list[int]],
    ) -> list[RowPlan]:
        """Plan a group and note where its records lie afterwards, both in the model only."""
        batch, lies = self.recorder.plans[group].batch, self.row_of[group]
        mine = range(batch.first_row, batch.first_row + len(rows))
        across = len(self.spec.groups[group].layers) == 1
        plans = []
        for own, row, selected in zip(mine, rows, ids, strict=True):
            pages = pages_of(row.lane) if row.lane >= 0 else []
            near = row.lane in lies and (across or lies[row.lane] in mine)
            table = self.tables[group][row.lane] if near else {}
            plans.append(self._row(row, selected, pages, table))
            elsewhere = near and lies[row.lane] != own
            plans[-1].tally["moved"] = sum(
                entry.kind == Kind.HIT and (elsewhere or entry.index != place)
                for query in plans[-1].entries
                for place, entry in enumerate(query)
            )
            self.tallies[group].update(plans[-1].tally)
        self.tallies[group]["steps"] += 1
        self._settle(group, mine, rows, plans)
        return plans

    def _row(
        self,
        row: Row,
        selected: Sequence[Sequence[int]],
        pages: Sequence[int],
        table: Mapping[int, int],
    ) -> RowPlan:
        page, top_k = self.cache.limits.page, self.spec.top_k
        plan, queries = plan_row(selected, row, pages, page, {}), len(selected)
        offset = self.width - queries * top_k
        for query, entries in enumerate(plan.entries):
            start = offset + query * top_k
            held = {at - start: id for at, id in table.items() if start <= at < start + top_k}
            plan.entries[query] = arrange(entries, held)
        gather_row(plan, pages, page, top_k)
        plan.count()
        plan.tally["installs"] = len(plan.misses)
        return plan

    def _settle(
        self, group: int, mine: range, rows: Sequence[Row], plans: Sequence[RowPlan]
    ) -> None:
        lies = self.row_of[group]
        for lane in [lane for lane, row in lies.items() if row in mine]:
            del lies[lane]
            self.tables[group][lane] = {}
        for own, row, plan in zip(mine, rows, plans, strict=True):
            if row.lane < 0:
                continue
            lies[row.lane] = own
            start = self.width - len(plan.entries) * self.spec.top_k
            self.tables[group][row.lane] = {
                start + query * self.spec.top_k + place: entry.id
                for query, entries in enumerate(plan.entries)
                for place, entry in enumerate(entries)
                if entry.kind in STABLE
            }

    def remember(self) -> None:
        """Nothing: the model takes nothing from the cache."""

    def check_placements(
        self, placements: Sequence[Placement], counted: Sequence[Sequence[int]]
    ) -> None:
        """Check that a placement names the places of the misses."""
        for placement in placements:
            plan = placement.plan
            offset = self.width - plan.ids[0].numel()
            for at, slot in zip(plan.miss_from.tolist(), placement.slot.tolist(), strict=True):
                assert slot == [place + offset if place >= 0 else -1 for place in at]
            assert placement.count.tolist() == plan.miss_count.tolist()

    def check(self, stable: Sequence[Sequence[int]], pooled: bool = True) -> None:
        """Compare places, counters and buffers; `stable` is [groups][lanes]."""
        for group, policy in enumerate(self.cache.site.policies):
            tables, known = residents(policy), self.tables[group]
            assert tables == known, f"group {group}: {tables}, the model has {known}"
            for lane, table in enumerate(tables):
                late = [id for id in table.values() if id >= stable[group][lane]]
                assert not late, f"lane {lane}: {late} are not stable"
            counters = self.cache.site.counters[group].tolist()
            found = dict(zip(COUNTERS, counters, strict=True))
            counts = {name: self.tallies[group][name] for name in found}
            assert found == counts, f"group {group} counted {found}, the model has {counts}"
            self._check_buffers(group)

    def _check_buffers(self, group: int) -> None:
        server: Any = self.cache.server
        for layer in self.spec.groups[group].layers:
            records = server.buffers[layer][0].flatten(1, 2)
            for lane, table in enumerate(self.tables[group]):
                for place, id in table.items():
                    row = self.row_of[group][lane]
                    raw = bytes_of(records[row, place])
                    same = raw == self.records.read(lane, layer, id)
                    assert same, f"layer {layer}, lane {lane}: place {place} does not hold id {id}"


class GatherHarness(Harness):
    """A cache whose server gathers in place, and its model side by side."""

    mirror: GatherMirror

    def __init__(self, cache: TieredCache) -> None:
        super().__init__(cache)
        self.mirror = GatherMirror(cache)
