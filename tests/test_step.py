"""A step on a whole cache: order of calls, errors, edge cases (section 5 of the semantics)."""

import time
from collections import Counter as Tally
from dataclasses import replace
from functools import partial

import pytest
import torch

import tierkv
from tierkv.constants import Counter
from tierkv.errors import CapacityError, ShapeError, StateError, TierError
from tierkv.plain import CopyInstaller
from tierkv.policies import Fifo
from tierkv.testing.assemble import LAYOUT, Shape, assemble, choice
from tierkv.testing.harness import Harness, Interrupted
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.model_policies import MODELS
from tierkv.testing.workload import PADDING
from tierkv.tiers import FileTier

SHAPE = Shape(queries=4, pages=24)


def harness_on(backing, policy="lru", shape=SHAPE, **options):
    return Harness(assemble(shape, policy=policy, backing=backing, **options),
                   partial(MODELS[policy], shape.slots))  # fmt: skip


@pytest.fixture(params=["host", "file"])
def harness(request):
    made = harness_on(request.param)
    with made.cache:
        yield made


def one(ids, queries=1):
    """The same selection for each query of one row."""
    return [[list(ids)] * queries]


# --- drafts ---


def test_case_05_rejected_drafts_are_served_as_rewritten(harness):
    lane = harness.admit("request", 40)
    ids = [0, 40, 41, 42, 43, 39]
    harness.step([Row(lane, 44, 4, 40)], one(ids, 4))
    harness.step([Row(lane, 45, 4, 41)], one(ids, 4))  # 41 to 43 rejected and written again
    harness.step([Row(lane, 48, 3, 45)], one([45, 44, 43, 42, 41, 40], 4))  # now all are stable
    harness.step([Row(lane, 49, 1, 48)], one([45, 44, 43, 42, 41, 40], 4))
    harness.check()
    counted = harness.cache.stats().groups[0]
    assert counted.hits > 0
    assert counted.window > 0


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_case_07_a_draft_loop_installs_nothing_of_its_own(harness, accepted):
    lane = harness.admit("request", 40)
    for kv_len in (41, 42, 43):  # the verified length is stable in each of them
        harness.step([Row(lane, kv_len, 1, 40)], one([40, 41, 42, 39, 3, 38]))
        assert max(residents(harness.cache.site.policies[0])[lane].values()) < 40
    for kv_len in range(41 + accepted, 46):
        harness.step([Row(lane, kv_len, 1, kv_len - 1)], one([40, 41, 42, 43, 3, 38]))
        harness.check()


def test_case_05_stable_never_goes_back(harness):
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], one([1, 2, 3, 4, 5, 6]))
    step = harness.cache.step([lane], [40], queries=4, q_len=[2])
    with pytest.raises(StateError, match=r"stable of lane .* was 40 .*got 38 .*truncate"), step:
        step.append(0, torch.zeros((1, 4, 64), dtype=torch.uint8))
    harness.check()
    harness.truncate("request", 38)
    harness.step([Row(lane, 40, 2, 38)], one([1, 2, 3, 4, 39, 38], 4))
    harness.check()


# --- who is where ---


def test_case_09_followers_are_served_before_their_hits_are_overwritten():
    shape = replace(SHAPE, slots=6, groups=((0, 1, 2, 3),))
    made = harness_on("host", "fifo", shape)
    with made.cache:
        lane = made.admit("request", 60)
        for step, first in enumerate((0, 3, 1, 5, 0)):
            row = Row(lane, 61 + step, 1, 60 + step)
            made.step([row], one(range(first, first + 6)))
            made.check()


def test_case_10_a_reused_lane_serves_the_new_request(harness):
    ids = one([3, 1, 4, 15, 9, 2])
    lane = harness.admit("plumless", 40)
    harness.step([Row(lane, 41, 1, 40)], ids)
    harness.release("plumless")
    assert harness.admit("buckeroo", 40) == lane  # the two collide under crc32
    before = harness.cache.stats().groups[0].hits
    harness.step([Row(lane, 41, 1, 40)], ids)
    harness.check()
    assert harness.cache.stats().groups[0].hits == before


