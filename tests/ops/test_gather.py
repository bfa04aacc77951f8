"""The fused gather's operators: native equals reference bit for bit, over many evolving steps."""

import random
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tierkv.constants import Counter, Kind
from tierkv.ops import REFERENCE
from tierkv.ops.reference.gather import arrange, match

_native = pytest.importorskip("tierkv._native")
PAGE = 16


def ints(*shape, fill=0, dtype=torch.int32):
    return torch.full(shape, fill, dtype=dtype)


def native(operator, *arguments):
    assert getattr(_native, operator)(1, *arguments), f"{operator} declined"


def reference(operator, *arguments):
    getattr(REFERENCE, operator)(*arguments)


class State:
    """Tables and buffers of one backend; they start as different garbage behind what is zero."""

    def __init__(self, world):
        self.id_at = ints(world.lanes, world.queries * world.top_k, fill=-1)
        self.row_of = ints(world.lanes, fill=-1)
        shape = (world.lanes, world.queries, world.top_k)
        self.buffer = [torch.full((*shape, width), 7, dtype=torch.uint8) for width in world.widths]
        self.filled = ints(world.lanes, world.queries, fill=world.top_k)
        self.counters = torch.zeros(len(Counter), dtype=torch.int64)


@dataclass
class World:
    """Random sizes, records, and steps on them."""

    seed: int

    def __post_init__(self):
        self.rng = rng = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        self.lanes, self.queries = rng.randint(1, 5), rng.randint(1, 4)
        self.top_k = rng.choice([1, 2, 3, 7, 31, 33, 64])
        self.pages = rng.randint(1, 6)
        self.widths = rng.choice([[32], [5, 3], [64]])
        rows = self.lanes * self.pages * PAGE
        self.backing = [self.draw(rows, width) for width in self.widths]
        self.stable = [0] * self.lanes

    def draw(self, *shape):
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=self.generator)

    def step(self):
        """Give a batch, ids and what was appended."""
        rng = self.rng
        rows, queries = rng.randint(1, self.lanes), rng.randint(1, self.queries)
        first_row = rng.randint(0, self.lanes - rows)
        lanes = rng.sample([*range(self.lanes), *[-1] * rows], rows)
        if rng.random() < 0.7:  # a batch that mostly stays as it is
            lanes = [lane if lane in lanes else -1 for lane in range(first_row, first_row + rows)]
        kv_len, q_len, stable = [], [], []
        for lane in lanes:
            low = min(self.stable[lane], self.pages * PAGE - 1) if lane >= 0 else 0
            kv_len.append(rng.randint(low, self.pages * PAGE))
            q_len.append(rng.randint(1, queries))
            stable.append(rng.randint(low, max(low, kv_len[-1] - q_len[-1])))
            if lane >= 0:
                self.stable[lane] = stable[-1]
        batch = [torch.tensor(x, dtype=torch.int32) for x in (lanes, kv_len, q_len, stable)]
        pages = [[max(lane, 0) * self.pages + p for p in range(self.pages)] for lane in lanes]
        table = torch.tensor(pages, dtype=torch.int32)
        table[torch.rand(table.shape, generator=self.generator) < 0.05] = -1
        ids = [[[self.id(n) for _ in range(self.top_k)] for _ in range(queries)] for n in kv_len]
        fresh = [self.draw(rows, queries, width) for width in self.widths]
        across = rng.random() < 0.5
        return torch.tensor(ids, dtype=torch.int32), [*batch, table, PAGE, first_row, across], fresh

    def id(self, kv_len):
        draw, few = self.rng.random(), max(1, min(kv_len, self.top_k + 3))
        if draw < 0.75:
            return self.rng.randrange(few)
        if draw < 0.9:
            return self.rng.randrange(max(kv_len, 1))
        return self.rng.choice([-1, -7, kv_len, 2**31 - 1, -(2**31), self.pages * PAGE])

    def run(self, call, state, step):
        """Plan, place and gather on one backend; give all that was written."""
        ids, batch, fresh = step
        lanes, first_row, (rows, queries, _) = batch[0], batch[6], ids.shape
        flat = (rows, queries * self.top_k)
        plan = [ints(*ids.shape, fill=9), ints(*ids.shape, dtype=torch.int8), ints(*ids.shape)]
        plan += [ints(rows, queries), ints(*flat), ints(*flat), ints(rows)]
        work = [ints(rows), ints(*flat), ints(rows)]
        call(
            "plan_gather", ids, *batch, state.id_at, state.row_of, *plan, *work, state.counters
        )  # fmt: skip
        out_ids, kind, index, length, _, miss_from, _ = plan
        placed = [ints(*flat), ints(rows)]
        call(
            "place_gather", lanes, out_ids, kind, miss_from, first_row, state.id_at, state.row_of,
            *placed, state.counters,
        )  # fmt: skip
        call(
            "gather", kind, index, length, *work, first_row, fresh, self.backing, state.buffer,
            state.filled,
        )  # fmt: skip
        tables = [state.id_at, state.row_of, state.filled, state.counters]
        return [*plan, *work, *placed, *tables, *state.buffer]


