"""The fused gather beside its model in dictionaries: every edge case, and what it reads."""

import random
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

import tierkv
from tierkv.config import make_registry
from tierkv.errors import StateError, TierError
from tierkv.testing.assemble import Shape
from tierkv.testing.model import Row
from tierkv.testing.model_gather import GatherHarness
from tierkv.testing.open_step import OpenStep
from tierkv.testing.workload import PADDING, Workload

OPS = sorted(make_registry().names("ops"))
ONE = Shape(groups=((0,),), queries=1)


@contextmanager
def gathering(shape=ONE, ops="auto", backing="host", **options):
    source = {"scheme": "dsv32-gather", "ops": ops, "backing": {"use": backing, "page": shape.page}}
    sizes = {name: getattr(shape, name) for name in ("lanes", "max_tokens", "queries")}
    with tierkv.load(source | options, model=shape.spec, **sizes) as cache:
        yield GatherHarness(cache)


def grown(harness, group=0):
    """Give the counters of a group since the last call."""
    now = harness.cache.stats().groups[group]
    before = getattr(harness, "before", type(now)(now.layers))
    harness.before = now
    return {
        name: getattr(now, name) - getattr(before, name)
        for name in ("hits", "misses", "window", "fetched", "moved", "installs")
    }


def step(harness, lane, kv_len, ids, stable=None, q_len=None):
    """Make a step of one row; -1 fills what is missing of K."""
    top_k = harness.spec.top_k
    padded = [query + [-1] * (top_k - len(query)) for query in ids]
    q_len = len(ids) if q_len is None else q_len
    first = max(kv_len - q_len, 0)
    harness.step([Row(lane, kv_len, q_len, first if stable is None else stable)], [padded])
    harness.check()
    return grown(harness)


@pytest.mark.parametrize("backing", ["host", "file"])
@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_serving(ops, backing, seed):
    with gathering(Shape(), ops, backing) as harness:
        Workload(harness, Shape(), seed).run(100)


class Steady(Workload):
    """A batch that mostly keeps its rows, so that there is something to hit."""

    def _batch(self):
        rows, ids = super()._batch()
        if self.random.random() < 0.8:
            rows = sorted(rows, key=lambda row: row.lane % self.shape.lanes)
        return rows, ids


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("groups", [((0,),), ((0, 1, 2),), ((0,), (1, 2))])
def test_steady_serving(ops, groups):
    shape = Shape(groups=groups, top_k=9, lanes=3)
    with gathering(shape, ops) as harness:
        Steady(harness, shape, seed=11).run(100)
        found = harness.cache.stats().groups[0]
    assert found.hits > 200
    assert found.moved > 20
    assert found.fetched <= found.misses + found.window


@pytest.mark.parametrize("top_k", [1, 31, 32, 33, 63, 64, 65, 128, 2048])
def test_lengths_around_top_k(top_k):
    shape = replace(ONE, top_k=top_k, max_tokens=2 * top_k + 32, lanes=1)
    draw = random.Random(top_k)
    with gathering(shape) as harness:
        lane = harness.admit("request", 0)
        lengths = [0, 1, top_k - 1, top_k, top_k + 1, 2 * top_k, 2 * top_k + 1]
        for kv_len in sorted({length for length in lengths if length >= 0}):
            harness.prefill("request", harness.requests["request"].length, max(kv_len - 1, 0))
            for _ in range(2):
                step(harness, lane, kv_len, [draw.sample(range(kv_len), min(kv_len, top_k))])
            harness.requests["request"].length = [kv_len]


def test_a_row_shorter_than_its_queries():
    with gathering(replace(ONE, queries=4)) as harness:
        lane = harness.admit("request")
        for kv_len in (0, 2, 2, 3):
            step(harness, lane, kv_len, [[0, 1, 2, 3]] * 4)


def test_the_same_selection_is_a_fixed_point():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        ids = [[9, 5, 30, 5, 0, 7]]
        assert step(harness, lane, 41, ids) == {
            "hits": 0, "misses": 6, "window": 0, "fetched": 5, "moved": 0, "installs": 5,
        }  # fmt: skip
        for kv_len in (42, 43, 44):
            assert step(harness, lane, kv_len, ids) == {
                "hits": 6, "misses": 0, "window": 0, "fetched": 0, "moved": 0, "installs": 0,
            }  # fmt: skip
        assert step(harness, lane, 45, [[1, 2, 3, 4, 6, 8]])["misses"] == 6