def test_case_10_requests_are_themselves_and_not_their_hash(harness):
    names = ["plumless", "buckeroo", -1, -2, ("a",), 2**61 - 2]  # -1 and -2 hash alike too
    assert hash(-1) == hash(-2)
    lanes = [harness.admit(name, 20) for name in names[:4]]
    assert len(set(lanes)) == 4
    for lane in lanes:
        harness.step([Row(lane, 21, 1, 20)], one([3, 1, 4, 15, 9, 2]))
    harness.check()
    harness.release(-1)
    harness.read(-2, 0, 0, 20)
    with pytest.raises(StateError, match="-1"):
        harness.cache.length(-1)


def test_case_11_rows_in_another_order_hit_the_same(harness):
    lanes = [harness.admit(name, 40) for name in range(3)]
    ids = [[[lane + 3 * n for n in range(6)]] for lane in lanes]
    harness.step([Row(lane, 41, 1, 40) for lane in lanes], ids)
    for step, order in enumerate(([2, 0, 1], [1, 2, 0])):
        rows = [Row(lanes[n], 42 + step, 1, 41 + step) for n in order]
        harness.step(rows, [ids[n] for n in order])
        harness.check()
    assert harness.cache.stats().groups[0].misses == 3 * 6


def test_case_12_padding_between_rows_leaves_no_trace(harness):
    lanes = [harness.admit(name, 40) for name in range(2)]
    rows = [PADDING, Row(lanes[1], 42, 2, 40), PADDING, Row(lanes[0], 41, 1, 40)]
    ids = [[[7, 8, 9, 10, 11, 12]] * 4 for _ in rows]
    harness.step(rows, ids)
    harness.check()
    used = harness.cache.stats().pages_used
    harness.step([PADDING] * 4, ids)
    harness.check()
    assert harness.cache.stats().pages_used == used
    assert harness.cache.stats().groups[0].hits == 0


def test_case_16_a_pool_of_one_slot(harness):
    made = harness_on("file", "fifo", replace(SHAPE, slots=1))
    with made.cache:
        lane = made.admit("request", 60)
        for step in range(5):
            ids = [[[n + step, 2 * n, 59 - n, 5, n, 0] for n in range(4)]]
            made.step([Row(lane, 64 + 4 * step, 4, 60 + 4 * step)], ids)
            made.check()


def test_case_16_no_slots_are_refused():
    with pytest.raises(tierkv.ConfigError, match=r"pool\.slots: must be .*1.*got 0"):
        assemble(replace(SHAPE, slots=0))


class SlowFifo(Fifo):
    """Takes its time, so that the worker is late."""

    def place(self, plan):
        time.sleep(2e-3)
        return super().place(plan)


def test_case_14_late_installs_find_the_lanes_they_were_made_for():
    """The next step has other lanes in the same buffers."""
    worker = choice(CopyInstaller, {"schedule": "worker"})
    cache = assemble(SHAPE, policy=choice(SlowFifo), installer=worker)
    with cache:
        made = Harness(cache, partial(MODELS["fifo"], SHAPE.slots), watched=False)
        lanes = [made.admit(name, 40) for name in range(4)]
        for step in range(4):
            for pair in ((0, 1), (2, 3), (1, 0), (3, 2)):
                kv_len = 41 + 2 * step + (pair[0] > pair[1])
                rows = [Row(lanes[n], kv_len, 1, kv_len - 1) for n in pair]
                made.step(rows, [[[n + 7 * step + 2 * k for k in range(6)]] for n in pair])
        made.watched = True
        made.check()


# --- case 13: a step that raises ---

POINTS = {
    "store.append": ["host", "file"],
    "store.write": ["file"],
    "installer.fence": ["host", "file"],
    "planner.plan": ["host", "file"],
    "server.serve": ["host", "file"],
    "installer.commit": ["host", "file"],
    "installer.install": ["host", "file"],
    "site.backing.write": ["file"],
    "site.backing.read": ["file"],
}
CASES = [
    (point, backing, after, late)
    for point, backings in POINTS.items()
    for backing in backings
    for after in range(3)
    for late in (False, True)
]


def fail_once(cache, point, after, late):
    """Let the call number `after` of a component raise, before or after it did its work."""
    *path, method = point.split(".")
    component = cache
    for name in path:
        component = getattr(component, name)
    call, calls = getattr(component, method), []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == after + 1 and not late:
            raise Interrupted
        result = call(*arguments)
        if len(calls) == after + 1:
            raise Interrupted
        return result

    setattr(component, method, failing)
    return calls, lambda: setattr(component, method, call)


