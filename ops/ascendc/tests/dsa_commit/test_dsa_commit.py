"""DsaCommit equals the reference bit for bit, for any shape, tables and number of cores."""

import random
from dataclasses import replace

import pytest
import torch
from group_steps import CORES, Group, Sizes, SteadyGroup, placement, production
from hostsim import Fault, Kernel, Report
from mutation import unreported
from placing import arguments, attrs
from torch import Tensor

from tierkv.constants import Counter

UB = 192 * 1024
SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, positions=1000)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_commit")


def check(kernel: Kernel, group: Group, step: dict[str, Tensor], cores: int) -> tuple[dict, Report]:
    """Place with both and compare; the group keeps the tables."""
    plan = group.plan(step, group.counters)
    got, tables, counters = placement(plan), arguments(group, step, plan), group.counters.clone()
    known = group.place(step, plan, counters)
    report = kernel.run(tables, got, attrs(group.sizes), cores)
    assert not report.faults, report.faults[:3]
    wanted = {**known, **group.tables, "counters": counters}
    got |= tables
    assert not [name for name, tensor in wanted.items() if not torch.equal(tensor, got[name])]
    group.counters = counters
    return known, report


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_reference(kernel, seed):
    rng = random.Random(seed)
    group = Group(seed, Sizes.draw(rng))
    for _ in range(4):
        check(kernel, group, group.step(rng.choice((0.2, 0.7, 0.9))), rng.choice(CORES))


