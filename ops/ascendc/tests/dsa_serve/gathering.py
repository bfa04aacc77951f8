"""Random steps of requests whose selections stay in place, planned by the reference operators."""

import random
from dataclasses import dataclass

import torch
from serving import BAD_IDS, PAGE, WIDTHS, bytes_of, ints
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops import REFERENCE


@dataclass(frozen=True)
class Sizes:
    """`queries` and `lanes` are the buffer's; a batch may be narrower. `width` in bytes."""

    lanes: int
    queries: int
    top_k: int
    width: int
    positions: int

    @classmethod
    def draw(cls, rng: random.Random) -> "Sizes":
        """Give small sizes with all the corners."""
        return cls(
            lanes=rng.randint(1, 8),
            queries=rng.randint(1, 4),
            top_k=rng.choice([1, 2, 3, 7, 31, 33, 64]),
            width=rng.choice(WIDTHS),
            positions=PAGE * rng.randint(1, 8),
        )


@dataclass(frozen=True)
class Step:
    """What `gather` takes, but for buffers."""

    kind: Tensor
    index: Tensor
    length: Tensor
    source: Tensor
    work: Tensor
    work_count: Tensor
    first_row: int
    fresh: Tensor
    elsewhere: bool
    """Whether a lane's records lie in another row."""


class Requests:
    """Requests that select, of each lane, mostly what they selected before."""

    def __init__(self, seed: int, sizes: Sizes, warm: float = 0.75, steady: bool = False) -> None:
        self.sizes, self.warm, self.steady = sizes, warm, steady
        """`steady` batches have all queries, live, and every lane at full length."""
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.id_at = ints(sizes.lanes, sizes.queries * sizes.top_k, fill=-1)
        self.row_of = ints(sizes.lanes, fill=-1)
        self.counters = torch.zeros(len(Counter), dtype=torch.int64)
        self.pages = sizes.positions // PAGE
        self.backing = self.bytes(sizes.lanes * sizes.positions, sizes.width)

    def bytes(self, *shape: int) -> Tensor:
        """Random records."""
        return bytes_of(self.generator, *shape)

    def step(self, lanes: list[int] | None = None) -> Step:
        """Plan a batch, of random lanes if None, and note it as gathered."""
        sizes, rng = self.sizes, self.rng
        queries = sizes.queries if self.steady else rng.randint(1, sizes.queries)
        first_row, across = 0, True
        if lanes is None:
            rows, across = rng.randint(1, sizes.lanes), rng.random() < 0.7
            first_row = rng.randint(0, sizes.lanes - rows)
            lanes = list(range(first_row, first_row + rows))
            if rng.random() < 0.4:  # lanes change their rows
                lanes = rng.sample([*range(sizes.lanes), *[-1] * rows], rows)
        rows = len(lanes)
        kv_len, q_len = [sizes.positions for _ in lanes], [queries for _ in lanes]
        if not self.steady:
            kv_len = [rng.randint(sizes.positions // 2, sizes.positions) for _ in lanes]
            q_len = [rng.randint(1, queries) for _ in lanes]
        stable = [max(0, n - q - rng.randint(0, 3)) for n, q in zip(kv_len, q_len, strict=True)]
        ids = torch.stack(
            [self._select(lane, n, queries) for lane, n in zip(lanes, kv_len, strict=True)]
        )
        batch = [torch.tensor(x, dtype=torch.int32) for x in (lanes, kv_len, q_len, stable)]
        table = torch.tensor([[max(x, 0) * self.pages] for x in lanes], dtype=torch.int32)
        table = table + torch.arange(self.pages, dtype=torch.int32)

        flat = (rows, queries * sizes.top_k)
        plan = [ints(*ids.shape), torch.zeros(ids.shape, dtype=torch.int8), ints(*ids.shape)]
        plan += [ints(rows, queries), ints(*flat), ints(*flat), ints(rows)]
        work = [ints(rows), ints(*flat), ints(rows)]
        REFERENCE.plan_gather(
            ids, *batch, table, PAGE, first_row, across, self.id_at, self.row_of, *plan, *work,
            self.counters,
        )  # fmt: skip
        out_ids, kind, index, length, _, miss_from, _ = plan
        REFERENCE.place_gather(
            batch[0], out_ids, kind, miss_from, first_row, self.id_at, self.row_of, ints(*flat),
            ints(rows), self.counters,
        )  # fmt: skip
        own = torch.arange(first_row, first_row + rows, dtype=torch.int32)
        elsewhere = bool((work[0] != own).any())
        fresh = self.bytes(rows, queries, sizes.width)
        return Step(kind, index, length, *work, first_row, fresh, elsewhere)

    def _select(self, lane: int, kv_len: int, queries: int) -> Tensor:
        """[Q, K] ids: those that lie there, any, the newest, and some that are nobody's."""
        shape = (queries, self.sizes.top_k)

        def chance(share: float) -> Tensor:
            return torch.rand(shape, generator=self.generator) < share

        def draw(bound: int) -> Tensor:
            return torch.randint(0, bound, shape, generator=self.generator, dtype=torch.int32)

        held = self.id_at[lane, -queries * self.sizes.top_k :].view(shape)
        order = torch.rand(shape, generator=self.generator).argsort(1)
        held = held.gather(1, order)
        ids = torch.where(chance(self.warm) & (held >= 0), held, draw(max(kv_len, 1)))
        if self.steady:
            return ids
        ids = torch.where(chance(0.03), kv_len - 1 - draw(8), ids)
        gone = 0.3 if self.rng.random() < 0.3 else 0.02  # some queries shrink
        bad = torch.tensor(BAD_IDS, dtype=torch.int32)[draw(len(BAD_IDS)).long()]
        return torch.where(chance(gone), bad, ids)
