"""What one ``select`` costs when the kernels do nothing: Python, dispatcher, argument passing."""

import time
from itertools import pairwise
from statistics import median

import attrs
import pytest
import torch

import tierkv
from tierkv import build, config
from tierkv.ops import Ops
from tierkv.ops.schemas import BEHIND_THE_STEP, SCHEMAS

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 512, torch.bfloat16), tierkv.Part("rope", 64, torch.bfloat16))
)
SPEC = tierkv.ModelSpec.uniform("bench", 16, [[0, 1, 2, 3]], LAYOUT)
CONTEXT = 64


def noop_library():
    """Define every operator without work, and a bare one with two lists of two parts."""
    library = torch.library.Library("tierkv_noop", "FRAGMENT")
    for name, schema in {**SCHEMAS, "bare": "(Tensor[] parts, Tensor(a!)[] out) -> ()"}.items():
        library.define(name + schema)
        library.impl(name, lambda *_: None, "CPU")
    return library


LIBRARY = noop_library()


def noop_cache(schedule):
    settings = config.read(
        {"pool": {"slots": 64}, "installer": {"schedule": schedule}}, model=SPEC, max_tokens=16_384
    )
    ops = Ops(
        "noop", "tierkv_noop", start_worker=lambda: None,
        direct=dict.fromkeys(BEHIND_THE_STEP, lambda *_: None),
    )  # fmt: skip
    return build.build(attrs.evolve(settings, ops=config.Choice("noop", ops, None)))


@pytest.mark.parametrize("schedule", ["inline", "worker"])
@torch.inference_mode()
def test_select_without_kernels(benchmark, schedule):
    cache = noop_cache(schedule)
    lane = cache.admit("request")
    for layer in range(4):
        cache.prefill("request", layer, torch.zeros(CONTEXT, LAYOUT.stride, dtype=torch.uint8))
    stepper = cache.stepper(1)
    ids = torch.zeros(1, 1, 16, dtype=torch.int32)
    record = torch.zeros(1, 1, LAYOUT.stride, dtype=torch.uint8)
    bare, parts = torch.ops.tierkv_noop.bare.default, [record, record.clone()]
    owners, followers, calls = [], [], []

    def step():
        kv_len = CONTEXT + len(owners) + 1
        with stepper.begin([lane], [kv_len]) as step:
            for layer in range(4):
                step.append(layer, record)
            times = [time.perf_counter()]
            for layer in range(4):
                step.select(layer, ids if layer == 0 else None)
                times.append(time.perf_counter())
            bare(parts, parts)
            times.append(time.perf_counter())
        owner, follower, _, _, call = (b - a for a, b in pairwise(times))
        owners.append(owner)
        followers.append(follower)
        calls.append(call)

    benchmark.pedantic(step, rounds=2000, warmup_rounds=1)
    assert cache.stats().steps == 0, "an operator did its work"
    benchmark.extra_info |= {
        "owner_us": median(owners) * 1e6,
        "follower_us": median(followers) * 1e6,
        "bare_us": median(calls) * 1e6,
        "owner_ratio": median(owners) / median(calls),
        "follower_ratio": median(followers) / median(calls),
    }