@given(st.integers(0, 10**6))
@settings(max_examples=120)
def test_native_equals_reference(seed):
    world = World(seed)
    states = State(world), State(world)
    for number in range(12):
        step = world.step()
        known, got = (
            world.run(call, state, step)
            for call, state in zip((reference, native), states, strict=True)
        )
        for place, (a, b) in enumerate(zip(known, got, strict=True)):
            assert torch.equal(a, b), (
                f"step {number}, output {place}: {b.tolist()}, not {a.tolist()}"
            )
        lane, start = number % world.lanes, world.rng.choice([0, 5])
        for state in states:  # as truncate and release do
            if number % 3 == 2:
                state.id_at[lane][state.id_at[lane] >= start] = -1


def test_rows_in_circles_and_chains_take_their_records_along():
    world = World(3)
    world.lanes, world.queries, world.top_k, world.widths = 5, 1, 4, [8]
    world.pages, world.backing = 4, [world.draw(5 * 4 * PAGE, 8)]
    for call in (reference, native):
        state = State(world)
        one = ints(5, fill=1)
        for lanes in ([0, 1, 2, 3, 4], [1, 2, 0, 4, 3], [3, 1, 2, 0, -1], [4, 3, 1, 0, 2]):
            table = torch.arange(20, dtype=torch.int32).view(5, 4)[lanes]
            batch = [torch.tensor(lanes, dtype=torch.int32), 40 * one, one, 39 * one]
            ids = ints(5, 1, 4) + torch.tensor([3, 9, 20, 30], dtype=torch.int32)
            fresh = [world.draw(5, 1, 8)]
            world.run(call, state, (ids, [*batch, table, PAGE, 0, False], fresh))
            rows = torch.tensor(lanes)[:, None] * 4 * PAGE + ids[:, 0]
            live = torch.tensor(lanes) >= 0
            assert torch.equal(state.buffer[0][live, 0], world.backing[0][rows[live].long()])
            assert not state.buffer[0][~live].any()
        assert state.counters[Counter.MISSES] == 20 + 4, "only the lane that was left out is cold"
        assert state.counters[Counter.MOVED] == 20 + 16 + 12


def test_the_nth_time_an_id_is_wanted_it_is_found_in_its_nth_place():
    held = torch.tensor([5, -1, 7, 5, 9, 5])
    found = match(torch.tensor([9, 5, -1, 5, 8, 5, 5]), held)
    assert found.tolist() == [4, 0, -1, 3, -1, 5, -1]


@pytest.mark.parametrize(
    ("found", "place"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([2, 0, 1], [2, 0, 1]),
        ([-1, -1, -1], [0, 1, 2]),
        ([5, -1, 1], [0, 2, 1]),  # the hole at 0 is closed first, by what lay behind
        ([4, 7, -1, 5], [2, 0, 3, 1]),  # the last of them first
    ],
)
def test_what_lies_behind_closes_holes_and_the_rest_is_new(found, place):
    assert arrange(torch.tensor(found)).tolist() == place


def test_a_plan_that_names_nothing_real_is_declined():
    world = World(5)
    state, step = State(world), world.step()
    ids, _, fresh = step
    world.run(native, state, step)
    rows, queries, top_k = ids.shape
    kind = ints(rows, queries, top_k, fill=Kind.MISS, dtype=torch.int8)
    work = [ints(rows), ints(rows, queries * top_k), ints(rows, fill=1)]
    for index in (-1, len(world.backing[0])):
        before = [part.clone() for part in state.buffer]
        indices = ints(rows, queries, top_k, fill=index)
        arguments = [kind, indices, ints(rows, queries), *work, 0, fresh, world.backing]
        assert not _native.gather(1, *arguments, state.buffer, state.filled)
        assert all(torch.equal(a, b) for a, b in zip(before, state.buffer, strict=True))