def test_what_stays_keeps_its_place_and_what_is_new_fills_the_others():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        step(harness, lane, 41, [[10, 11, 12, 13, 14, 15]])
        found = step(harness, lane, 42, [[20, 15, 21, 13, 11, 22]])
        assert (found["fetched"], found["moved"]) == (3, 0)
        assert harness.mirror.recorder.plans[0].ids.tolist() == [[[20, 11, 21, 13, 22, 15]]]


def test_a_smaller_length_closes_holes_from_behind():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        step(harness, lane, 41, [[10, 11, 12, 13, 14, 15]])
        found = step(harness, lane, 42, [[15, 14, 1, 12]])
        assert (found["fetched"], found["moved"]) == (1, 2)
        assert harness.mirror.recorder.plans[0].ids.tolist() == [[[15, 14, 12, 1, -1, -1]]]


def test_an_id_has_a_place_for_each_time_it_is_selected():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        assert step(harness, lane, 41, [[5, 5, 7, 9]])["fetched"] == 3
        found = step(harness, lane, 42, [[5, 7, 5, 5]])
        assert (found["hits"], found["misses"], found["fetched"]) == (3, 1, 1)


def test_minus_one_anywhere():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        for ids in ([5, 7, -1, -1], [-1, 5], [-1, -1, 7, -1, 8], [], [-1, 5, -1, 7]):
            step(harness, lane, 41 + harness.cache.stats().steps, [ids])
        grown(harness)
        found = step(harness, lane, 46, [[5, 7, -1, -1]])
        assert (found["hits"], found["misses"]) == (2, 0)


def test_a_query_hits_what_it_selected_itself_and_queries_share_a_fetch():
    with gathering(replace(ONE, queries=3)) as harness:
        lane = harness.admit("request", 40)
        found = step(harness, lane, 43, [[3, 4], [4, 3], [4, 8]])
        assert (found["misses"], found["fetched"]) == (6, 3)
        found = step(harness, lane, 46, [[8, 3], [4, 3], [3, 8]])
        assert (found["hits"], found["misses"], found["fetched"]) == (4, 2, 2)


def test_rejected_drafts_are_served_anew():
    with gathering(replace(ONE, queries=4)) as harness:
        lane = harness.admit("request", 40)
        ids = [[39, 40, 41, 42, 43, 3]] * 4
        step(harness, lane, 44, ids)
        found = step(harness, lane, 45, ids)  # three rejected and written again
        assert found["hits"] == 4 * 2, "39 and 3, of each query"
        assert step(harness, lane, 45, ids)["hits"] == 4 * 3, "and 40, which has become stable"


def test_a_draft_group_of_one_query_holds_stable_back():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        for _ in range(2):
            for draft in range(3):
                found = step(harness, lane, 41 + draft, [[38, 39, 40, 41, 42]], stable=39)
        assert (found["hits"], found["window"]) == (1, 4)
        assert step(harness, lane, 44, [[38, 39, 40, 41, 42]])["hits"] == 1


def test_a_dead_query_drops_its_selection_and_other_rows_keep_theirs():
    with gathering(replace(ONE, queries=2)) as harness:
        a, b = harness.admit("a", 40), harness.admit("b", 40)
        ids = [[[1, 2, 3, 4, 5, 6], [7, 8, 9, 1, 2, 3]]] * 2
        for q_len in (2, 1, 2):
            harness.step([Row(a, 42, q_len, 40), Row(b, 42, 2, 40)], ids)
            harness.check()
            found = grown(harness)
        assert found["hits"] == 6 + 12


def test_truncate_release_and_another_request_in_the_lane():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        ids = [[10, 20, 30, 35, 5, 1]]
        step(harness, lane, 41, ids)
        harness.truncate("request", 30)
        harness.prefill("request", [30], 40)
        assert step(harness, lane, 41, ids)["hits"] == 4
        harness.release("request")
        assert harness.admit(("another", 1), 40) == lane
        assert step(harness, lane, 41, ids)["hits"] == 0


