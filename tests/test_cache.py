"""Requests on a whole cache: admit, prefill, read, truncate, release (semantics, section 4)."""

import gc
import tracemalloc
from dataclasses import replace
from functools import partial

import pytest
import torch

from tierkv.cache import TieredCache
from tierkv.errors import CapacityError, ShapeError, StateError, TierError
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.testing.harness import Harness
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.model_policies import MODELS
from tierkv.tiers import FileTier

SHAPE = Shape(pages=12)  # half of what four full requests would take
IDS = [[[1, 2, 3, 4, 5, 6]]]


@pytest.fixture(params=["host", "file"])
def harness(request):
    with assemble(SHAPE, policy="fifo", backing=request.param) as cache:
        yield Harness(cache, partial(MODELS["fifo"], SHAPE.slots))


def records(count, fill=7):
    return torch.full((count, 64), fill, dtype=torch.uint8)


def state(cache):
    """What a refused call must not change."""
    return (
        cache.stats(),
        cache.paging.block_table.tolist(),
        cache.lengths.tiered.tolist(),
        cache.lengths.stable.tolist(),
        [residents(policy) for policy in cache.site.policies],
    )


def refused(cache, error, message, call, *arguments, **more):
    before = state(cache)
    with pytest.raises(error, match=message):
        call(*arguments, **more)
    assert state(cache) == before


# --- admit ---


def test_admit_binds_lanes_until_there_are_none(harness):
    cache = harness.cache
    lanes = [harness.admit(name) for name in range(4)]
    assert sorted(lanes) == [0, 1, 2, 3]
    refused(cache, CapacityError, "lanes: all 4 are taken.*release.*raise", cache.admit, "more")
    harness.release(2)
    assert harness.admit("more") == lanes[2]


def test_admit_reserves_pages(harness):
    cache = harness.cache
    harness.admit("one", 0, reserve=50)
    assert cache.stats().pages_used == 4
    harness.admit("two", 0, reserve=96)
    message = r"backing\.capacity: 3 pages of 16 tokens are needed, 2 of 12 are free.*release"
    refused(cache, CapacityError, message, cache.admit, "three", reserve=48)
    assert harness.admit("three", 0, reserve=32) == 2
    harness.check()


@pytest.mark.parametrize("reserve", [97, -1, 10**9])
def test_admit_names_max_tokens(harness, reserve):
    cache = harness.cache
    message = rf"max_tokens: admit 'x' needs {reserve} tokens, the limit is 96"
    refused(cache, CapacityError, message, cache.admit, "x", reserve=reserve)


def test_a_running_request_is_not_admitted_again(harness):
    cache = harness.cache
    harness.admit("request", 20)
    refused(cache, StateError, "admit 'request': .*running.*release it", cache.admit, "request")


@pytest.mark.parametrize("verb", ["release", "length", "truncate", "prefill", "read"])
def test_an_unknown_request_is_refused(harness, verb):
    cache = harness.cache
    more = {"truncate": [1], "prefill": [0, records(1)], "read": [0, 0, 1]}.get(verb, [])
    call = getattr(cache, verb)
    refused(cache, StateError, "'nobody': is not running.*admit it", call, "nobody", *more)
    harness.admit("request", 20)
    harness.release("request")
    refused(cache, StateError, "'request': is not running", call, "request", *more)


# --- prefill and read ---


def test_prefill_comes_in_chunks(harness):
    harness.admit("request")
    for end in (1, 16, 17, 33, 60):
        harness.prefill("request", [max(harness.requests["request"].length)] * 2, end)
        harness.check()
    for layer in range(3):
        harness.read("request", layer, 0, 60)
        harness.read("request", layer, 15, 17)
        harness.read("request", layer, 60, 60)


def test_prefill_over_what_was_written_drops_the_rest(harness):
    cache = harness.cache
    harness.admit("request", 60)
    harness.prefill("request", [30, 20], 40)
    assert cache.length("request") == 40
    harness.check()
    harness.read("request", 0, 0, 40)
    message = r"read 'request', layer 0: the range must lie within 40 tokens"
    refused(cache, StateError, message, cache.read, "request", 0, 0, 41)


def test_prefill_never_rewrites_what_is_stable(harness):
    cache = harness.cache
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], IDS)
    for start in (39, 42, -1):
        message = rf"prefill 'request', layer 0.*start must be 40 to 41, got {start}"
        refused(cache, StateError, message, cache.prefill, "request", 0, records(1), start=start)
    harness.prefill("request", [40, 41], 50)
    harness.step([Row(lane, 51, 1, 50)], [[[39, 40, 41, 45, 49, 50]]])
    harness.check()