@pytest.mark.parametrize(("point", "backing", "after", "late"), CASES)
def test_case_13_a_step_that_raises_anywhere(point, backing, after, late):
    made = Harness(assemble(SHAPE, policy="lru", backing=backing))
    with made.cache as cache:
        lanes = [made.admit(name, 44) for name in range(3)]
        ids = [[[lane + 5 * n for n in range(6)]] * 4 for lane in lanes]
        rows = [Row(lane, 45, 1, 44) for lane in lanes]
        made.step(rows, ids)
        made.check()
        before = [residents(policy) for policy in cache.site.policies]
        assert all(before[group][lane] for group in (0, 1) for lane in lanes)

        calls, heal = fail_once(cache, point, after, late)
        again = [Row(lane, 47, 2, 44) for lane in lanes[:2]]  # two drafts over what was written
        other = [[[40, 30, 20, 10, 44, 45]] * 4] * 2
        made.step(again, other)
        heal()
        counted = cache.site.counters.tolist()
        made.mirror.tallies = [
            Tally({counter.name.lower(): row[counter] for counter in Counter}) for row in counted
        ]
        made.check()  # invariants, lengths, pool
        if len(calls) > after:  # it did raise: cold where touched, the other lane as warm as ever
            after_it = [residents(policy) for policy in cache.site.policies]
            assert after_it[0][lanes[0]] == after_it[0][lanes[1]] == {}
            assert [table[lanes[2]] for table in after_it] == [t[lanes[2]] for t in before]
        cache.installer.drain()
        made.step([*again, Row(lanes[2], 46, 1, 45)], [*other, ids[2]])
        made.check()


def fail(step, error):
    step.append(0, torch.zeros((1, 1, 64), dtype=torch.uint8))
    raise error


def test_case_13_what_the_caller_raises_counts_too(harness):
    lane = harness.admit("request", 40)
    for error in (KeyboardInterrupt, ValueError):
        step = harness.cache.step([lane], [41])
        with pytest.raises(error), step:
            fail(step, error)
        assert harness.cache.length("request") == 40
    harness.step([Row(lane, 41, 1, 40)], one([1, 2, 3, 4, 5, 40]))


def test_case_13_groups_that_were_not_touched_stay_warm(harness):
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], one([1, 2, 3, 4, 5, 6]))
    warm = residents(harness.cache.site.policies[0])
    harness.step([Row(lane, 42, 1, 41)], {1: one([1, 2, 3, 4, 5, 6])}, stop_at=(2, "append"))
    harness.check()
    assert residents(harness.cache.site.policies[0]) == warm
    assert residents(harness.cache.site.policies[1])[lane] == {}


# --- case 15: misuse ---

RECORDS = torch.zeros((1, 1, 64), dtype=torch.uint8)
IDS = torch.tensor([[[0, 1, 2, 3, 4, 5]]], dtype=torch.int32)


def play(step, layers, records, ids):
    """Append and select layers; the owners get the ids."""
    for layer in layers:
        step.append(layer, records)
        step.select(layer, ids if layer == step.cache.owner_of[layer] else None)


@pytest.fixture
def opened(harness):
    """An open step of groups [0] and [1, 2]."""
    lane = harness.admit("request", 40)
    step = harness.cache.step([lane], [41])
    with step:
        yield step
        for layer in range(3):  # whatever was refused, the step goes on
            if step.missing[layer]:
                step.append(layer, RECORDS)
            if not step.selected[layer]:
                step.select(layer, IDS if layer in (0, 1) else None)
    assert harness.cache.length("request") == 41


def test_case_15_select_on_an_owner_without_ids(opened):
    opened.append(0, RECORDS)
    with pytest.raises(StateError, match=r"select, layer 0: .*needs ids.*pass ids \[1, 1, 6\]"):
        opened.select(0)


def test_case_15_select_on_a_follower_before_its_owner(opened):
    opened.append(2, RECORDS)
    with pytest.raises(StateError, match=r"select, layer 2: .*select layer 1"):
        opened.select(2)


