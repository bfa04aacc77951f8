"""DsaPlan equals the reference bit for bit, for any shape, tables and number of cores."""

import random
from dataclasses import replace

import pytest
import torch
from group_steps import CORES, FARTHEST, TOP_KS, Group, Plan, Sizes, SteadyGroup, production
from hostsim import Fault, Kernel, Report
from mutation import unreported
from torch import Tensor

from tierkv.constants import Counter, Kind

Step = dict[str, Tensor]

UB = 192 * 1024
SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, positions=1000)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_plan")


def run(kernel: Kernel, group: Group, step: Step, cores: int) -> tuple[Plan, Tensor, Report]:
    plan, counters = Plan.empty(*step["ids"].shape), group.counters.clone()
    attrs = {"page": group.sizes.page}
    report = kernel.run({**step, "counters": counters}, plan.tensors, attrs, cores)
    return plan, counters, report


def check(kernel: Kernel, group: Group, step: Step, cores: int) -> tuple[Plan, Report]:
    """Plan with both and compare; place by the reference."""
    counters = group.counters.clone()
    known = group.plan(step, counters)
    got, counted, report = run(kernel, group, step, cores)
    assert not report.faults, report.faults[:3]
    different = [n for n, t in known.tensors.items() if not torch.equal(t, got.tensors[n])]
    assert not different
    assert torch.equal(counted, counters), counted - counters
    group.place(step, known, counters)
    return known, report


def batch(group: Group, rows: list[list[int]], **changed: int) -> Step:
    """A step whose queries are `rows`, -1 behind them, all in lane 0 of a full context."""
    s, last = group.sizes, group.sizes.positions
    given = {"lanes": 0, "kv_len": last, "q_len": s.queries, "stable": last - 8, **changed}
    padded = [row + [-1] * (s.top_k - len(row)) for row in rows]
    fields = {name: torch.tensor([value], dtype=torch.int32) for name, value in given.items()}
    return {
        "ids": torch.tensor([padded], dtype=torch.int32),
        **fields,
        "block_table": group.pages[:1],
        "slot_of": group.tables["slot_of"],
    }


def mapped(seed: int, sizes: Sizes) -> Group:
    """All pages are there."""
    group = Group(seed, sizes)
    group.pages = torch.arange(group.pages.numel()).int().view(group.pages.shape)
    return group


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_reference(kernel, seed):
    rng = random.Random(seed)
    group = Group(seed, Sizes.draw(rng))
    for _ in range(3):
        check(kernel, group, group.step(rng.choice((0.2, 0.7, 0.9))), rng.choice(CORES))


@pytest.mark.parametrize("top_k", TOP_KS)
@pytest.mark.parametrize("wide", [False, True])
def test_every_top_k(kernel, top_k, wide):
    group = Group(top_k, replace(SMALL, top_k=top_k, queries=4, wide=wide))
    for cores in CORES:
        check(kernel, group, group.step(), cores)