def test_prefill_that_does_not_fit_changes_nothing(harness):
    cache = harness.cache
    harness.admit("one", 96)
    harness.admit("two", 90)
    message = r"max_tokens: prefill 'two', layer 0 needs 97 tokens"
    refused(cache, CapacityError, message, cache.prefill, "two", 0, records(7), start=90)
    harness.admit("three")
    message = r"backing\.capacity: 1 pages .* 0 of 12 are free"
    refused(cache, CapacityError, message, cache.prefill, "three", 0, records(1))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (records(3)[:, :63], ShapeError, r"whole records must be uint8 \[3, 64\].*63"),
        (records(3).float(), ShapeError, "whole records must be uint8"),
        ({"kee": torch.zeros(3, 8)}, ShapeError, "unknown part, got 'kee'.*did you mean key"),
        ({"key": torch.zeros(3, 9)}, ShapeError, r"key.*\[3, 8\].*9"),
        ({"key": torch.zeros(3, 8)}, StateError, "tiered parts come together"),
    ],
)
def test_prefill_checks_its_records(harness, given, error, message):
    cache = harness.cache
    harness.admit("request", 20)
    refused(cache, error, rf"prefill 'request', layer 1.*{message}", cache.prefill, "request", 1,
            given, start=20)  # fmt: skip


@pytest.mark.parametrize("layer", [-1, 3])
def test_unknown_layers_are_refused(harness, layer):
    cache = harness.cache
    harness.admit("request", 20)
    message = rf"'request', layer {layer}: the model has layers 0 to 2"
    refused(cache, StateError, message, cache.prefill, "request", layer, records(1), start=20)
    refused(cache, StateError, message, cache.read, "request", layer, 0, 1)


@pytest.mark.parametrize("span", [(-1, 3), (5, 3), (0, 21), (21, 21)])
def test_reads_lie_within_what_was_written(harness, span):
    cache = harness.cache
    harness.admit("request", 20)
    message = "range must lie within 20 tokens, got"
    refused(cache, StateError, message, cache.read, "request", 0, *span)


class NoWrite(FileTier):
    """Cannot write one row."""

    bad = -1

    def write(self, layer, rows, written):
        if self.bad in rows.tolist():
            raise TierError(f"no-write tier: layer {layer}, row {self.bad} cannot be written")
        return super().write(layer, rows, written)


def test_a_prefill_that_cannot_be_written_can_be_repeated():
    with assemble(SHAPE, policy="fifo", backing=choice(NoWrite)) as cache:
        harness = Harness(cache, partial(MODELS["fifo"], SHAPE.slots))
        lane = harness.admit("request", 30)
        cache.site.backing.bad = int(cache.paging.rows(lane, 25, 26))
        with pytest.raises(TierError, match=f"row {cache.site.backing.bad}"):
            cache.prefill("request", 0, records(10), start=20)
        assert cache.length("request") <= 30
        cache.site.backing.bad = -1
        harness.prefill("request", [20, 30], 40)
        harness.step([Row(lane, 41, 1, 40)], [[[20, 25, 29, 30, 39, 40]]])
        harness.check()


# --- truncate ---


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 39, 40, 41])
def test_truncate_shortens_every_layer(harness, length):
    cache = harness.cache
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], [[[0, 8, 15, 16, 17, 39]]])
    for _ in range(2):  # twice is once
        harness.truncate("request", length)
        harness.check()
        assert cache.length("request") == length
        assert cache.stats().pages_used == -(-length // 16)
        for policy in cache.site.policies:
            kept = set(residents(policy)[lane].values())
            assert kept == {id for id in (0, 8, 15, 16, 17, 39) if id < length}
    harness.prefill("request", [length] * 2, 45)
    harness.step([Row(lane, 46, 1, 45)], [[[0, 8, 15, 16, 17, 44]]])
    harness.check()


@pytest.mark.parametrize("length", [-1, 42, 96])
def test_truncate_never_lengthens(harness, length):
    cache = harness.cache
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], IDS)
    message = rf"truncate 'request': length must be 0 to 41, got {length}"
    refused(cache, StateError, message, cache.truncate, "request", length)


def test_truncate_brings_groups_together_again(harness):
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 43, 3, 40)], {0: [[[1, 2, 3, 40, 41, 42]] * 3]})
    assert harness.cache.length("request") == 40
    harness.truncate("request", 42)
    assert harness.cache.length("request") == 40
    harness.truncate("request", 40)
    harness.step([Row(lane, 41, 1, 40)], IDS)
    harness.check()


# --- release ---


def test_release_leaves_a_cold_lane_and_free_pages(harness):
    cache = harness.cache
    lane = harness.admit("request", 40)
    other = harness.admit("other", 40)
    rows = [Row(lane, 41, 1, 40), Row(other, 41, 1, 40)]
    harness.step(rows, IDS * 2)
    warm = [residents(policy)[other] for policy in cache.site.policies]
    harness.release("request")
    assert cache.stats().lanes_used == 1
    assert cache.stats().pages_used == 3
    for policy, kept in zip(cache.site.policies, warm, strict=True):
        assert residents(policy)[lane] == {}
        assert residents(policy)[other] == kept
    refused(cache, StateError, f"lane {lane}: no request runs there", cache.step, [lane], [41])
    refused(cache, StateError, "'request': is not running", cache.release, "request")
    harness.check()