@pytest.mark.parametrize("ways", [1, 2, 16, 33, 63, 64])
@pytest.mark.parametrize("hashing", [0, 1])
@pytest.mark.parametrize("clock", [False, True])
def test_ways_and_hashes(kernel, ways, hashing, clock):
    slots = ways * max(320 // ways, 3)
    sizes = replace(SMALL, ways=ways, slots=slots, hashing=hashing, clock=clock, positions=5000)
    group = Group(ways, sizes)
    for cores in (1, 5, 48):
        check(kernel, group, group.step(), cores)


@pytest.mark.parametrize("slots", [256, 8192, 16384])
@pytest.mark.parametrize("wide", [False, True])
def test_fifo_is_one_set(kernel, slots, wide):
    sizes = Sizes(2, 2, 4, 512, slots, slots, 30000, wide=wide)
    group = Group(slots, sizes)
    for cores in (48, 1):
        _, report = check(kernel, group, group.step(), cores)
        assert report.ub_peak < UB


@pytest.mark.parametrize("slots", [8192, 16384])
@pytest.mark.parametrize("clock", [False, True])
def test_production(kernel, slots, clock):
    group = SteadyGroup(slots, production(slots, clock))
    step = group.step()
    placed, report = check(kernel, group, step, 48)
    assert report.ub_peak < UB
    assert bool((placed["count"] > 200).all())
    assert max(cost.ub_scalar for cost in report.costs) < (2000 if clock else 500)


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("cores", [1, 48])
def test_cold_pool(kernel, clock, cores):
    """As many misses as a step can have."""
    group = Group(1, Sizes(1, 1, 4, 2048, 8192, 64 if clock else 16, 131072, clock=clock))
    group.pages = group.pages.flatten().argsort().int().view(group.pages.shape)
    group.kv_len = [131000]
    step = group.step(0.0)
    step["lanes"][:] = 0
    step["ids"] = torch.randperm(120000)[:8192].view(1, 4, 2048).int()
    placed, report = check(kernel, group, step, cores)
    assert placed["count"].item() > 5000
    assert report.ub_peak < UB


def crowded(clock: bool, hashing: int) -> tuple[Group, dict[str, Tensor]]:
    """One set of few ways gets all misses of a step."""
    group = Group(2, replace(SMALL, lanes=1, rows=1, ways=4, hashing=hashing, clock=clock))
    group.pages = group.pages.abs()
    group.kv_len = [1000]
    step = group.step()
    step["lanes"][:] = 0
    return group, step


@pytest.mark.parametrize("clock", [False, True])
def test_more_misses_than_ways(kernel, clock):
    group, step = crowded(clock, 1)  # 64 sets: these ids are of one
    step["ids"] = (torch.arange(80).view(1, 2, 40) * 64 % 960).int()
    before = group.counters[Counter.SUPERSEDED].item()
    placed, _ = check(kernel, group, step, 2)
    assert placed["count"].item() == 4
    assert group.counters[Counter.SUPERSEDED].item() - before == 11


@pytest.mark.parametrize("clock", [False, True])
def test_a_victim_that_this_step_hits(kernel, clock):
    group, step = crowded(clock, 1)
    step["ids"] = torch.tensor([0, 64, 128, 192]).repeat(20).view(1, 2, 40).int()
    check(kernel, group, step, 2)
    step["ids"] = torch.tensor([0, 64, 128, 192, 256]).repeat(16).view(1, 2, 40).int()
    check(kernel, group, {**step, "slot_of": group.tables["slot_of"]}, 2)
    assert int((group.tables["id_at"] >= 0).sum()) == 4


@pytest.mark.parametrize("stride", [16, 64, 1024])
@pytest.mark.parametrize("hashing", [0, 1])
def test_ids_with_a_stride(kernel, stride, hashing):
    sizes = Sizes(1, 1, 1, 64, 320, 16, 70000, clock=True, hashing=hashing)
    group = Group(0, sizes)
    group.pages = group.pages.abs()
    group.kv_len = [70000]
    for turn in range(3):
        step = group.step()
        step["lanes"][:] = 0
        step["ids"] = ((torch.arange(64) + 40 * turn) * stride).view(1, 1, 64).int()
        check(kernel, group, step, 5)


@pytest.mark.parametrize("hashing", [0, 1])
@pytest.mark.parametrize("sets", [1, 3, 1000, 16384])
def test_sets_of_far_ids(kernel, hashing, sets):
    """Up to the last position that is served: a remainder by float32 is exact there."""
    last = 1 << 24
    sizes = Sizes(1, 1, 1, 512, sets * (16384 // sets), 16384 // sets, last, 1024, False, hashing)
    group = Group(0, sizes)
    group.pages = group.pages.abs()
    group.kv_len, group.stable = [last], [last]
    step = group.step()
    step["lanes"][:] = 0
    step["stable"][:] = last - 1
    multiples = torch.arange(1, 257) * (last // 257 // sets * sets)
    step["ids"] = torch.cat([multiples, multiples - 1]).view(1, 1, 512).int()
    check(kernel, group, step, 24)


def test_padding_rows_change_nothing(kernel):
    group = Group(4, SMALL)
    check(kernel, group, group.step(), 5)
    step = group.step()
    step["lanes"][:] = -1
    before = group.counters.clone()
    before[Counter.STEPS] += 1
    placed, _ = check(kernel, group, step, 5)
    assert torch.equal(group.counters, before)
    assert not placed["count"].any()
    assert bool((placed["slot"] == -1).all())


@pytest.mark.parametrize("clock", [False, True])
def test_a_fixed_point(kernel, clock):
    group, step = crowded(clock, 0)
    step["ids"] = torch.arange(80).view(1, 2, 40).int() % 30
    for _ in range(3):
        check(kernel, group, {**step, "slot_of": group.tables["slot_of"]}, 2)
    tables = {name: table.clone() for name, table in group.tables.items()}
    check(kernel, group, {**step, "slot_of": group.tables["slot_of"]}, 2)
    assert all(torch.equal(table, tables[name]) for name, table in group.tables.items())


@pytest.mark.parametrize("clock", [False, True])
def test_all_hits(kernel, clock):
    """Units without a miss follow each other on a core."""
    group = Group(5, replace(SMALL, slots=64, ways=32, clock=clock))
    group.pages = group.pages.abs()
    group.kv_len, group.stable = [900] * 3, [800] * 3
    step = group.step()
    step["lanes"] = torch.arange(3, dtype=torch.int32)
    step["ids"] = torch.arange(80).view(1, 2, 40).repeat(3, 1, 1).int() % 20
    for cores in (5, 1, 1):
        _, _ = check(kernel, group, {**step, "slot_of": group.tables["slot_of"]}, cores)


def test_many_rows(kernel):
    group = Group(9, Sizes(60, 60, 2, 33, positions=700, clock=True))
    for cores in (48, 5):
        check(kernel, group, group.step(), cores)


def test_offsets_past_4_gib(kernel):
    """The last lane of a table of 4.3 GB; of the other lanes hardly a page of memory is touched."""
    group = Group(0, replace(SMALL, lanes=1, rows=1, wide=True))
    step = group.step()
    step["lanes"][:] = 0
    plan = group.plan(step, group.counters)
    inputs, got = arguments(group, step, plan), placement(plan)
    known = group.place(step, plan, group.counters)
    wide = {"slot_of": torch.empty(65, 1 << 24, dtype=torch.int32), "lanes": step["lanes"] + 64}
    wide |= {name: inputs[name].repeat(65, 1) for name in ("id_at", "hand")}
    wide["slot_of"][64, :1000] = inputs["slot_of"][0]
    report = kernel.run(inputs | wide, got, attrs(group.sizes), 5)
    assert not report.faults
    assert torch.equal(wide["slot_of"][64, :1000], group.tables["slot_of"][0])
    assert torch.equal(wide["id_at"][64], group.tables["id_at"][0])
    assert all(torch.equal(known[name], got[name]) for name in known)


MUTATION = (
    (SMALL, 24, 2),
    (Sizes(3, 3, 2, 2048, 16, 16, 100000, 16), 2, 1),
    (Sizes(3, 3, 2, 2048, 4096, 64, 100000, 16, clock=True), 2, 1),
    (Sizes(4, 3, 4, 700, 512, 64, 100000, 16, clock=True), 2, 3),
    (Sizes(4, 4, 3, 65, 16384, 16384, 4000, 16, hashing=1), 1, 3),
    (Sizes(4, 4, 4, 2048, 8192, 64, 100000, 16, clock=True), 3, 3),
)


def test_every_sync_statement_is_needed(kernel):
    def without(sizes: Sizes, cores: int, steps: int):
        group = Group(3, sizes)
        group.kv_len = [sizes.positions - 9] * sizes.lanes
        for _ in range(steps):
            step = group.step()
            plan = group.plan(step, group.counters)
            inputs = arguments(group, step, plan)
            group.place(step, plan, group.counters)

        def run(site: tuple[str, int] | None) -> tuple[Fault, ...]:
            fresh = {name: tensor.clone() for name, tensor in inputs.items()}
            out, call = placement(plan), attrs(sizes)
            report = kernel.run(fresh, out, call, cores, skip=site, stop_at_first=site is not None)
            return report.faults

        return run

    assert unreported(kernel, [without(*case) for case in MUTATION]) == []