def test_case_15_ids_for_a_follower(opened):
    opened.append(1, RECORDS)
    opened.append(2, RECORDS)
    opened.select(1, IDS)
    with pytest.raises(StateError, match=r"select, layer 2: .*follows layer 1.*pass None"):
        opened.select(2, IDS)


def test_case_15_select_twice(opened):
    opened.append(0, RECORDS)
    opened.select(0, IDS)
    with pytest.raises(StateError, match=r"select, layer 0: .*already.*keep the selection"):
        opened.select(0, IDS)


def test_case_15_select_without_append(opened):
    with pytest.raises(StateError, match=r"select, layer 0: .*key.*value.*append them first"):
        opened.select(0, IDS)


def test_case_15_select_with_a_part_missing(opened):
    opened.append(0, {"key": torch.zeros((1, 1, 8))})
    with pytest.raises(StateError, match=r"select, layer 0: .*\['value'\].*append them first"):
        opened.select(0, IDS)
    opened.append(0, {"value": torch.zeros((1, 1, 16), dtype=torch.int16)})


@pytest.mark.parametrize("layer", [-1, 3, 99])
def test_case_15_an_unknown_layer(opened, layer):
    with pytest.raises(StateError, match=rf"select, layer {layer}: the model has layers 0 to 2"):
        opened.select(layer, IDS)
    with pytest.raises(StateError, match=rf"append, layer {layer}: the model has layers 0 to 2"):
        opened.append(layer, RECORDS)


def test_case_15_append_twice(opened):
    opened.append(0, RECORDS)
    with pytest.raises(StateError, match=r"append, layer 0: a part was given already"):
        opened.append(0, RECORDS)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (RECORDS[:, :, :32], r"append, layer 0: whole records must be uint8 \[1, 1, 64\].*32"),
        (RECORDS.int(), r"append, layer 0: whole records must be uint8"),
        ({"kye": RECORDS}, r"append, layer 0: unknown part, got 'kye'.*did you mean key"),
        ({"key": torch.zeros((1, 1, 7))}, r"append, layer 0.* part key .*float32 \[1, 1, 8\].*7"),
        ({"key": torch.zeros((1, 1, 8)).half()}, r"append, layer 0.* part key .*float16"),
    ],
)
def test_records_of_the_wrong_form(opened, records, message):
    with pytest.raises(ShapeError, match=message):
        opened.append(0, records)


@pytest.mark.parametrize(
    "ids", [IDS.long(), IDS[:, :, :5], IDS.expand(2, -1, -1), IDS[0], IDS.expand(-1, 2, -1)]
)
def test_ids_of_the_wrong_form(opened, ids):
    opened.append(0, RECORDS)
    with pytest.raises(ShapeError, match=r"select, layer 0: ids must be int32 \[1, 1, 6\], got"):
        opened.select(0, ids)


@pytest.mark.parametrize("left_out", [1, 2])
def test_case_15_part_of_a_group_left_out(harness, left_out):
    lane = harness.admit("request", 40)
    step = harness.cache.step([lane], [41])
    message = rf"step, layer {left_out}: .*append every layer of a group"
    with pytest.raises(StateError, match=message), step:
        play(step, [1], RECORDS, IDS) if left_out == 2 else step.append(2, RECORDS)
    assert harness.cache.length("request") == 40
    assert residents(harness.cache.site.policies[1])[lane] == {}


def test_case_15_a_layer_appended_but_not_selected(harness):
    lane = harness.admit("request", 40)
    step = harness.cache.step([lane], [41])
    message = r"step, layer 0: .*not selected.*select every layer"
    with pytest.raises(StateError, match=message), step:
        step.append(0, RECORDS)
    assert harness.cache.length("request") == 40


def test_a_part_that_no_layer_has(harness):
    lane = harness.admit("request", 40)
    with harness.cache.step([lane], [41]) as step, pytest.raises(StateError, match=r"layer 1.*x"):
        step.part(1, "x")