def test_residency_follows_the_request_not_the_lane(harness):
    lane = harness.admit("request", 40)
    harness.step([Row(lane, 41, 1, 40)], IDS)
    harness.release("request")
    harness.admit("filler", 10)
    again = harness.admit("request", 40)
    assert again != lane
    harness.step([Row(again, 41, 1, 40)], IDS)
    harness.check()
    assert harness.cache.stats().hit_rate == 0


def test_preempted_requests_come_back(harness):
    """What a scheduler does on CapacityError: release, and prefill again later."""
    lanes = [harness.admit(name, 80) for name in range(2)]
    harness.admit("victim", 32)
    with pytest.raises(CapacityError):
        harness.step([Row(lane, 82, 2, 80) for lane in lanes], [[[1, 2, 3, 4, 80, 81]] * 2] * 2)
    harness.release("victim")
    harness.step([Row(lane, 82, 2, 80) for lane in lanes], [[[1, 2, 3, 4, 80, 81]] * 2] * 2)
    harness.release(0)
    lane = harness.admit("victim", 33)
    harness.step([Row(lane, 34, 1, 33)], IDS)
    harness.check()


def test_case_18_ten_thousand_requests_leave_nothing():
    with assemble(replace(SHAPE, groups=((0,),))) as cache:

        def serve(count):
            for number in range(count):
                lane = cache.admit(("request", number), reserve=40)
                if number % 50 == 0:
                    cache.prefill(("request", number), 0, records(20))
                    with cache.step([lane], [21]) as step:
                        step.append(0, torch.zeros((1, 1, 64), dtype=torch.uint8))
                        step.select(0, torch.tensor(IDS, dtype=torch.int32))
                cache.release(("request", number))

        serve(300)
        gc.collect()
        objects = len(gc.get_objects())
        tracemalloc.start()
        serve(9_700)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(gc.get_objects()) - objects < 300
        assert left < 100_000
        stats = cache.stats()
        assert (stats.lanes_used, stats.pages_used) == (0, 0)
        lanes = [cache.admit(number, reserve=48) for number in range(4)]
        assert sorted(lanes) == [0, 1, 2, 3]
        assert cache.stats().pages_used == 12


# --- the cache itself ---


@pytest.mark.parametrize(
    ("batch", "queries", "message"),
    [
        (5, 1, "stepper, batch: must be 1 to lanes 4, got 5"),
        (0, 1, "stepper, batch: must be 1 to lanes 4, got 0"),
        (2, 4, "stepper, queries: must be 1 to queries 3, got 4"),
        (2, 0, "stepper, queries: must be 1 to queries 3, got 0"),
    ],
)
def test_a_stepper_has_the_size_that_was_configured(harness, batch, queries, message):
    refused(harness.cache, CapacityError, message, harness.cache.stepper, batch, queries)


def test_stats_count_and_say_what_is_taken(harness):
    cache = harness.cache
    lane = harness.admit("request", 40)
    for step in range(3):
        harness.step([Row(lane, 41 + step, 1, 40 + step)], [[[1, 2, 3, 3, 40 + step, 90]]])
    stats = cache.stats()
    group = stats.groups[1]
    assert group.layers == (1, 2)
    assert (stats.steps, group.hits, group.misses, group.window, group.future) == (3, 8, 4, 3, 3)
    assert (group.unique_hits, group.unique_misses, group.fetched) == (6, 3, 3)
    assert stats.hit_rate == group.hit_rate == 8 / 12
    assert group.unique_hit_rate == 6 / 9
    assert stats.fetched_bytes == 3 * 64 * 3
    assert stats.pages == 12
    assert stats.backing_bytes == 12 * 16 * 64 * 3
    assert stats.device_bytes >= 4 * 16 * 64 * 3
    assert stats.table_bytes >= 2 * 4 * (96 * 2 + 16 * 4)


def test_two_caches_do_not_know_of_each_other():
    with assemble(SHAPE) as one, assemble(SHAPE) as other:
        for cache, fill in ((one, 1), (other, 2)):
            cache.admit("request")
            cache.prefill("request", 0, records(5, fill))
        assert one.read("request", 0, 0, 5)["key"].view(torch.uint8).unique().tolist() == [1]
        assert other.stats().pages_used == 1


def test_close_twice_is_fine():
    cache = assemble(SHAPE, backing="file")
    cache.close()
    cache.close()


@pytest.mark.parametrize("ends", ["close", "goes"])
def test_memory_goes_back_once_an_accelerator_is_done_with_it(monkeypatch, ends):
    order = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: order.append(str(device)))
    cache = assemble(replace(SHAPE, pages=7))
    limits = replace(cache.limits, device=torch.device("cuda", 0))
    cache = TieredCache(
        replace(cache.site, limits=limits), cache.planner, cache.server, cache.installer,
        cache.footprint,
    )  # fmt: skip
    monkeypatch.setattr(cache.installer, "drain", lambda lanes=None: order.append("drain"))
    monkeypatch.setattr(cache.site.backing, "close", lambda: order.append("backing"))
    if ends == "close":
        cache.close()
    else:
        del cache
        gc.collect()
    assert order == ["drain", "cuda:0", "backing"][: 3 if ends == "close" else 2]