@pytest.mark.parametrize("groups", [((0,),), ((0, 1),)])
def test_permuted_rows_take_their_records_along(groups):
    with gathering(replace(ONE, groups=groups)) as harness:
        lanes = [harness.admit(name, 40) for name in range(4)]
        ids = {lane: [[lane + 4 * n for n in range(6)]] for lane in lanes}
        moved = []
        for number, order in enumerate(([0, 1, 2, 3], [1, 2, 3, 0], [1, 3, 2, 0], [0, 1, 2, 3])):
            rows = [Row(lane, 41 + number, 1, 40 + number) for lane in order]
            harness.step(rows, [ids[lane] for lane in order])
            harness.check()
            found = grown(harness)
            assert found["hits"] == (24 if number else 0)
            moved.append(found["moved"])
        assert moved == [0, 24, 12, 24 - 6]


def test_padding_empties_its_row():
    with gathering() as harness:
        a, b, c = (harness.admit(name, 40) for name in "abc")
        ids = [[[1, 2, 3, 4, 5, 6]]] * 3
        rows = [Row(lane, 41, 1, 40) for lane in (a, b, c)]
        harness.step(rows, ids)
        harness.step([rows[0], PADDING, rows[2]], ids)
        harness.check()
        grown(harness)
        harness.step(rows, ids)
        harness.check()
        assert grown(harness)["hits"] == 12, "b was left out"


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("call", ["append", "select"])
@pytest.mark.parametrize("ops", OPS)
def test_a_step_that_raises_leaves_no_lie(ops, layer, call):
    with gathering(Shape(groups=((0, 1, 2),)), ops) as harness:
        lanes = [harness.admit(name, 40) for name in range(3)]
        ids = [[[1, 2, 3, 4, 5, 6]]] * 3
        rows = [Row(lane, 41, 1, 40) for lane in lanes]
        harness.step(rows, ids)
        harness.step([rows[2], rows[0]], [[[7, 2, 3, 4, -1, 8]]] * 2, stop_at=(layer, call))
        harness.check()
        harness.step(rows, ids)
        harness.check()


def test_a_read_that_fails_makes_cold_what_it_may_have_overwritten():
    with gathering(replace(ONE, groups=((0, 1),), lanes=3), backing="file") as harness:
        lanes = [harness.admit(name, 40) for name in range(3)]
        rows = [Row(lane, 41, 1, 40) for lane in lanes]
        harness.step(rows, [[[1, 2, 3, 4, 5, 6]]] * 3)
        read = harness.cache.site.backing.read

        def fail(*_):
            raise TierError("read failed")

        harness.cache.site.backing.read = fail
        with pytest.raises(TierError, match="read failed"):
            harness.step([rows[2]], [[[7, 8, 9, 10, 11, 12]]])
        harness.cache.site.backing.read = read
        policy = harness.cache.site.policies[0]
        assert (policy.id_at[lanes] >= 0).sum(1).tolist() == [0, 6, 0], "row 0 and the step's lane"


@pytest.mark.parametrize("groups", [((0,), (1,)), ((0, 1),)])
def test_two_open_steppers_with_lanes_that_change_sides(groups):
    shape = replace(ONE, groups=groups)
    with gathering(shape) as harness:
        cache = harness.cache
        lanes = [harness.admit(name, 40) for name in range(4)]
        sides = [cache.stepper(2), cache.stepper(2)]
        ids = torch.tensor([3, 9, 20, 30, 31, 7], dtype=torch.int32).expand(2, 1, 6)
        draw = random.Random(4)
        for number in range(12):
            draw.shuffle(lanes)
            kv_len = [41 + number] * 2
            opened = [
                side.begin(lanes[at : at + 2], kv_len).__enter__()
                for side, at in zip(sides, (0, 2), strict=True)
            ]
            for layer in (0, 1):
                for place in draw.sample([0, 1], 2):
                    one, some = opened[place], lanes[2 * place : 2 * place + 2]
                    rows = [Row(lane, 41 + number, 1, 40 + number) for lane in some]
                    one.append(layer, harness._appended(OpenStep(one, rows), layer))
                    owner = layer == cache.owner_of[layer]
                    selection = one.select(layer, ids.contiguous() if owner else None)
                    for row, lane in enumerate(some):
                        for id, record in zip(
                            selection.ids[row, 0].tolist(), selection.records[row, 0], strict=True
                        ):
                            known = harness.mirror.records.read(lane, layer, id)
                            assert record.numpy().tobytes() == known
            for one in opened:
                one.__exit__(None, None, None)
        assert cache.stats().hit_rate > 0.3


