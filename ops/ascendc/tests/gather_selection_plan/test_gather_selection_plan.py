"""GatherSelectionPlan equals ``plan_gather``, bit for bit, without a fault in the model.

Steps follow each other: GatherSelectionPlace, or its reference, notes what lies where.
"""

import random

import pytest
import torch
from hostsim import RefusedError

from tierkv.constants import Counter
from tierkv.ops import REFERENCE

OPERATOR = "gather_selection_plan"
CORES = (1, 2, 5, 24, 48)
SMALL_K = (1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 100)
BIG = 2**31 - 1


def ints(*shape, fill=0, dtype=torch.int32):
    return torch.full(shape, fill, dtype=dtype)


class World:
    """Lanes that grow, shrink and change rows, and what they select.

    Parameters
    ----------
    fresh
        Share of a query's ids that the step before did not have.
    odd, twice
        Shares of ids that are no positions, or repeat another of the query.
    shuffled
        Whether lanes change rows now and then.
    settled
        Whether lanes keep one length, all pages are there, and what is selected is stable.
    """

    def __init__(self, seed, **given):
        self.rng = rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

        def choose(name, values):
            value = rng.choice(values)
            return given.get(name, value)

        self.lanes = choose("lanes", range(1, 9))
        self.rows = choose("rows", range(1, self.lanes + 1))
        self.most_queries = max(choose("most_queries", range(1, 5)), given.get("queries", 1))
        self.queries = choose("queries", range(1, self.most_queries + 1))
        self.top_k = choose("top_k", SMALL_K)
        self.page = choose("page", (16, 128, 256))
        self.pages = choose("pages", range(1, 5))
        self.fresh = choose("fresh", (0.0, 0.1, 0.5, 1.0))
        self.odd = choose("odd", (0.0, 0.02, 0.2))
        self.twice = choose("twice", (0.0, 0.0, 0.1, 0.5))
        self.shuffled = choose("shuffled", (False, True))
        self.settled = given.get("settled", False)
        self.context = self.page * self.pages
        self.first_row = rng.randint(0, self.lanes - self.rows)
        self.stable = [0] * self.lanes
        self.last = torch.full((self.lanes, self.queries, self.top_k), -1, dtype=torch.int32)
        places = (self.lanes, self.most_queries * self.top_k)
        self.state = {
            "id_at": ints(*places, fill=-1),
            "row_of": ints(self.lanes, fill=-1),
            "counters": torch.arange(len(Counter), dtype=torch.int64) << 40,
        }

    @property
    def shape(self):
        return self.rows, self.queries, self.top_k

    def draw(self, low, high, *shape):
        return torch.randint(low, high, shape, dtype=torch.int32, generator=self.generator)

    def chance(self, share, *shape):
        return torch.rand(shape, generator=self.generator) < share

    def step(self):
        """Give the inputs of one step, and `across`."""
        lanes = list(range(self.first_row, self.first_row + self.rows))
        if self.shuffled and self.rng.random() < 0.6:
            lanes = self.rng.sample([*range(self.lanes), *[-1] * self.rows], self.rows)
        kv_len, q_len, stable = [], [], []
        for lane in lanes:
            low = min(self.stable[max(lane, 0)], self.context - 1)
            kv_len.append(
                self.rng.choice([low, low + 1, self.rng.randint(low, self.context), self.context])
            )
            q_len.append(self.rng.randint(1, self.queries))
            stable.append(self.rng.randint(low, max(low, kv_len[-1] - q_len[-1])))
            if self.settled:
                kv_len[-1], q_len[-1] = self.context, self.queries
                stable[-1] = self.context - self.queries
            if lane >= 0:
                self.stable[lane] = stable[-1]
        pages = self.draw(0, 2 * self.rows * self.pages, self.rows, self.pages)
        pages[self.chance(0.0 if self.settled else 0.05, *pages.shape)] = -1
        batch = (torch.tensor(x, dtype=torch.int32) for x in (lanes, kv_len, q_len, stable))
        names = ("lanes", "kv_len", "q_len", "stable")
        inputs = {"ids": self.ids(lanes, kv_len), **dict(zip(names, batch, strict=True))}
        return {**inputs, "block_table": pages}, self.rng.random() < 0.5

    def ids(self, lanes, kv_len):
        ids = torch.empty(self.shape, dtype=torch.int32)
        for row, (lane, length) in enumerate(zip(lanes, kv_len, strict=True)):
            drawn = self.selection(max(length - self.settled * self.queries, 1))
            keep = ~self.chance(self.fresh, *drawn.shape) & (self.last[lane] >= 0)
            ids[row] = torch.where(keep, self.last[lane], drawn)
            order = torch.rand(ids[row].shape, generator=self.generator).argsort(-1)
            self.last[lane] = ids[row] = ids[row].gather(-1, order)
        strange = torch.tensor([-1, -7, -(2**31), BIG, BIG - 1, self.context, self.context - 1])
        odd = strange[self.draw(0, len(strange), *self.shape).long()].int()
        ids = torch.where(self.chance(self.odd, *self.shape), odd, ids)
        again = ids.gather(-1, self.draw(0, self.top_k, *self.shape).long())
        return torch.where(self.chance(self.twice, *self.shape), again, ids)

    def selection(self, length):
        """Draw ids below `length`, most of them once."""
        shape = (self.queries, self.top_k)
        if length < self.top_k:
            return self.draw(0, length + 2, *shape)
        return torch.stack(
            [
                torch.randperm(length, generator=self.generator)[: self.top_k]
                for _ in range(shape[0])
            ]
        ).int()

    def outputs(self):
        flat = (self.rows, self.queries * self.top_k)
        return {
            "out_ids": ints(*self.shape),
            "kind": ints(*self.shape, dtype=torch.int8),
            "index": ints(*self.shape),
            "length": ints(self.rows, self.queries),
            "miss_id": ints(*flat),
            "miss_from": ints(*flat),
            "miss_count": ints(self.rows),
            "source": ints(self.rows),
            "work": ints(*flat),
            "work_count": ints(self.rows),
        }

    def reference(self, inputs, across):
        out, state = self.outputs(), self.state
        REFERENCE.plan_gather(
            *inputs.values(), self.page, self.first_row, across, state["id_at"], state["row_of"],
            *out.values(), state["counters"],
        )  # fmt: skip
        return {**out, "counters": state["counters"]}

    def place(self, inputs, plan):
        """Let the plan's places be known to the next step."""
        flat = (self.rows, self.queries * self.top_k)
        names = ("out_ids", "kind", "miss_from")
        REFERENCE.place_gather(
            inputs["lanes"], *(plan[name] for name in names), self.first_row, self.state["id_at"],
            self.state["row_of"], ints(*flat), ints(self.rows), self.state["counters"],
        )  # fmt: skip

    def forget(self, step):
        """Truncate a lane, as requests do between steps."""
        lane, start = step % self.lanes, self.rng.choice([0, 5])
        held = self.state["id_at"][lane]
        held[held >= start] = -1


