"""What flows on the step path: frozen, slotted dataclasses over static tensors.

Symbols: ``B`` batch rows, ``Q`` query positions a row, ``K`` top-k, ``M = Q * K``, ``P`` slots.
Static descriptions of a model are in :mod:`tierkv.layout`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.layout import KVLayout


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One step's rows, in buffers that a stepper owns and fills in ``begin``."""

    key: int
    """Number of the stepper; components keep their buffers of this batch under it."""
    first_row: int
    """Row of the servers' selection buffers that holds this batch's first."""
    queries: int
    """Q, query positions a row; the last ``q_len`` of them are live."""
    page: int
    """Records a page."""
    lanes: Tensor
    """[B] int32, distinct; -1 is a padding row."""
    kv_len: Tensor
    """[B] int32, tokens including this step's; query ``q`` sits at ``kv_len - Q + q``."""
    q_len: Tensor
    """[B] int32, live queries, 1 to Q."""
    stable: Tensor
    """[B] int32, leading positions that can no longer change."""
    block_table: Tensor
    """[B, pages] int32, the page that holds positions ``i * page`` and up; -1 unmapped."""
    rows: Tensor
    """[B, Q] int32, backing row that each query's record goes to; -1 is dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where every selected record is, decided against the tables as the step found them.

    A query's valid entries stand at the front, in the order selected.
    """

    group: int
    """Index of the layer group in the model specification."""
    batch: Batch
    ids: Tensor
    """[B, Q, K] int32 positions; -1 behind ``length``."""
    kind: Tensor
    """[B, Q, K] int8, a :class:`~tierkv.constants.Kind`."""
    index: Tensor
    """[B, Q, K] int32, its meaning given by ``kind``; -1 behind ``length``."""
    length: Tensor
    """[B, Q] int32 valid entries."""
    miss_id: Tensor
    """[B, M] int32, the unique misses of a row in order of occurrence; -1 behind the count."""
    miss_from: Tensor
    """[B, M] int32, flat place ``q * K + k`` of that occurrence; -1 behind the count."""
    miss_count: Tensor
    """[B] int32."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The slot each unique miss is installed in, the same in every layer of the group."""

    plan: Plan
    slot: Tensor
    """[B, M] int32, for each of ``plan.miss_id``; -1 is not installed."""
    count: Tensor
    """[B] int32, how many are installed."""


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The selected records of one layer, side by side: what attention reads.

    A selection lives in a buffer that its server owns and writes again; the server's docstring
    says how long it stays valid.
    """

    records: Tensor
    """[B, Q, K, stride] uint8, whole records; zero behind ``length``."""
    ids: Tensor
    """[B, Q, K] int32 positions; -1 behind ``length``."""
    length: Tensor
    """[B, Q] int32 valid records."""
    parts: Mapping[str, Tensor]
    """Part name -> [B, Q, K, width] view of ``records`` in the part's dtype."""
    layout: KVLayout | None = None
    """Says where the parts lie; a server that may be compiled gives it."""

    def __getitem__(self, name: str) -> Tensor:
        """Give the part `name`, [B, Q, K, width]."""
        if self.layout is not None and torch.compiler.is_compiling():
            # A graph may not mutate records and take views of them in another dtype from outside.
            return self.layout.views(self.records)[name]
        return self.parts[name]


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Counts of one layer group since the cache was built (see docs/semantics.md)."""

    layers: tuple[int, ...]
    steps: int = 0
    hits: int = 0
    misses: int = 0
    window: int = 0
    future: int = 0
    unmapped: int = 0
    unique_hits: int = 0
    unique_misses: int = 0
    fetched: int = 0
    """Records read from backing, in each layer of the group."""
    installs: int = 0
    superseded: int = 0
    bypassed: int = 0
    reused: int = 0
    moved: int = 0

    @property
    def hit_rate(self) -> float:
        """Hits over hits and misses, counted per entry; 0 when there were none."""
        return self.hits / max(self.hits + self.misses, 1)

    @property
    def unique_hit_rate(self) -> float:
        """The same over the distinct ids of a lane and step."""
        return self.unique_hits / max(self.unique_hits + self.unique_misses, 1)


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot, safe to take from any thread."""

    groups: tuple[GroupStats, ...]
    lanes_used: int
    pages_used: int
    pages: int
    device_bytes: int
    """Pools, device parts and selection buffers."""
    table_bytes: int
    """Residency tables."""
    backing_bytes: int
    fetched_bytes: int
    """Bytes read from backing by serving, all layers."""

    @property
    def steps(self) -> int:
        """Steps of the group that stepped most."""
        return max(group.steps for group in self.groups)

    @property
    def hit_rate(self) -> float:
        """Hits over hits and misses of all groups, counted per entry."""
        hits = sum(group.hits for group in self.groups)
        return hits / max(hits + sum(group.misses for group in self.groups), 1)
