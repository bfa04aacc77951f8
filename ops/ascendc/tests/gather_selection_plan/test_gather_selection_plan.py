"""GatherSelectionPlan equals ``plan_gather``, bit for bit, without a fault in the model.

Steps follow each other: GatherSelectionPlace, or its reference, notes what lies where.
"""

import pytest
import torch
from gather_steps import CORES, World, check, ints, run
from mutation import unreported

OPERATOR = "gather_selection_plan"


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
    (3, {"lanes": 4, "rows": 4, "queries": 16, "top_k": 150, "pages": 50, "fresh": 0.3}),
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
    kernel = sim(OPERATOR)

    def without(world, inputs, across, state, cores):
        def run_again(site):
            copy = {name: tensor.clone() for name, tensor in state.items()}
            options = {"cores": cores, "skip": site, "stop_at_first": True}
            return run(kernel, world, inputs, across, copy, **options)[0].faults

        return run_again

    runs = [
        without(*one)
        for seed, (cores, given) in enumerate(MUTATED)
        for one in recorded(seed, cores, given)
    ]
    assert unreported(kernel, runs) == []