def run(kernel, world, inputs, across, state, **options):
    out = world.outputs()
    attrs = {"page": world.page, "first_row": world.first_row, "across": across}
    report = kernel.run({**inputs, **state}, out, attrs, **options)
    return report, {**out, "counters": state["counters"]}


def check(kernel, world, steps, **options):
    """Run some steps; gives the largest peak of UB."""
    peak = 0
    for step in range(steps):
        inputs, across = world.step()
        state = {name: tensor.clone() for name, tensor in world.state.items()}
        report, got = run(kernel, world, inputs, across, state, **options)
        assert not report.faults, f"step {step}: {report.faults[0]}"
        known = world.reference(inputs, across)
        for name, wanted in known.items():
            assert torch.equal(got[name], wanted), (
                f"step {step}: {name}\n{got[name].tolist()}\nnot\n{wanted.tolist()}"
            )
        world.place(inputs, known)
        if step % 3 == 2:
            world.forget(step)
        peak = max(peak, report.ub_peak)
    assert peak < 192 * 1024
    return peak


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_reference(sim, seed):
    check(sim(OPERATOR), World(seed), steps=5, cores=CORES[seed % len(CORES)])


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_equals_the_reference_at_length(sim, start):
    for seed in range(start, start + 100):
        check(sim(OPERATOR), World(seed), steps=6, cores=CORES[seed % len(CORES)])


