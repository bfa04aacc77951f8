"""All operators of a step in turn, each on what the kernels before it left, over many steps."""

import random

import pytest
import torch
from gather_steps import World, ints
from group_steps import CORES, Group, Plan, Sizes, placement
from placing import attrs
from serving import bytes_of
from torch import Tensor

from tierkv.ops import REFERENCE

Tensors = dict[str, Tensor]
PLANNED = ("kind", "index", "miss_id", "miss_from", "miss_count")


def check(
    kernel, inputs: Tensors, outputs: Tensors, call: dict, cores: int, known: Tensors
) -> None:
    """Run a kernel; what it wrote is what the reference did."""
    report = kernel.run(inputs, outputs, call, cores)
    assert not report.faults, report.faults[:3]
    got = {**inputs, **outputs}
    assert not [name for name, tensor in known.items() if not torch.equal(got[name], tensor)]


class Twice:
    """A group's pool and tables, once for the reference and once for the kernels."""

    def __init__(self, seed: int, sizes: Sizes, width: int) -> None:
        self.group, self.sizes = Group(seed, sizes), sizes
        self.generator, self.rng = torch.Generator().manual_seed(seed), random.Random(seed)
        self.tables = {name: table.clone() for name, table in self.group.tables.items()}
        self.counters = self.group.counters.clone()
        self.pool = bytes_of(self.generator, sizes.lanes, sizes.slots, width)
        self.own_pool = self.pool.clone()
        rows = (int(self.group.pages.max()) + 1) * sizes.page
        self.backing = bytes_of(self.generator, max(rows, 1), width)
        self.out = torch.zeros(sizes.rows, sizes.queries, sizes.top_k, width, dtype=torch.uint8)

    def step(self, sim) -> None:
        group, cores = self.group, self.rng.choice(CORES)
        step = group.step(self.rng.choice((0.2, 0.7, 0.95)))
        self._make_odd(step)
        plan = group.plan(step, group.counters)
        own = Plan.empty(*step["ids"].shape)
        inputs = {**step, "slot_of": self.tables["slot_of"], "counters": self.counters}
        known = {**plan.tensors, "counters": group.counters}
        check(sim("dsa_plan"), inputs, own.tensors, {"page": self.sizes.page}, cores, known)

        placed, own_placed = group.place(step, plan, group.counters), placement(own)
        inputs = {"lanes": step["lanes"], **{name: getattr(own, name) for name in PLANNED}}
        inputs |= {**self.tables, "counters": self.counters}
        known = {**placed, **group.tables, "counters": group.counters}
        check(sim("dsa_commit"), inputs, own_placed, attrs(self.sizes), cores, known)
        self._move(sim, step["lanes"], (plan, placed), (own, own_placed), cores)

    def _make_odd(self, step: Tensors) -> None:
        """Now and then a batch of padding, a row without live queries, one id everywhere."""
        what, row = self.rng.randrange(8), self.rng.randrange(self.sizes.rows)
        if what == 0:
            step["lanes"][:] = -1
        elif what == 1:
            step["q_len"][row] = 0
        elif what == 2:
            step["ids"][row] = step["ids"][row, 0, 0]

    def _move(self, sim, lanes: Tensor, planned: tuple, own_planned: tuple, cores: int) -> None:
        (plan, placed), (own, own_placed) = planned, own_planned
        fresh = bytes_of(self.generator, *plan.length.shape, self.backing.shape[1])
        out = self.out.clone()
        rows = [fresh], [self.pool], [self.backing], [out]
        REFERENCE.serve(lanes, plan.kind, plan.index, *rows)
        inputs = {"lanes": lanes, "kind": own.kind, "index": own.index, "fresh": fresh}
        inputs |= {"pool": self.own_pool, "backing": self.backing}
        check(sim("dsa_serve"), inputs, {"out": self.out}, {}, cores, {"out": out})

        REFERENCE.install(
            lanes, plan.miss_from, plan.miss_count, placed["slot"], [out], [self.pool]
        )
        inputs = {"lanes": lanes, "miss_from": own.miss_from, "miss_count": own.miss_count}
        inputs |= {"slot": own_placed["slot"], "selection": self.out, "pool": self.own_pool}
        check(sim("dsa_install"), inputs, {}, {}, cores, {"pool": self.pool})