def test_reuse_gives_the_buffer_again_and_the_next_step_finds_it():
    with gathering(replace(ONE, queries=2)) as harness:
        lane = harness.admit("request", 40)
        step(harness, lane, 42, [[1, 2, 41], [3, 40, 2]])
        stepper = harness.cache.stepper_for(1, 2)
        records = stepper.last[0].selection.records.clone()
        with stepper.begin([lane], [44]) as again:
            opened = OpenStep(again, [Row(lane, 44, 2, 42)])
            again.append(0, harness._appended(opened, 0))
            assert torch.equal(again.reuse(0).records, records)
        harness.requests["request"].length, harness.requests["request"].stable = [44], [42]
        harness.mirror.tallies[0]["reused"] = 5
        assert step(harness, lane, 46, [[1, 2, 41], [3, 43, 2]])["hits"] == 4


def test_reuse_of_rewritten_drafts_is_refused():
    with gathering(replace(ONE, queries=2)) as harness:
        lane = harness.admit("request", 40)
        step(harness, lane, 42, [[1, 2, 41], [3, 40, 2]])
        stepper, row = harness.cache.stepper_for(1, 2), Row(lane, 43, 2, 41)
        with pytest.raises(StateError, match="reuse, layer 0"):  # noqa: PT012, SIM117
            with stepper.begin([lane], [43]) as again:
                opened = OpenStep(again, [row], touched=[0])
                again.append(0, harness._appended(opened, 0))
                again.reuse(0)
        harness._end(opened)
        assert step(harness, lane, 43, [[1, 2, 41], [3, 40, 2]])["hits"] == 0


def test_warm_is_taken_along_into_the_first_step():
    with gathering() as harness:
        lane = harness.admit("request", 40)
        harness.cache.stepper(2)  # so that warming happens in another row
        ids = torch.tensor([[1, 2, 3, 4, 5, 6]], dtype=torch.int32)
        harness.cache.warm("request", 0, ids)
        with harness.cache.step([lane, -1], [41, 0]) as one:
            one.append(0, torch.zeros(2, 1, 64, dtype=torch.uint8))
            one.select(0, torch.cat([ids[None], -torch.ones_like(ids)[None]]))
        found = harness.cache.stats().groups[0]
        assert (found.hits, found.misses, found.moved) == (6, 0, 6)


@pytest.mark.parametrize("ops", OPS)
def test_of_60_percent_overlap_40_percent_are_read(ops):
    top_k, context, steps = 64, 1000, 30
    shape = Shape(groups=((0,), (1,)), top_k=top_k, max_tokens=1100, lanes=2, queries=2)
    draw = random.Random(6)
    with gathering(shape, ops) as harness:
        lanes = [harness.admit(name, context) for name in range(2)]
        ids = [[draw.sample(range(context), top_k) for _ in range(2)] for _ in lanes]
        for number in range(steps):
            ids = [[overlap(query, 0.6, context, draw) for query in row] for row in ids]
            kv_len = context + 2 * (number + 1)
            harness.step([Row(lane, kv_len, 2, kv_len - 2) for lane in lanes], ids)
            if number == 0:
                grown(harness)
        harness.check()
        found, selected = grown(harness), (steps - 1) * 4 * top_k
    assert found["hits"] + found["misses"] == selected
    assert found["moved"] == 0
    assert 0.36 < found["fetched"] / selected <= 0.41  # two queries of a row share some


def overlap(ids, share, context, draw):
    """Keep so much of a selection, in another order."""
    kept = draw.sample(ids, round(share * len(ids)))
    others = [id for id in range(context) if id not in set(ids)]
    drawn = kept + draw.sample(others, len(ids) - len(kept))
    draw.shuffle(drawn)
    return drawn