CASES = {
    "one of all": {"lanes": 1, "rows": 1, "most_queries": 1, "queries": 1, "top_k": 1},
    "128K, four queries": {
        "lanes": 2, "rows": 2, "most_queries": 4, "queries": 4, "top_k": 2048, "page": 128,
        "pages": 1024, "fresh": 0.1, "odd": 0.0, "twice": 0.0,
    },
    "lanes that move": {
        "lanes": 8, "rows": 8, "most_queries": 2, "queries": 1, "top_k": 512, "page": 256,
        "pages": 64, "fresh": 0.1, "shuffled": True,
    },
    "16 queries": {"lanes": 2, "rows": 2, "most_queries": 16, "queries": 16, "top_k": 65},
    "a block table of several tiles": {
        "lanes": 2, "rows": 2, "queries": 1, "top_k": 96, "page": 16, "pages": 9000,
    },
    "the same few ids again and again": {
        "lanes": 2, "rows": 2, "queries": 2, "top_k": 300, "page": 16, "pages": 1, "fresh": 0.3,
    },
    "nothing but odd ids": {"lanes": 3, "rows": 3, "queries": 2, "odd": 1.0, "twice": 0.0},
    "a new selection each step": {"lanes": 3, "top_k": 64, "pages": 40, "fresh": 1.0, "odd": 0.0},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("cores", [3, 48])
def test_edges(sim, case, cores):
    check(sim(OPERATOR), World(11, **case), steps=3, cores=cores)


SETTLED = {
    "lanes": 3, "rows": 3, "top_k": 33, "pages": 8, "fresh": 0.0, "odd": 0.0, "twice": 0.0,
    "shuffled": False, "settled": True,
}  # fmt: skip


def test_the_same_selection_leaves_nothing_to_do(sim):
    kernel, world = sim(OPERATOR), World(6, **SETTLED)
    for step in range(3):
        inputs, across = world.step()
        state = {name: tensor.clone() for name, tensor in world.state.items()}
        report, got = run(kernel, world, inputs, across, state, cores=5)
        assert not report.faults
        assert got["work_count"].any() == (step == 0)
        world.place(inputs, world.reference(inputs, across))


def test_both_operators_in_turn(sim):
    """The steps that the tables take are GatherSelectionPlace's."""
    plan, place = sim(OPERATOR), sim("gather_selection_place")
    for seed in range(4):
        world = World(seed, shuffled=True, top_k=33, queries=2, most_queries=3)
        state = {name: tensor.clone() for name, tensor in world.state.items()}
        for _ in range(4):
            inputs, across = world.step()
            report, got = run(plan, world, inputs, across, state, cores=3)
            assert not report.faults
            placed = {"slot": ints(*got["miss_from"].shape), "count": ints(world.rows)}
            given = {"lanes": inputs["lanes"], "ids": got["out_ids"], "kind": got["kind"]}
            given |= {"miss_from": got["miss_from"], **state}
            assert not place.run(given, placed, {"first_row": world.first_row}, cores=3).faults
            world.place(inputs, world.reference(inputs, across))
            for name, wanted in world.state.items():
                assert torch.equal(state[name], wanted), name


MUTATED = [
    (1, {"lanes": 3, "rows": 3, "queries": 2, "most_queries": 3, "top_k": 40, "pages": 6}),
    (2, {"lanes": 5, "rows": 5, "queries": 3, "top_k": 70, "pages": 40, "twice": 0.5}),
    (1, {"lanes": 2, "rows": 2, "queries": 1, "top_k": 64, "pages": 5000, "odd": 0.2}),
    (3, {"lanes": 2, "rows": 2, "queries": 4, "top_k": 600, "pages": 50, "fresh": 0.3}),
    (1, {"lanes": 2, "rows": 2, "queries": 3, "top_k": 3, "pages": 2, "odd": 0.9}),
    (1, {"lanes": 4, "rows": 4, "queries": 2, "top_k": 100, "pages": 1, "fresh": 0.3}),
]
"""Cores and worlds whose runs need every sync statement."""


def recorded(seed, cores, given):
    world = World(seed, page=16, **given)
    for _ in range(4):
        inputs, across = world.step()
        yield world, inputs, across, {k: v.clone() for k, v in world.state.items()}, cores
        world.place(inputs, world.reference(inputs, across))


def test_every_sync_is_needed(sim):
    """Those in files shared with DsaPlan are its tests' concern."""
    kernel = sim(OPERATOR)
    runs = [r for seed, (cores, given) in enumerate(MUTATED) for r in recorded(seed, cores, given)]

    def fault(skip):
        for world, inputs, across, state, cores in runs:
            copy = {name: tensor.clone() for name, tensor in state.items()}
            options = {"cores": cores, "skip": skip, "stop_at_first": True}
            report, _ = run(kernel, world, inputs, across, copy, **options)
            if report.faults:
                return report.faults[0]
        return None

    assert fault(None) is None
    own = [
        site
        for site in kernel.sync_sites
        if "gather_selection" in site[0] or "backing_rows" in site[0]
    ]
    assert len(own) > 50
    assert not [site for site in own if fault(site) is None]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("ids", ints(2, 17, 3), "ids: must have 1 to 16 queries, got 17"),
        ("ids", ints(2, 1, 2049), "ids: must have 1 to 2048 entries a query, got 2049"),
        ("ids", ints(2, 5, 2000), "ids: must have at most 8192 entries a row, got 10000"),
        ("lanes", ints(3), "lanes: must be [2]"),
        ("kv_len", ints(2, 1), "kv_len: must be [2]"),
        ("q_len", ints(1), "q_len: must be [2]"),
        ("stable", ints(3), "stable: must be [2]"),
        ("block_table", ints(3, 4), "block_table: must be [2, pages]"),
        ("block_table", ints(2, 0), "block_table: must be [2, pages], at least one page"),
        ("id_at", ints(5, 11), "id_at: must be [lanes, at least 12]"),
        ("id_at", ints(5, 8193), "id_at: must have at most 8192 places a lane, got 8193"),
        ("row_of", ints(4), "row_of: must be [5]"),
        ("counters", ints(3, dtype=torch.int64), "counters: must be [14]"),
        ("page", 48, "page: must be a power of two from 16 to 1024, got 48"),
        ("page", 2048, "page: must be a power of two from 16 to 1024, got 2048"),
        ("first_row", -1, "first_row: must not be negative, got -1"),
    ],
)
def test_refusals_name_the_argument(sim, name, value, what):
    world = World(3, lanes=5, rows=2, queries=3, most_queries=3, top_k=4)
    inputs, across = world.step()
    attrs = {"page": 16, "first_row": 0, "across": across}
    inputs = {**inputs, **world.state}
    sim(OPERATOR).tile(inputs, attrs)
    (attrs if name in attrs else inputs)[name] = value
    with pytest.raises(RefusedError) as error:
        sim(OPERATOR).tile(inputs, attrs)
    assert what in str(error.value)


def test_work_is_shared(sim):
    world = World(5, lanes=8, rows=8, queries=2, most_queries=2, top_k=2048)
    inputs, across = world.step()
    attrs = {"page": world.page, "first_row": world.first_row, "across": across}
    for cores, blocks in ((1, 1), (5, 5), (24, 24), (48, 48)):
        tiling = sim(OPERATOR).tile({**inputs, **world.state}, attrs, cores)
        assert tiling.blocks == blocks
        assert tiling.together
        assert tiling.fields["queryEach"] * blocks + tiling.fields["queryMore"] == 16
