"""The step in dictionaries and lists: a second statement of the semantics, to test against.

Nothing here looks at a tensor. Records are ``bytes``; tables are what the caller found in them.
"""

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tierkv.constants import Kind


@dataclass(frozen=True)
class Row:
    """One row of a batch."""

    lane: int
    kv_len: int
    q_len: int
    stable: int

    @property
    def first(self) -> int:
        """First position that the row's step may write."""
        return max(self.kv_len - self.q_len, 0)

    def written(self, queries: int) -> dict[int, int]:
        """Give query -> position of the records that ``append`` keeps."""
        if self.lane < 0:
            return {}
        start = self.kv_len - queries
        live = range(queries - self.q_len, queries)
        return {query: start + query for query in live if start + query >= 0}


@dataclass(frozen=True)
class Entry:
    """One selected record and where it is served from."""

    id: int
    kind: Kind
    index: int


@dataclass
class RowPlan:
    """A row's valid entries query by query, its unique misses, and what there was to count."""

    entries: list[list[Entry]] = field(default_factory=list)
    misses: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    tally: Tally[str] = field(default_factory=Tally)

    def hits(self) -> set[int]:
        """Give the ids that the pool serves."""
        return {entry.id for query in self.entries for entry in query if entry.kind == Kind.HIT}

    def last(self) -> list[int]:
        """Give the stable ids of the last query."""
        kinds = (Kind.HIT, Kind.MISS, Kind.REPEAT)
        return [entry.id for entry in self.entries[-1] if entry.kind in kinds]

    def count(self) -> None:
        """Count the entries."""
        kinds = [entry.kind for query in self.entries for entry in query]
        window = kinds.count(Kind.WINDOW)
        self.tally["hits"] = kinds.count(Kind.HIT)
        self.tally["misses"] = kinds.count(Kind.MISS) + kinds.count(Kind.REPEAT)
        self.tally["window"] = window + kinds.count(Kind.FRESH)
        self.tally["unique_hits"] = len(self.hits())
        self.tally["unique_misses"] = len(self.misses)
        self.tally["fetched"] = len(self.misses) + window


def plan_row(
    selected: Sequence[Sequence[int]],
    row: Row,
    pages: Sequence[int],
    page: int,
    slot_of: Mapping[int, int],
) -> RowPlan:
    """Classify, compact and list the misses of one row.

    Parameters
    ----------
    selected
        The ids of each query, in order of rank.
    pages
        The lane's block table; -1 is unmapped.
    slot_of
        Id -> slot of the lane's residents.
    """
    plan = RowPlan()
    queries, top_k = len(selected), len(selected[0])
    first_place: dict[int, int] = {}
    for query, ids in enumerate(selected):
        position = row.kv_len - queries + query
        live = row.lane >= 0 and row.kv_len > 0 and query >= queries - row.q_len
        entries: list[Entry] = []
        plan.entries.append(entries)
        for id in ids if live else ():
            number = id // page
            if id < 0:
                continue
            if id > position:
                plan.tally["future"] += 1
                continue
            if number >= len(pages) or pages[number] < 0:
                plan.tally["unmapped"] += 1
                continue
            backing = pages[number] * page + id % page
            place = query * top_k + len(entries)
            if id >= max(row.stable, row.kv_len - row.q_len):
                entry = Entry(id, Kind.FRESH, id - (row.kv_len - queries))
            elif id >= row.stable:
                entry = Entry(id, Kind.WINDOW, backing)
            elif id in slot_of:
                entry = Entry(id, Kind.HIT, slot_of[id])
            elif id in first_place:
                entry = Entry(id, Kind.REPEAT, first_place[id])
            else:
                entry = Entry(id, Kind.MISS, backing)
                first_place[id] = place
            entries.append(entry)
    plan.misses, plan.places = list(first_place), list(first_place.values())
    plan.count()
    return plan


class Records:
    """What was last written at each position of each lane and layer."""

    def __init__(self) -> None:
        self._at: dict[int, dict[tuple[int, int], bytes]] = {}

    def write(self, lane: int, layer: int, position: int, record: bytes) -> None:
        """Remember a record."""
        self._at.setdefault(lane, {})[layer, position] = record

    def read(self, lane: int, layer: int, position: int) -> bytes:
        """Give the record that must be served."""
        return self._at[lane][layer, position]

    def copy(self, lane: int, other: int) -> None:
        """Let a lane hold what another holds."""
        self._at[other] = dict(self._at.get(lane, {}))

    def served(
        self, row: Row, layer: int, plan: RowPlan, top_k: int, stride: int
    ) -> list[list[bytes]]:
        """Give the records of a row's selection, zero behind each query's valid ones."""
        return [
            [self.read(row.lane, layer, entry.id) for entry in query]
            + [bytes(stride)] * (top_k - len(query))
            for query in plan.entries
        ]