# --- begin ---


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ({"lanes": [0, 0], "kv_len": [41, 41]}, StateError, "a lane stands twice"),
        ({"lanes": [0, 3], "kv_len": [41, 41]}, StateError, "row 1, lane 3: no request runs there"),
        ({"lanes": [4], "kv_len": [41]}, StateError, "row 0, lane 4: no request"),
        ({"lanes": [-2], "kv_len": [41]}, StateError, "row 0, lane -2: no request.*-1 is padding"),
        ({"lanes": [0], "kv_len": [-1]}, StateError, "kv_len must not be negative, got -1"),
        ({"lanes": [0], "kv_len": [41], "q_len": [0]}, StateError, "q_len must be 1 to 1, got 0"),
        ({"lanes": [0], "kv_len": [41], "q_len": [2]}, StateError, "q_len must be 1 to 1, got 2"),
        ({"lanes": [0], "kv_len": [41], "stable": [41]}, StateError, "must be 0 to 40, got 41"),
        ({"lanes": [0], "kv_len": [41], "stable": [-1]}, StateError, "must be 0 to 40, got -1"),
        ({"lanes": [0], "kv_len": [97]}, CapacityError, "max_tokens: .*97.*96.*raise it"),
        ({"lanes": [0], "kv_len": [41, 41]}, ShapeError, "begin, kv_len: expected 1"),
        ({"lanes": [0], "kv_len": [41.0]}, ShapeError, "begin, kv_len: expected 1 whole"),
        ({"lanes": [0], "kv_len": torch.tensor([41.0])}, ShapeError, "begin, kv_len: expected 1"),
        ({"lanes": [0], "kv_len": [41], "q_len": [1, 1]}, ShapeError, "begin, q_len: expected 1"),
    ],
)  # fmt: skip
def test_begin_refuses_and_changes_nothing(harness, batch, error, message):
    harness.admit("one", 40)
    harness.admit("two", 40)
    used = harness.cache.stats().pages_used
    with pytest.raises(error, match=message):
        harness.cache.step(**batch)
    assert harness.cache.stats().pages_used == used
    harness.check()
    harness.step([Row(0, 41, 1, 40)], one([1, 2, 3, 4, 5, 40]))


def test_begin_takes_host_tensors(harness):
    lane = harness.admit("request", 40)
    batch = [torch.tensor([value]) for value in (lane, 41, 1, 40)]
    with harness.cache.step(*batch) as step:
        assert step.batch.kv_len.tolist() == [41]
        assert step.batch.stable.tolist() == [40]


def test_a_batch_that_does_not_fit_names_the_setting(harness):
    lanes = [harness.admit(name, 80) for name in range(4)]  # 20 of 24 pages
    rows = {"lanes": lanes, "kv_len": [96] * 4, "q_len": [4] * 4, "queries": 4}
    harness.prefill(0, [80, 80], 96)
    used = harness.cache.stats().pages_used
    for name in (1, 2, 3):
        harness.prefill(name, [80, 80], 92 if name < 3 else 80)
    with pytest.raises(CapacityError, match=r"max_tokens|backing\.capacity"):
        harness.cache.step(**(rows | {"kv_len": [97, 96, 96, 84]}))
    assert harness.cache.stats().pages_used == used + 2
    harness.check()


def test_growth_that_does_not_fit_changes_nothing():
    made = harness_on("host", shape=replace(SHAPE, pages=7))
    with made.cache as cache:
        lanes = [made.admit(name, 48) for name in range(2)]  # 3 pages each
        with pytest.raises(CapacityError, match=r"backing\.capacity: 2 pages .* 1 of 7 are free"):
            cache.step(lanes, [49, 49])
        assert cache.stats().pages_used == 6
        made.release(1)
        made.step([Row(lanes[0], 49, 1, 48)], one([48, 1, 2, 3, 4, 5]))
        made.check()


def test_a_group_must_be_written_up_to_the_step(harness):
    harness.admit("request", 40)
    step = harness.cache.step([0], [42])
    with pytest.raises(StateError, match=r"lane 0 needs 41 tokens.*\[40\].*prefill"), step:
        step.append(0, RECORDS)
    harness.cache.prefill("request", 1, torch.zeros((1, 64), dtype=torch.uint8), 40)
    step = harness.cache.step([0], [41])
    with pytest.raises(StateError, match=r"layers \[1, 2\], got \[41, 40\]"), step:
        step.append(1, RECORDS)


