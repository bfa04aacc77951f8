"""GatherSelectionPlace equals ``place_gather``, bit for bit, without a fault in the model."""

import random

import pytest
import torch
from hostsim import RefusedError
from mutation import unreported

from tierkv.constants import Counter, Kind
from tierkv.ops import REFERENCE

OPERATOR = "gather_selection_place"
EDGE_CASES = [
    {"rows": 1, "queries": 1, "top_k": 1, "lanes": 1, "extra": 0},
    {"rows": 1, "queries": 4, "top_k": 2048, "lanes": 3, "extra": 0},
    {"rows": 6, "queries": 1, "top_k": 2048, "lanes": 6, "extra": 3},
    {"rows": 8, "queries": 2, "top_k": 65, "lanes": 8, "extra": 1},
]


def ints(*shape, fill=0, dtype=torch.int32):
    return torch.full(shape, fill, dtype=dtype)


class World:
    """Random tables, and a plan that need not make sense."""

    def __init__(self, seed, rows=None, queries=None, top_k=None, lanes=None, extra=None):
        self.rng = rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.lanes = lanes or rng.randint(1, 9)
        self.rows = rows or rng.randint(1, self.lanes)
        self.queries = queries or rng.randint(1, 4)
        self.top_k = top_k or rng.choice([1, 2, 3, 7, 31, 32, 33, 64, 100])
        self.entries = self.queries * self.top_k
        extra = rng.randint(0, 2) if extra is None else extra
        self.places = (self.queries + extra) * self.top_k
        self.first_row = rng.randint(0, 3)
        self.state = {
            "id_at": self.draw(-1, 500, self.lanes, self.places),
            "row_of": torch.tensor(self.rows_of_lanes(), dtype=torch.int32),
            "counters": self.draw(0, 99, len(Counter)).long(),
        }

    def draw(self, low, high, *shape):
        return torch.randint(low, high, shape, dtype=torch.int32, generator=self.generator)

    def rows_of_lanes(self):
        rows = self.rng.sample(range(self.first_row + self.lanes + 6), self.lanes)
        return [row if self.rng.random() < 0.8 else -1 for row in rows]

    def batch(self):
        lanes = self.rng.sample([*range(self.lanes), *[-1] * self.rows], self.rows)
        flat = (self.rows, self.entries)
        miss_from, counts = ints(*flat, fill=-1), self.draw(0, self.entries + 1, self.rows)
        for row, count in enumerate(counts.tolist()):
            chosen = torch.randperm(self.entries, generator=self.generator)[:count]
            miss_from[row, :count] = chosen.sort().values.int()
        shape = (self.rows, self.queries, self.top_k)
        return {
            "lanes": torch.tensor(lanes, dtype=torch.int32),
            "ids": self.draw(-1, 10**6, *shape),
            "kind": self.draw(0, len(Kind), *shape).to(torch.int8),
            "miss_from": miss_from,
        }

    def outputs(self):
        return {"slot": ints(self.rows, self.entries), "count": ints(self.rows)}


def run(kernel, world, batch, state, **options):
    out = world.outputs()
    attrs = {"first_row": world.first_row}
    return kernel.run({**batch, **state}, out, attrs, **options), {**out, **state}


def check(kernel, world, steps, **options):
    """Run some steps on both sides; the tables go on from step to step."""
    ours = {name: tensor.clone() for name, tensor in world.state.items()}
    for step in range(steps):
        batch = world.batch()
        report, got = run(kernel, world, batch, ours, **options)
        assert not report.faults, report.faults
        state, out = world.state, world.outputs()
        REFERENCE.place_gather(
            *batch.values(), world.first_row, state["id_at"], state["row_of"], *out.values(),
            state["counters"],
        )  # fmt: skip
        for name, wanted in {**out, **state}.items():
            assert torch.equal(got[name], wanted), f"step {step}: {name}"
        assert report.ub_peak < 192 * 1024


@pytest.mark.parametrize("cores", [1, 2, 5, 24, 48])
@pytest.mark.parametrize("seed", range(12))
def test_equals_the_reference(sim, seed, cores):
    check(sim(OPERATOR), World(seed), steps=3, cores=cores)


@pytest.mark.parametrize("case", EDGE_CASES, ids=str)
def test_edges(sim, case):
    check(sim(OPERATOR), World(7, **case), steps=2, cores=3)


def test_every_sync_is_needed(sim):
    kernel = sim(OPERATOR)

    def without(seed, cores):
        world = World(seed, rows=5, lanes=9, queries=2, top_k=33, extra=1)
        batch = world.batch()

        def run_again(site):
            state = {name: tensor.clone() for name, tensor in world.state.items()}
            return run(kernel, world, batch, state, cores=cores, skip=site)[0].faults

        return run_again

    assert unreported(kernel, [without(1, 2), without(2, 3)]) == []


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("ids", ints(2, 17, 3), "ids: must have 1 to 16 queries, got 17"),
        ("ids", ints(2, 1, 2049), "ids: must have 1 to 2048 entries a query, got 2049"),
        ("kind", ints(2, 3, 5, dtype=torch.int8), "kind: must be [2, 3, 4]"),
        ("lanes", ints(3), "lanes: must be [2]"),
        ("miss_from", ints(2, 11), "miss_from: must be [2, 12]"),
        ("id_at", ints(5, 11), "id_at: must be [lanes, at least 12]"),
        ("id_at", ints(5, 8193), "id_at: must have at most 8192 places a lane, got 8193"),
        ("row_of", ints(4), "row_of: must be [5]"),
        ("counters", ints(3, dtype=torch.int64), "counters: must be [14]"),
    ],
)
def test_refusals_name_the_argument(sim, name, value, what):
    kernel = sim(OPERATOR)
    world = World(3, rows=2, queries=3, top_k=4, lanes=5, extra=0)
    inputs = {**world.batch(), **world.state}
    kernel.tile(inputs, {"first_row": 0})
    with pytest.raises(RefusedError) as error:
        kernel.tile({**inputs, name: value}, {"first_row": 0})
    assert what in str(error.value)


def test_a_first_row_before_the_buffer(sim):
    world = World(3)
    with pytest.raises(RefusedError, match="first_row: must not be negative, got -1"):
        sim(OPERATOR).tile({**world.batch(), **world.state}, {"first_row": -1})


def test_more_lanes_than_fit(sim):
    kernel = sim(OPERATOR)
    for lanes, fits in ((7800, True), (8000, False)):
        world = World(4, rows=1, lanes=lanes, queries=4, top_k=2048, extra=0)
        if fits:
            check(kernel, world, steps=1, cores=2)
            continue
        with pytest.raises(RefusedError, match="row_of: 8000 lanes and 1 rows are too many"):
            kernel.tile({**world.batch(), **world.state}, {"first_row": 0})


def test_work_is_shared(sim):
    kernel = sim(OPERATOR)
    world = World(5, rows=8, lanes=8, queries=1, top_k=64, extra=0)
    inputs = {**world.batch(), **world.state}
    for cores, blocks in ((1, 1), (5, 5), (48, 8)):
        tiling = kernel.tile(inputs, {"first_row": 0}, cores)
        assert tiling.blocks == blocks
        assert tiling.fields["rowEach"] * blocks + tiling.fields["rowMore"] == 8
