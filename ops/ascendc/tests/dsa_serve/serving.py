"""Random steps of requests on a set-fifo pool, planned and placed by the reference operators."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops import REFERENCE

PAGE = 16
WIDTHS = (128, 1024, 1152, 672, 656, 2)
BAD_IDS = (-1, -7, 2**31 - 1, -(2**31))


def ints(*shape: int, fill: int = 0) -> Tensor:
    """Int32 values."""
    return torch.full(shape, fill, dtype=torch.int32)


def bytes_of(generator: torch.Generator, *shape: int) -> Tensor:
    """Random records."""
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def seeds(few: int) -> list[Any]:
    """Seeds of random cases: a few, and many for long runs."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(few, 600))]


@dataclass(frozen=True)
class Sizes:
    """Of a batch and what it selects from; `width` is a record's bytes."""

    lanes: int
    rows: int
    queries: int
    top_k: int
    slots: int
    width: int
    positions: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Sizes":
        """Give small sizes with all the corners."""
        lanes = rng.randint(1, 8)
        return cls(
            lanes=lanes,
            rows=rng.randint(1, lanes),
            queries=rng.randint(1, 4),
            top_k=rng.choice([1, 2, 7, 8, 31, 33, 64, 100]),
            slots=256,
            width=rng.choice(WIDTHS),
            positions=PAGE * rng.randint(1, 24),
        )


@dataclass(frozen=True)
class Step:
    """A plan, its placement and what was appended."""

    lanes: Tensor
    kind: Tensor
    index: Tensor
    miss_from: Tensor
    miss_count: Tensor
    slot: Tensor
    fresh: Tensor


class Requests:
    """Requests that select, of each lane, mostly what is resident."""

    def __init__(self, seed: int, sizes: Sizes, warm: float = 0.7, steady: bool = False) -> None:
        self.sizes, self.warm, self.steady = sizes, warm, steady
        """`steady` batches have every lane at full length, and queries that select much alike."""
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.slot_of = ints(sizes.lanes, sizes.positions, fill=-1)
        self.id_at = ints(sizes.lanes, sizes.slots, fill=-1)
        self.hand = ints(sizes.lanes, sizes.slots // 16)
        self.counters = torch.zeros(len(Counter), dtype=torch.int64)
        self.pages = sizes.positions // PAGE
        self.backing_rows = sizes.lanes * sizes.positions

    def bytes(self, *shape: int) -> Tensor:
        """Random records."""
        return bytes_of(self.generator, *shape)

    def step(self) -> Step:
        """Plan a batch against the tables as they are, then place its misses."""
        sizes, rng = self.sizes, self.rng
        shape = (sizes.rows, sizes.queries, sizes.top_k)
        flat = (sizes.rows, sizes.queries * sizes.top_k)
        lanes = rng.sample(range(sizes.lanes), sizes.rows)
        kv_len, q_len = [sizes.positions for _ in lanes], [sizes.queries for _ in lanes]
        if not self.steady:
            lanes = [lane if rng.random() < 0.9 else -1 for lane in lanes]
            kv_len = [rng.randint(sizes.positions // 2, sizes.positions) for _ in lanes]
            q_len = [rng.randint(1, sizes.queries) for _ in lanes]
        stable = [max(0, n - q - rng.randint(0, 3)) for n, q in zip(kv_len, q_len, strict=True)]
        ids = torch.stack([self._select(*row) for row in zip(lanes, kv_len, strict=True)])
        batch = [torch.tensor(x, dtype=torch.int32) for x in (lanes, kv_len, q_len, stable)]
        table = torch.tensor([[max(x, 0) * self.pages] for x in lanes], dtype=torch.int32)
        table = table + torch.arange(self.pages, dtype=torch.int32)
        plan = [ints(*shape), torch.zeros(shape, dtype=torch.int8), ints(*shape)]
        plan += [ints(*shape[:2]), ints(*flat), ints(*flat), ints(sizes.rows)]
        REFERENCE.plan(ids, *batch, table, PAGE, self.slot_of, *plan, self.counters)
        _, kind, index, _, miss_id, miss_from, miss_count = plan
        slot = ints(*flat)
        REFERENCE.place("set-fifo")(
            batch[0], kind, index, miss_id, miss_from, miss_count, 0,
            [self.slot_of, self.id_at, self.hand], slot, ints(sizes.rows), self.counters,
        )  # fmt: skip
        fresh = self.bytes(*shape[:2], sizes.width)
        return Step(batch[0], kind, index, miss_from, miss_count, slot, fresh)

    def _select(self, lane: int, kv_len: int) -> Tensor:
        """[Q, K] ids: resident ones, any, the newest, and some that are nobody's."""
        shape = (self.sizes.queries, self.sizes.top_k)

        def chance(share: float) -> Tensor:
            return torch.rand(shape, generator=self.generator) < share

        def draw(bound: int) -> Tensor:
            return torch.randint(0, bound, shape, generator=self.generator, dtype=torch.int32)

        ids = draw(max(kv_len, 1))
        resident = self.id_at[lane][self.id_at[lane] >= 0]
        if len(resident) > 0:
            ids = torch.where(chance(self.warm), resident[draw(len(resident)).long()], ids)
        if self.steady:
            return torch.where(chance(0.85), ids[:1], ids)
        ids = torch.where(chance(0.03), kv_len - 1 - draw(8), ids)
        bad = torch.tensor(BAD_IDS, dtype=torch.int32)[draw(len(BAD_IDS)).long()]
        return torch.where(chance(0.03), bad, ids)