def test_groups_may_be_stepped_apart(harness):
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], {0: one([1, 2, 3, 4, 5, 40])})
    harness.step([Row(lane, 42, 1, 41)], {0: one([1, 2, 3, 4, 41, 40])})
    assert harness.cache.length("request") == 40
    harness.step([Row(lane, 42, 2, 40)], {1: one([1, 2, 3, 4, 41, 40], 2)})
    assert harness.cache.length("request") == 42
    harness.step([Row(lane, 43, 1, 42)], one([1, 2, 3, 4, 41, 42]))
    harness.check()


# --- open steps ---


def test_a_lane_in_an_open_step_is_left_alone(harness):
    lane = harness.admit("busy", 40)
    other = harness.admit("idle", 40)
    cache = harness.cache
    with cache.step([lane], [41]):
        for call in (
            lambda: cache.release("busy"),
            lambda: cache.truncate("busy", 10),
            lambda: cache.prefill("busy", 0, torch.zeros((1, 64), dtype=torch.uint8), 40),
        ):
            with pytest.raises(StateError, match=r"'busy'.*open step.*end the step first"):
                call()
        with pytest.raises(StateError, match="lane 0: is in an open step"):
            cache.step([lane, other], [41, 41])
        harness.prefill("idle", [40, 40], 45)  # others may be prefilled at any time
        harness.admit("new", 10)
        harness.step([Row(other, 46, 1, 45)], one([1, 2, 3, 4, 5, 45], 4))
    harness.check()
    harness.release("busy")


def test_a_stepper_holds_one_open_step(harness):
    """Its buffers are the open step's; filling them again would change the batch under it."""
    lanes = [harness.admit(name, 40) for name in range(2)]
    with harness.cache.step([lanes[0]], [41]) as step:
        with pytest.raises(StateError, match="open step"):
            harness.cache.step([lanes[1]], [41])
        assert step.batch.lanes.tolist() == [lanes[0]]
    harness.step([Row(lanes[1], 41, 1, 40)], one([1, 2, 3, 4, 5, 6]))


# --- case 19: a tier that fails ---


class Flaky(FileTier):
    """Fails to read some rows of a layer."""

    bad: frozenset[int] = frozenset()
    layer = -1

    def read(self, layer, rows, out):
        failed = sorted(self.bad & set(rows.tolist())) if layer == self.layer else []
        if failed:
            raise TierError(f"flaky tier: layer {layer}, rows {failed} cannot be read")
        return super().read(layer, rows, out)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_case_19_a_tier_that_cannot_read_part_of_a_batch(layer):
    made = Harness(assemble(SHAPE, policy="lru", backing=choice(Flaky)))
    with made.cache as cache:
        lanes = [made.admit(name, 40) for name in range(3)]
        made.step([Row(lane, 41, 1, 40) for lane in lanes], [[[1, 2, 3, 4, 5, 6]]] * 3)
        warm = [residents(policy)[lanes[2]] for policy in cache.site.policies]

        bad = int(cache.paging.rows(lanes[1], 33, 34))
        backing = cache.site.backing
        backing.layer = layer
        backing.bad = frozenset({bad})
        ids = [[[7, 8, 9, 10, 11, 12]], [[31, 32, 33, 34, 35, 36]]]
        rows = [Row(lane, 42, 1, 41) for lane in lanes[:2]]
        step = cache.step(lanes[:2], [42, 42])
        with pytest.raises(TierError, match=rf"rows \[{bad}\]"), step:
            play(step, range(3), RECORDS.expand(2, -1, -1), torch.tensor(ids, dtype=torch.int32))
        touched = [0] if layer == 0 else [0, 1]
        for group in touched:
            tables = residents(cache.site.policies[group])
            assert tables[lanes[0]] == tables[lanes[1]] == {}
        assert [residents(policy)[lanes[2]] for policy in cache.site.policies] == warm
        assert cache.length(0) == cache.length(1) == 41

        backing.bad = frozenset()
        counted = cache.site.counters.tolist()
        made.mirror.tallies = [
            Tally({counter.name.lower(): row[counter] for counter in Counter}) for row in counted
        ]
        made.step([*rows, Row(lanes[2], 42, 1, 41)], [*ids, [[1, 2, 3, 4, 5, 6]]])
        made.check()


# --- parts ---

PADDED = tierkv.KVLayout(
    (
        tierkv.Part("nope", 5, torch.float32),
        tierkv.Part("rope", 3, torch.bfloat16),
        tierkv.Part("index", 4, torch.float16, "device"),
    )
)