SIZES = {
    "one of all": Sizes(1, 1, 1, 1, 16, 16, 40, 16),
    "16 queries": Sizes(3, 3, 16, 33, 320, 16, 700, 32),
    "fifo of an odd size": Sizes(5, 4, 3, 64, 257, 257, 900, 128),
    "fifo smaller than a step": Sizes(2, 2, 4, 65, 7, 7, 500, 16, wide=True),
    "low bits": Sizes(4, 3, 2, 100, 48 * 3, 48, 5000, 1024, hashing=1),
    "clock": Sizes(6, 5, 4, 32, 64 * 5, 64, 2000, 64, clock=True),
    "clock of a way": Sizes(2, 2, 2, 31, 17, 1, 300, 16, clock=True, wide=True),
    "clock, low bits": Sizes(3, 2, 1, 129, 33 * 4, 33, 4096, 256, clock=True, hashing=1),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_group(sim, sizes):
    twice = Twice(sizes.top_k, sizes, 34)
    for _ in range(20):
        twice.step(sim)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 200, 20))
def test_a_group_at_length(sim, start):
    for seed in range(start, start + 20):
        rng = random.Random(seed)
        twice = Twice(seed, Sizes.draw(rng), rng.choice((2, 32, 34, 656)))
        for _ in range(20):
            twice.step(sim)


class TwoBuffers:
    """Selections that stay in their buffer, once by the reference and once by the kernels."""

    def __init__(self, seed: int, world: World, width: int) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        rows = 2 * world.rows * world.pages * world.page
        self.backing = bytes_of(self.generator, rows, width)
        shape = (world.lanes, world.most_queries, world.top_k, width)
        self.buffer, self.filled = bytes_of(self.generator, *shape), ints(*shape[:2], fill=shape[2])
        self.own = {"buffer": self.buffer.clone(), "filled": self.filled.clone()}
        self.state = {name: tensor.clone() for name, tensor in world.state.items()}

    def step(self, sim) -> None:
        world, cores, (inputs, across) = self.world, self.rng.choice(CORES), self.world.step()
        first_row = {"first_row": world.first_row}
        known, own = world.reference(inputs, across), world.outputs()
        call = {"page": world.page, **first_row, "across": across}
        check(sim("gather_selection_plan"), {**inputs, **self.state}, own, call, cores, known)

        names = ("kind", "index", "length", "source", "work", "work_count")
        fresh = bytes_of(self.generator, *world.shape[:2], self.backing.shape[1])
        REFERENCE.gather(
            *(known[name] for name in names), world.first_row, [fresh], [self.backing],
            [self.buffer], self.filled,
        )  # fmt: skip
        given = {**{name: own[name] for name in names}, "fresh": fresh, "backing": self.backing}
        written = {"buffer": self.buffer, "filled": self.filled}
        kernel = sim("gather_selection_kv_cache")
        check(kernel, {**given, **self.own}, {}, first_row, cores, written)

        world.place(inputs, known)
        placed = {"slot": ints(*own["miss_from"].shape), "count": ints(world.rows)}
        given = {"lanes": inputs["lanes"], "ids": own["out_ids"], "kind": own["kind"]}
        given |= {"miss_from": own["miss_from"], **self.state}
        check(sim("gather_selection_place"), given, placed, first_row, cores, world.state)


@pytest.mark.parametrize("seed", range(8))
def test_a_fused_gather(sim, seed):
    given = {"queries": 16, "top_k": 33} if seed == 0 else {}
    both = TwoBuffers(seed, World(seed, **given), (34, 128, 2, 656)[seed % 4])
    for _ in range(12):
        both.step(sim)
