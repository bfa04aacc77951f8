"""Every built-in policy against its model in dictionaries, over thousands of random steps."""

from dataclasses import replace
from functools import partial

import pytest

from tierkv.config import make_registry
from tierkv.constants import Kind
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.testing.harness import Harness
from tierkv.testing.model import Entry, Row, plan_row
from tierkv.testing.model_policies import MODELS
from tierkv.testing.workload import Workload

REGISTRY = make_registry()
CASES = [
    ("fifo", {}, 16),
    ("fifo", {}, 5),
    ("set-fifo", {"ways": 4}, 12),
    ("set-fifo", {"ways": 2, "hash": "low-bits"}, 14),
    ("set-fifo", {"ways": 1}, 3),
    ("clock", {"ways": 8}, 16),
    ("clock", {"ways": 2, "hash": "low-bits"}, 6),
    ("clock", {"ways": "all"}, 16),
    ("clock", {"ways": "all"}, 70),  # more than one word of visited bits
    ("lru", {}, 16),
    ("lru", {}, 5),
    ("set-lru", {"ways": 4}, 16),
    ("set-lru", {"ways": 3}, 6),
    ("sieve", {}, 16),
    ("sieve", {}, 4),
    ("s3-fifo", {}, 24),
    ("s3-fifo", {}, 5),
    ("arc", {}, 16),
    ("arc", {}, 5),
    ("last-step", {}, 6),
    ("last-step", {}, 11),
    ("unbounded", {}, 96),
]
STEPS = 160


def words(case: object) -> str:
    return "-".join(f"{k}-{v}" for k, v in case.items()) if isinstance(case, dict) else str(case)


def run(policy: str, options: dict, slots: int, *, seed: int, steps: int, **parts: str) -> Harness:
    shape = replace(Shape(), slots=slots)
    chosen = choice(REGISTRY.get("policy", "policy", policy), options)
    with assemble(shape, policy=chosen, **parts) as cache:
        harness = Harness(cache, partial(MODELS[policy], slots, **options))
        Workload(harness, shape, seed).run(steps)
    return harness


@pytest.mark.parametrize(("policy", "options", "slots"), CASES, ids=words)
def test_tables_plans_and_bytes_equal_the_model(policy, options, slots):
    harness = run(policy, options, slots, seed=11, steps=STEPS)
    counted = harness.cache.stats().groups[0]
    seen = (counted.hits, counted.misses, counted.window, counted.future, counted.installs)
    assert min(seen) > 20, f"the workload is too tame: {counted}"


@pytest.mark.parametrize("backing", ["host", "file", "device"])
@pytest.mark.parametrize("ops", sorted(REGISTRY.names("ops")))
def test_so_they_do_on_every_tier_and_backend(ops, backing):
    for policy in MODELS:
        slots, options = (96, {}) if policy == "unbounded" else (16, {})
        options = {"ways": 4} if policy in ("set-fifo", "clock", "set-lru") else options
        run(policy, options, slots, seed=12, steps=25, ops=ops, backing=backing)


@pytest.mark.parametrize("policy", MODELS)
def test_who_leaves_next_survives_a_truncation(policy):
    """A few ids go, one by one; the order of the others must not."""
    slots = 96 if policy == "unbounded" else 12
    options = {"ways": 4} if policy in ("set-fifo", "clock", "set-lru") else {}
    shape = replace(Shape(), slots=slots)
    chosen = choice(REGISTRY.get("policy", "policy", policy), options)
    with assemble(shape, policy=chosen) as cache:
        harness = Harness(cache, partial(MODELS[policy], slots, **options))
        lane = harness.admit("request", 60)

        def step(length, *ids):
            padded = [*ids, *[-1] * (shape.top_k - len(ids))]
            harness.step([Row(lane, length + 1, 1, length)], [[padded]])
            harness.check()

        step(60, 0, 1, 2, 3, 4, 50)
        step(61, 5, 6, 7, 8, 9, 51)
        step(62, 3, 0, 7)  # hits, in an order of their own
        for length in (51, 50):
            harness.truncate("request", length)
            for new in range(3):
                step(length + new, 10 + 3 * (51 - length) + new, 8)
        for later in range(9):
            step(53 + later, 16 + 2 * later, 17 + 2 * later)