@pytest.fixture(params=["host", "file"])
def parted(request):
    spec = tierkv.ModelSpec.uniform("parted", 4, [[0, 1]], PADDED)
    source = {"backing": {"use": request.param, "page": 16}, "pool": {"slots": 16}, "policy": "lru"}
    with tierkv.load(source, model=spec, lanes=2, max_tokens=64, queries=2) as cache:
        yield cache


def parts(count, start, layer=0):
    at = torch.arange(start, start + count)[:, None]
    return {
        part.name: (at * 10 + layer + torch.arange(part.width)).to(part.dtype)
        for part in PADDED.parts
    }


def test_parts_are_served_in_their_own_dtype(parted):
    lane = parted.admit("request")
    for layer in range(2):
        parted.prefill("request", layer, parts(20, 0, layer))
    ids = torch.tensor([[[3, 20, 19, -1]]], dtype=torch.int32)
    for round in range(2):  # from backing, then from the pool
        with parted.step([lane], [21 + round]) as step:
            for layer in range(2):
                new = {n: p[None] for n, p in parts(1, 20 + round, layer).items()}
                step.append(layer, {"index": new.pop("index")})
                step.append(layer, {"rope": new.pop("rope")})
                step.append(layer, new)
                kv = step.select(layer, ids if layer == 0 else None)
                known = parts(22, 0, layer)
                for name in ("nope", "rope"):
                    assert kv[name].dtype == known[name].dtype
                    assert torch.equal(kv[name][0, 0, :3], known[name][[3, 20, 19]])
                    assert not kv[name][0, 0, 3].any()
                assert kv.length.tolist() == [[3]]
                index = step.part(layer, "index")
                table = step.batch.block_table[0]
                for position in range(21 + round):
                    row = index[table[position // 16], position % 16]
                    assert torch.equal(row, known["index"][position])


def test_whole_records_and_parts_are_the_same_thing(parted):
    assert PADDED.stride == 64
    whole = torch.zeros((20, PADDED.stride), dtype=torch.uint8)
    known = parts(20, 0)
    for name, view in PADDED.views(whole).items():
        view.copy_(known[name])
    parted.admit("request")
    parted.prefill("request", 0, whole)
    back = parted.read("request", 0, 0, 20)
    for name in ("nope", "rope"):
        assert torch.equal(back[name], known[name])


def test_a_device_part_may_come_after_select(parted):
    lane = parted.admit("request")
    with parted.step([lane], [1]) as step:
        for layer in range(2):
            new = {n: p[None] for n, p in parts(1, 0, layer).items()}
            index = {"index": new.pop("index")}
            step.append(layer, new)
            ids = torch.zeros((1, 1, 4), dtype=torch.int32) - torch.tensor([0, 1, 1, 1]).int()
            step.select(layer, ids if layer == 0 else None)
            step.append(layer, index)
    assert parted.length("request") == 1


def test_a_device_part_left_out_is_named(parted):
    lane = parted.admit("request")
    step = parted.step([lane], [1])
    new = {n: p[None] for n, p in parts(1, 0).items() if n != "index"}
    with pytest.raises(StateError, match=r"step, layer 0: parts \['index'\] are missing"), step:
        play(step, (0, 1), new, torch.full((1, 1, 4), -1, dtype=torch.int32))
    assert parted.length("request") == 0


# --- debug ---


def test_debug_refuses_ids_without_a_page():
    with assemble(SHAPE, debug=True) as cache:
        lane = cache.admit("request", 0)
        for layer in range(3):
            cache.prefill("request", layer, torch.zeros((40, 64), dtype=torch.uint8))
        step = cache.step([lane], [41])
        step.batch.block_table[0, 1] = -1  # as an engine's own table might have it
        with pytest.raises(StateError, match=r"select, layer 0: .*without a page"), step:
            play(step, [0], RECORDS, torch.tensor([[[1, 20, 3, 4, 5, 6]]], dtype=torch.int32))


def test_records_lie_packed_as_the_layout_says():
    assert LAYOUT.stride == 64
    assert LAYOUT.views(torch.zeros(2, 64, dtype=torch.uint8))["value"].shape == (2, 16)
