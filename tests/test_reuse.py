"""``step.reuse``: equal to selecting again, or refused; and ``warm``."""

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 8, torch.int32),))
SPEC = tierkv.ModelSpec.uniform("test", 6, [[0, 1], [2]], LAYOUT)
DRAFT = 2  # a group of its own, stepped alone


@pytest.fixture
def cache():
    config = {"pool": {"slots": 16}, "policy": "lru", "backing": {"page": 16}}
    with tierkv.load(config, model=SPEC, lanes=3, max_tokens=128, queries=2) as cache:
        for request in ("a", "b"):
            cache.admit(request)
            for layer in range(3):
                cache.prefill(request, layer, {"kv": rows(0, 40)})
        yield cache


def rows(start, stop, mark=0):
    return (torch.arange(start, stop, dtype=torch.int32)[:, None] + mark).repeat(1, 8)


def draft(stepper, kv_len, ids=None, mark=0, lanes=(0, 1), fail=None):
    """Step the draft layer alone; select `ids`, or use the last selection again."""
    new = torch.stack([rows(n - 1, n, mark) for n in kv_len])
    with stepper.begin(lanes, kv_len, stable=[40] * 2) as step:
        step.append(DRAFT, {"kv": new})
        kept = step.select(DRAFT, ids) if ids is not None else step.reuse(DRAFT)
        if fail:
            raise fail
    return kept


IDS = torch.tensor([[[3, 39, 40, 0, -1, 7]], [[1, 2, 3, 4, 5, 40]]], dtype=torch.int32)


def test_after_nothing_changed_it_equals_selecting_again(cache):
    stepper = cache.stepper(2)
    draft(stepper, [41, 41], IDS)
    again = draft(stepper, [42, 42])
    kept = {name: getattr(again, name).clone() for name in ("records", "ids", "length")}
    anew = draft(stepper, [43, 43], kept["ids"])
    for name, tensor in kept.items():
        assert torch.equal(tensor, getattr(anew, name))
    assert cache.stats().groups[1].reused == int(kept["length"].sum())


def test_it_goes_on_over_several_steps(cache):
    stepper = cache.stepper(2)
    first = draft(stepper, [41, 41], IDS).records.clone()
    for length in (42, 43, 44):
        assert torch.equal(draft(stepper, [length, length]).records, first)


def refused(stepper, kv_len, match, **options):
    with pytest.raises(tierkv.StateError, match=match):
        draft(stepper, kv_len, **options)


def test_rewritten_drafts_refuse_it(cache):
    stepper = cache.stepper(2)
    draft(stepper, [41, 41], IDS)
    refused(stepper, [41, 42], "rewrites position 40", mark=5)


def test_drafts_rewritten_by_another_stepper_refuse_it(cache):
    stepper, other = cache.stepper(2), cache.stepper(1)
    draft(stepper, [41, 41], IDS)
    with other.begin([1], [41], stable=[40]) as step:
        step.append(DRAFT, {"kv": rows(40, 41, 9)[None]})
        step.select(DRAFT, IDS[1:])
    refused(stepper, [42, 42], "no selection")


@pytest.mark.parametrize("change", ["truncate", "prefill", "release"])
def test_cold_calls_refuse_it(cache, change):
    stepper = cache.stepper(2)
    draft(stepper, [41, 41], IDS)
    if change == "truncate":
        cache.truncate("b", 41)
    elif change == "prefill":
        cache.prefill("b", DRAFT, {"kv": rows(41, 42)}, start=41)
    else:
        cache.release("b")
        cache.admit("c")
        cache.prefill("c", DRAFT, {"kv": rows(0, 41, 3)})
    length = 43 if change == "prefill" else 42
    refused(stepper, [42, length], "changed since")


def test_other_lanes_queries_or_buffers_refuse_it(cache):
    stepper = cache.stepper(2)
    refused(stepper, [41, 41], "no selection")
    draft(stepper, [41, 41], IDS)
    refused(stepper, [42, 42], "other lanes", lanes=[1, 0])
    draft(stepper, [41, 41], IDS)
    with stepper.begin([0, 1], [41, 41]) as step:  # layer 0 shares the draft layer's buffer
        for layer in (0, 1):
            step.append(layer, {"kv": torch.stack([rows(40, 41), rows(40, 41)])})
            step.select(layer, IDS if layer == 0 else None)
    refused(stepper, [42, 42], "another layer")


def test_a_failed_step_leaves_nothing_to_use_again(cache):
    stepper = cache.stepper(2)
    draft(stepper, [41, 41], IDS)
    with pytest.raises(RuntimeError, match="attention"):
        draft(stepper, [42, 42], IDS, fail=RuntimeError("attention"))
    refused(stepper, [42, 42], "no selection")


def test_two_steppers_are_open_at_once(cache):
    one, other = cache.stepper(1), cache.stepper(1)
    with one.begin([0], [41]) as first, other.begin([1], [41]) as second:
        kept = []
        for step, mark in ((first, 0), (second, 50)):
            step.append(0, {"kv": rows(40, 41, mark)[None]})
            kept.append(step.select(0, IDS[:1]))
        assert kept[0]["kv"][0, 0, :, 0].tolist() == [3, 39, 40, 0, 7, 0]
        assert kept[1]["kv"][0, 0, :, 0].tolist() == [3, 39, 90, 0, 7, 0]
        for step, mark in ((first, 0), (second, 50)):
            step.append(1, {"kv": rows(40, 41, mark)[None]})
            step.select(1)


def test_a_third_stepper_without_buffers_of_its_own_is_refused(cache):
    steppers = [cache.stepper(2), cache.stepper(2)]
    with steppers[0].begin([0, -1], [41, 0]) as step:
        with pytest.raises(tierkv.StateError, match="same buffers"):
            steppers[1].begin([1, -1], [41, 0])
        for layer in (0, 1):
            step.append(layer, {"kv": rows(40, 42).view(2, 1, 8)})
            step.select(layer, IDS if layer == 0 else None)


def test_warm_makes_the_first_step_hit_in_every_layer(cache):
    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [4, 5, 6, 7, -1, 60]], dtype=torch.int32)
    before = cache.stats()
    cache.warm("a", 0, ids)
    assert cache.stats() == before
    with cache.step([0], [41]) as step:
        for layer in (0, 1):
            step.append(layer, {"kv": rows(40, 41)[None]})
            kv = step.select(layer, ids[1:, None] if layer == 0 else None)
            assert kv["kv"][0, 0, :, 0].tolist() == [4, 5, 6, 7, 0, 0]
    group = cache.stats().groups[0]
    assert (group.hits, group.misses) == (4, 0)


def test_warm_refuses_followers_wrong_ids_and_open_steps(cache):
    ids = torch.zeros(1, 6, dtype=torch.int32)
    with pytest.raises(tierkv.StateError, match="pass layer 0"):
        cache.warm("a", 1, ids)
    with pytest.raises(tierkv.ShapeError, match="int32"):
        cache.warm("a", 0, ids.long())
    with pytest.raises(tierkv.StateError, match="a step is open"), cache.step([1], [41]):
        cache.warm("a", 0, ids)