@pytest.mark.parametrize(
    ("queries", "top_k", "page", "positions"),
    [
        (4, 2048, 128, 131072),
        (4, 2048, 16, 131072),
        (16, 512, 256, 40000),
        (3, 2047, 1024, 70001),
        (1, 2048, 128, 200000),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_large(kernel, queries, top_k, page, positions, wide):
    sizes = Sizes(2, 2, queries, top_k, 4096, 64, positions, page, True, 0, wide)
    group = Group(queries, sizes)
    group.kv_len = [positions - 20] * 2
    for cores in (48, 3):
        _, report = check(kernel, group, group.step(), cores)
        assert report.ub_peak < UB


@pytest.mark.parametrize("slots", [8192, 16384])
def test_production(kernel, slots):
    group = SteadyGroup(slots, production(slots))
    step = group.step()
    plan, report = check(kernel, group, step, 48)
    hits = int((plan.kind == Kind.HIT).sum())
    assert 0.88 * step["ids"].numel() < hits < 0.92 * step["ids"].numel()
    assert report.ub_peak < UB
    # One core would need this many for one write a hit.
    assert max(cost.ub_scalar for cost in report.costs) < hits / 16


@pytest.mark.parametrize("kv_len", [0, 1, 2, 39, 40, 41, 256, 257])
def test_context_lengths(kernel, kv_len):
    group = Group(kv_len, replace(SMALL, queries=4))
    group.kv_len = [kv_len] * 3
    for cores in (1, 24):
        check(kernel, group, group.step(), cores)


def test_more_queries_than_tokens(kernel):
    group = mapped(0, replace(SMALL, queries=4))
    step = batch(group, [[0, 1, 2]] * 4, kv_len=2, stable=0)
    plan, _ = check(kernel, group, step, 5)
    assert plan.length.tolist() == [[0, 0, 1, 2]]


def test_nothing_to_serve(kernel):
    group = mapped(0, SMALL)
    step = batch(group, [[], [-1, -2, FARTHEST, -(2**31)]])
    plan, _ = check(kernel, group, step, 5)
    assert not plan.length.any()
    assert bool((plan.miss_id == -1).all())


def test_absent_ids_are_skipped(kernel):
    group = mapped(0, SMALL)
    check(kernel, group, batch(group, [[5, 7, -1, -1], [-1, 5]]), 2)
    plan, _ = check(kernel, group, batch(group, [[5, 7, -1, -1], [-1, 5]]), 2)
    assert plan.miss_count.item() == 0
    assert plan.out_ids[0, 1, :2].tolist() == [5, -1]
    plan, _ = check(kernel, group, batch(group, [[-1, 9, -1, 8], []]), 2)
    assert plan.miss_id[0, :3].tolist() == [9, 8, -1]
    assert plan.miss_from[0, :2].tolist() == [0, 1]


def test_ids_repeat_within_and_across_queries(kernel):
    group = mapped(0, SMALL)
    rows = [[5, 5, 7, 9], [9, 6, 5]]
    plan, _ = check(kernel, group, batch(group, rows), 2)
    repeat, miss = int(Kind.REPEAT), int(Kind.MISS)
    assert plan.kind[0, 0, :4].tolist() == [miss, repeat, miss, miss]
    assert plan.kind[0, 1, :3].tolist() == [repeat, miss, repeat]
    assert plan.index[0, 1, 0].item() == 3
    before = group.counters.clone()
    _, counters, _ = run(kernel, group, batch(group, rows), 2)
    assert (counters - before)[Counter.UNIQUE_HITS].item() == 4
    assert (counters - before)[Counter.HITS].item() == 7


def test_one_id_everywhere(kernel):
    sizes = Sizes(1, 1, 4, 2048, 256, 16, 5000)
    for residency in range(2):
        group = mapped(residency, sizes)
        for _ in range(1 + residency):
            check(kernel, group, batch(group, [[77] * 2048] * 4), 24)


@pytest.mark.parametrize("stride", [1, 8192, 65536])
def test_ids_with_a_stride(kernel, stride):
    """Whatever collides in the table of first places is told apart in further rounds."""
    sizes = Sizes(1, 1, 2, 250, 256, 16, positions=1 << 24, page=1024)
    group = mapped(0, sizes)
    ids = [i * stride % (1 << 24) for i in range(250)]
    for cores in (1, 24):
        check(kernel, group, batch(group, [ids, ids[::-1]]), cores)


def test_all_misses_of_a_row_differ(kernel):
    group = mapped(0, Sizes(1, 1, 4, 2048, 8192, 64, 131072, clock=True))
    ids = torch.randperm(131000)[:8192].view(4, 2048).tolist()
    plan, _ = check(kernel, group, batch(group, ids), 48)
    assert plan.miss_count.item() == 8192
    plan, _ = check(kernel, group, batch(group, ids), 1)
    assert plan.miss_count.item() < 8192


def test_window_and_fresh(kernel):
    group = mapped(0, SMALL)
    step = batch(group, [[10, 995, 998, 999], [10, 990, 998, 999]], stable=992)
    plan, _ = check(kernel, group, step, 2)
    miss, repeat, window, fresh = Kind.MISS, Kind.REPEAT, Kind.WINDOW, Kind.FRESH
    assert plan.kind[0, 0, :4].tolist() == [miss, window, fresh, Kind.EMPTY]
    assert plan.kind[0, 1, :4].tolist() == [repeat, miss, fresh, fresh]
    assert plan.index[0, 1, 2:4].tolist() == [0, 1]


def test_unmapped_pages(kernel):
    group = mapped(0, SMALL)
    group.pages[0, 1::2] = -1
    before = group.counters.clone()
    ids = list(range(0, 1000, 25))
    _, counters, _ = run(kernel, group, batch(group, [ids, ids]), 2)
    check(kernel, group, batch(group, [ids, ids]), 2)
    assert (counters - before)[Counter.UNMAPPED].item() > 0


@pytest.mark.parametrize("queries", [1, 2, 3, 4])
def test_dead_queries(kernel, queries):
    group = Group(queries, replace(SMALL, queries=4, rows=3))
    step = group.step()
    step["q_len"][:] = queries
    check(kernel, group, step, 5)


def test_a_fixed_point(kernel):
    group = mapped(3, SMALL)
    step = batch(group, [list(range(40)), list(range(20, 60))])
    first, _ = check(kernel, group, step, 5)
    for _ in range(2):
        again, _ = check(kernel, group, {**step, "slot_of": group.tables["slot_of"]}, 5)
        assert again.miss_count.item() == 0
    assert first.miss_count.item() == 60


def test_offsets_past_4_gib(kernel):
    """The last lane of a table of 4.3 GB; of the other lanes no page of memory is touched."""
    group = mapped(0, replace(SMALL, lanes=1))
    step = batch(group, [[1, 2, 3], [3, 70000]], lanes=64, kv_len=1 << 24, stable=1 << 23)
    step["slot_of"] = torch.empty(65, 1 << 24, dtype=torch.int32)
    step["slot_of"][64] = -1
    step["slot_of"][64, 2] = 7
    plan, counters = group.plan(step, group.counters), group.counters
    got, _, report = run(kernel, group, step, 5)
    assert not report.faults
    assert all(torch.equal(t, got.tensors[n]) for n, t in plan.tensors.items())
    assert counters[Counter.HITS].item() > 0


def test_many_rows(kernel):
    group = Group(9, Sizes(60, 60, 2, 33, positions=700))
    for cores in (48, 5):
        check(kernel, group, group.step(), cores)


MUTATION = (
    (Sizes(2, 2, 2, 64, 256, 16, 2000), 2, 0),
    (Sizes(4, 3, 4, 700, 512, 64, 100000, 16, clock=True), 2, 3),
    (Sizes(3, 3, 2, 64, 512, 64, 2000, 16, clock=True), 5, 3),
    (Sizes(4, 4, 3, 65, 512, 16, 4000, 16), 1, 3),
    (Sizes(3, 3, 2, 2048, 4096, 64, 100000, 16, clock=True), 2, 1),
    (Sizes(4, 4, 4, 2048, 8192, 64, 100000, 16, clock=True), 3, 3),
)


def test_every_sync_statement_is_needed(kernel):
    def without(sizes: Sizes, cores: int, steps: int):
        # Some statements matter only to queries whose entries are all valid.
        group = Group(3, sizes) if steps else SteadyGroup(3, sizes)
        group.kv_len = [sizes.positions - 9] * sizes.lanes
        for _ in range(max(steps, 1)):
            step = group.step()
            step["slot_of"] = step["slot_of"].clone()
            group.place(step, group.plan(step, group.counters), group.counters)

        def run(site: tuple[str, int] | None) -> tuple[Fault, ...]:
            outputs = Plan.empty(*step["ids"].shape).tensors
            inputs = {**step, "counters": group.counters.clone()}
            attrs = {"page": sizes.page}
            report = kernel.run(
                inputs, outputs, attrs, cores, skip=site, stop_at_first=site is not None
            )
            return report.faults

        return run

    assert unreported(kernel, [without(*case) for case in MUTATION]) == []