def test_every_built_in_policy_has_a_model():
    assert {policy for policy, _, _ in CASES} == set(MODELS)
    origins = REGISTRY.names("policy")
    core = {name for name, origin in origins.items() if origin.split()[0] == "tierkv"}
    assert set(MODELS) == core


def test_the_model_plans_as_the_text_says():
    """By hand, once, so that model and reference are not wrong together."""
    row = Row(lane=0, kv_len=40, q_len=2, stable=36)
    plan = plan_row(
        [[1, 2, 3, 4, 5, 6], [-1, 9, 9, 36, 37, 38], [39, 7, 40, 38, 20, 7]],
        row, pages=[5, 3, -1], page=16, slot_of={9: 2, 37: 1},
    )  # fmt: skip
    assert plan.entries == [
        [],  # only the last two queries live
        [
            Entry(9, Kind.HIT, 2),
            Entry(9, Kind.HIT, 2),
            # 36 and 37 are behind page 2, which is not mapped
        ],
        [
            Entry(7, Kind.MISS, 5 * 16 + 7),
            Entry(20, Kind.MISS, 3 * 16 + 4),
            Entry(7, Kind.REPEAT, 12),
        ],
    ]
    assert plan.misses == [7, 20]
    assert plan.places == [12, 13]
    assert plan.tally["unmapped"] == 5
    assert plan.tally["future"] == 1
    mapped = plan_row([[36, 37, 38, 39]], replace(row, q_len=1), [5, 3, 8], 16, {36: 0})
    assert mapped.entries == [
        [
            Entry(36, Kind.WINDOW, 8 * 16 + 4),
            Entry(37, Kind.WINDOW, 8 * 16 + 5),
            Entry(38, Kind.WINDOW, 8 * 16 + 6),
            Entry(39, Kind.FRESH, 0),
        ]
    ]
    assert mapped.tally["fetched"] == 3


def test_the_model_places_as_the_text_says():
    plan = plan_row([[1, 2, 3, 4]], Row(0, 40, 1, 39), [0, 1, 2], 16, {})
    fifo = MODELS["fifo"](3)
    fifo.place(plan)
    assert fifo.id_at == {0: 4, 1: 2, 2: 3}  # 1 was pushed out again
    lru = MODELS["lru"](3)
    lru.place(plan)
    assert lru.id_at == {0: 2, 1: 3, 2: 4}
    lru.place(plan_row([[2, 9, 3, 8]], Row(0, 40, 1, 39), [0, 1, 2], 16, lru.slot_of))
    assert lru.id_at == {0: 2, 1: 3, 2: 8}  # hits stay, the last miss takes the only other slot
    last = MODELS["last-step"](4)
    last.place(plan)
    last.place(plan_row([[3, 9, 1, 8]], Row(0, 40, 1, 39), [0, 1, 2], 16, last.slot_of))
    assert last.id_at == {0: 1, 2: 3, 1: 9, 3: 8}
    clock = MODELS["clock"](3, ways="all")
    clock.place(plan_row([[1, 2, 3, -1]], Row(0, 40, 1, 39), [0, 1, 2], 16, {}))
    clock.place(plan_row([[1, 7, -1, -1]], Row(0, 40, 1, 39), [0, 1, 2], 16, clock.slot_of))
    assert clock.id_at == {0: 1, 1: 7, 2: 3}  # 1 was hit, so the hand passed it
    clock.place(plan_row([[8, 9, -1, -1]], Row(0, 40, 1, 39), [0, 1, 2], 16, clock.slot_of))
    assert clock.id_at == {0: 1, 1: 9, 2: 8}  # 1 was still visited
    assert clock.visited == set()  # and no longer is
