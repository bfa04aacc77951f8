"""Random steps of a few requests: the inputs of planning and placement, by seed."""

import random
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops import REFERENCE

TOP_KS = (1, 31, 32, 33, 63, 64, 65, 128)
CORES = (1, 2, 5, 24, 48)
FARTHEST = 2**31 - 1


@dataclass(frozen=True)
class Sizes:
    """Shape of a group and its steps."""

    lanes: int = 2
    rows: int = 2
    queries: int = 2
    top_k: int = 64
    slots: int = 256
    ways: int = 16
    positions: int = 2048
    page: int = 128
    clock: bool = False
    hashing: int = 0
    wide: bool = False
    """Slots in 32 bits."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Sizes":
        """Anything small."""
        clock = rng.random() < 0.5
        slots = rng.choice((256, 320, 512))
        ways = rng.choice((16, 64, 1, 32) if clock else (16, 64, 1, 32, slots))
        return cls(
            lanes=rng.randint(1, 8),
            rows=rng.randint(1, 5),
            queries=rng.randint(1, 4),
            top_k=rng.choice(TOP_KS),
            slots=slots,
            ways=ways,
            positions=rng.choice((300, 1024, 4096)),
            page=rng.choice((16, 128, 256, 1024)),
            clock=clock,
            hashing=rng.randint(0, 1),
            wide=rng.random() < 0.5,
        )

    @property
    def entries(self) -> int:
        return self.queries * self.top_k

    @property
    def sets(self) -> int:
        return self.slots // self.ways


@dataclass
class Plan:
    """Outputs of planning, poisoned."""

    out_ids: Tensor
    kind: Tensor
    index: Tensor
    length: Tensor
    miss_id: Tensor
    miss_from: Tensor
    miss_count: Tensor

    @classmethod
    def empty(cls, rows: int, queries: int, top_k: int) -> "Plan":
        def new(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.full(shape, 77, dtype=dtype)

        each, all_ = (rows, queries, top_k), (rows, queries * top_k)
        kind = new(*each, dtype=torch.int8)
        return cls(
            new(*each), kind, new(*each), new(rows, queries), new(*all_), new(*all_), new(rows)
        )

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def placement(plan: Plan) -> dict[str, Tensor]:
    """Outputs of placement, poisoned."""
    like = {"slot": plan.miss_id, "count": plan.miss_count}
    return {name: torch.full_like(tensor, 77) for name, tensor in like.items()}


class Group:
    """Residency tables of some lanes, and batches that use them.

    1. ``step`` draws a batch with its selection: the inputs of planning but counters.
    2. ``plan`` plans it by the reference.
    3. ``place`` lets the reference place the plan, so that the next step finds warm tables.
    """

    def __init__(self, seed: int, sizes: Sizes) -> None:
        self.rng, self.sizes = random.Random(seed), sizes
        self.generator = torch.Generator().manual_seed(seed)
        s, slot = sizes, torch.int32 if sizes.wide else torch.int16
        self.tables = {
            "slot_of": torch.full((s.lanes, s.positions), -1, dtype=slot),
            "id_at": torch.full((s.lanes, s.slots), -1, dtype=torch.int32),
            "hand": torch.randint(0, s.ways, (s.lanes, s.sets), generator=self.generator).int(),
        }
        if s.clock:
            self.tables["visited"] = torch.zeros(s.lanes, s.sets, 1, dtype=torch.int64)
        self.counters = torch.randint(
            0, 2**40, (len(Counter),), dtype=torch.int64, generator=self.generator
        )
        self.kv_len = [self._context() for _ in range(s.lanes)]
        self.stable = [0] * s.lanes
        pages = -(-s.positions // s.page)
        self.pages = torch.randperm(s.lanes * pages, generator=self.generator).int()
        self.pages = self.pages.view(s.lanes, pages)
        self.pages[torch.rand(s.lanes, pages, generator=self.generator) < 0.1] = -1

    def _context(self) -> int:
        s = self.sizes
        some = (0, 1, 2, s.top_k - 1, s.top_k, s.top_k + 1, s.slots, s.slots + 1, s.positions)
        anywhere = self.rng.randint(0, s.positions)
        return min(self.rng.choice((anywhere, self.rng.choice(some))), s.positions)

    def step(self, local: float = 0.7) -> dict[str, Tensor]:
        """Draw a batch; `local` of the ids are likely resident."""
        s, rng = self.sizes, self.rng
        lanes = rng.sample(range(s.lanes), min(s.rows, s.lanes))
        lanes = [lane if rng.random() < 0.85 else -1 for lane in lanes]
        lanes += [-1] * (s.rows - len(lanes))
        rng.shuffle(lanes)
        q_len = [rng.choice((s.queries, rng.randint(1, s.queries))) for _ in lanes]
        for lane, live in zip(lanes, q_len, strict=True):
            self._grow(lane, live)
        kv_len = [self.kv_len[lane] for lane in lanes]
        ids = torch.stack([self._select(lane, local) for lane in lanes])
        return {
            "ids": ids,
            "lanes": torch.tensor(lanes, dtype=torch.int32),
            "kv_len": torch.tensor(kv_len, dtype=torch.int32),
            "q_len": torch.tensor(q_len, dtype=torch.int32),
            "stable": torch.tensor([self.stable[lane] for lane in lanes], dtype=torch.int32),
            "block_table": torch.stack([self.pages[lane] for lane in lanes]),
            "slot_of": self.tables["slot_of"],
        }

    def _grow(self, lane: int, live: int) -> None:
        least = self.stable[lane] + live if self.stable[lane] else 0
        grown = self.kv_len[lane] + self.rng.choice((0, 1, self.sizes.queries))
        self.kv_len[lane] = max(min(grown, self.sizes.positions), least)
        verified = max(self.kv_len[lane] - live, 0)
        if self.rng.random() < 0.3:  # drafts of steps before are still open
            verified = max(verified - self.rng.randint(0, 3), 0)
        self.stable[lane] = max(self.stable[lane], verified)

    def _select(self, lane: int, local: float) -> Tensor:
        """Likely hits, anything visible, what this step appended, and what is not to be served."""
        s, shape = self.sizes, (self.sizes.queries, self.sizes.top_k)
        end = max(self.kv_len[lane], 1)

        def draw(low: int, high: int) -> Tensor:
            return torch.randint(low, max(high, low + 1), shape, generator=self.generator).int()

        resident = self.tables["id_at"][lane]
        resident = resident[resident >= 0]
        known = resident[draw(0, len(resident)).long()] if len(resident) else draw(0, end)
        odd = torch.tensor([-1, -2, -(2**31), FARTHEST, FARTHEST - 9, s.positions, s.positions + 1])
        choices = torch.stack(
            [known, draw(0, end), draw(end - 2 * s.queries, end + 2), odd[draw(0, 7).long()].int(),
             draw(0, min(8, end))]
        )  # fmt: skip
        weight = [local, max(0.9 - local, 0.02), 0.04, 0.04, 0.02]
        weights = torch.tensor(weight if self.rng.random() < 0.8 else [0.0, 0.0, 0.0, 1.0, 0.0])
        which = torch.multinomial(weights, s.entries, True, generator=self.generator)
        return choices.flatten(1)[which, torch.arange(s.entries)].view(shape)

    def plan(self, step: dict[str, Tensor], counters: Tensor) -> Plan:
        """Plan by the reference; adds to `counters`."""
        plan = Plan.empty(*step["ids"].shape)
        names = ("ids", "lanes", "kv_len", "q_len", "stable", "block_table")
        table = [step[name] for name in names]
        REFERENCE.plan(*table, self.sizes.page, step["slot_of"], *plan.tensors.values(), counters)
        return plan

    def place(self, step: dict[str, Tensor], plan: Plan, counters: Tensor) -> dict[str, Tensor]:
        """Place by the reference, in the tables of this group; adds to `counters`."""
        placed = placement(plan)
        place = REFERENCE.place_clock if self.sizes.clock else REFERENCE.place_set_fifo
        place(
            step["lanes"], plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
            self.sizes.hashing, list(self.tables.values()), *placed.values(), counters,
        )  # fmt: skip
        return placed


def production(slots: int, clock: bool = True, wide: bool = False) -> Sizes:
    """Four lanes at 128K context."""
    return Sizes(
        lanes=4, rows=4, queries=4, top_k=2048, slots=slots, ways=64 if clock else 16,
        positions=128 * 1024, clock=clock, wide=wide,
    )  # fmt: skip


class SteadyGroup(Group):
    """Warm pools at full context: nine of ten ids of a query hit, drafts select nearly alike."""

    def __init__(self, seed: int, sizes: Sizes) -> None:
        super().__init__(seed, sizes)
        self.pages = self.pages.flatten().argsort().int().view(self.pages.shape)  # all mapped
        self.kv_len = [sizes.positions - 8] * sizes.lanes
        self.stable = [sizes.positions - 64] * sizes.lanes
        while bool((self.tables["id_at"] < 0).float().mean() > 0.02):
            step = self.step(0.0)
            self.place(step, self.plan(step, self.counters), self.counters)

    def step(self, local: float = 0.9) -> dict[str, Tensor]:
        s = self.sizes
        live = torch.arange(s.rows, dtype=torch.int32)
        return {
            "ids": torch.stack([self._select(lane, local) for lane in range(s.rows)]),
            "lanes": live,
            "kv_len": torch.tensor(self.kv_len, dtype=torch.int32),
            "q_len": torch.full((s.rows,), s.queries, dtype=torch.int32),
            "stable": torch.tensor(self.stable, dtype=torch.int32),
            "block_table": self.pages,
            "slot_of": self.tables["slot_of"],
        }

    def _select(self, lane: int, local: float) -> Tensor:
        s, slot_of = self.sizes, self.tables["slot_of"][lane, : self.stable[lane]]
        order = torch.randperm(len(slot_of), generator=self.generator)
        hits = round(local * s.top_k)
        shares = (hits, order[slot_of[order] >= 0]), (s.top_k - hits, order[slot_of[order] < 0])
        queries = []
        for q in range(s.queries):  # each replaces another eighth of what was selected first
            new = [count * q // 8 for count, _ in shares]
            ids = [each[: count - n] for n, (count, each) in zip(new, shares, strict=True)]
            ids += [each[count + q * n :][:n] for n, (count, each) in zip(new, shares, strict=True)]
            queries.append(torch.cat(ids)[torch.randperm(s.top_k, generator=self.generator)])
        return torch.stack(queries).int()
