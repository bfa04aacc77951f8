"""Working memory that an earlier, larger batch left behind changes nothing."""

import pytest
import torch

import tierkv
from tierkv.ops import NATIVE

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 8, torch.int32),))


def misses_once(slots):
    """Run one step that misses one id, in a pool of `slots`; give its counts."""
    spec = tierkv.ModelSpec.uniform("test", 4, [[0]], LAYOUT)
    config = {"ops": "native", "pool": {"slots": slots}, "policy": "unbounded"}
    with tierkv.load(config, model=spec, lanes=1, max_tokens=slots) as cache:
        lane = cache.admit("a")
        stop = slots - 2
        records = {"kv": torch.zeros(stop, 8, dtype=torch.int32)}
        cache.prefill("a", 0, records)
        for _ in range(2):  # missed, then hit
            with cache.step([lane], [stop + 1], stable=[stop]) as step:
                step.append(0, {"kv": torch.zeros(1, 1, 8, dtype=torch.int32)})
                step.select(0, torch.tensor([[[stop - 1, -1, -1, -1]]], dtype=torch.int32))
            cache.truncate("a", stop)
        return cache.stats().groups[0]


@pytest.mark.skipif(NATIVE is None, reason="installed without a compiler")
def test_a_wide_pool_before_a_narrow_one():
    small = misses_once(256)
    misses_once(70_000)
    assert misses_once(256) == small
    assert (small.unique_hits, small.unique_misses) == (1, 1)
