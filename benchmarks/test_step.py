"""A whole ``select`` at real sizes: plan, serve, place and install, against a plain copy.

Rows of 1152 bytes, K = 2048, 8192 slots, 64K tokens a lane, one group of an owner and a follower.
Run as tests, every case uses small sizes.
"""

import time
from statistics import median

import pytest
import torch


@pytest.mark.parametrize("hit_rate", [0.6, 0.9, 1.0])
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("lanes", [1, 8, 32])
@torch.inference_mode()
def test_select(benchmark, traffic, lanes, queries, hit_rate):
    full = benchmark.enabled
    running = traffic(lanes, queries, hit_rate, full, "inline")
    rows = lanes * queries * running.top_k
    source, target = torch.ones(2, rows, running.stride, dtype=torch.uint8)
    copies, owners, followers = [], [], []

    def setup():
        start = time.perf_counter()
        target.copy_(source)
        copies.append(time.perf_counter() - start)
        return (running.ids(hit_rate),), {}

    def select(ids):
        owner, follower = running.run(ids)
        owners.append(owner)
        followers.append(follower)

    before = running.cache.stats().groups[0]
    benchmark.pedantic(select, setup=setup, rounds=15 if full else 1, warmup_rounds=1)
    after = running.cache.stats().groups[0]
    hits, misses = after.hits - before.hits, after.misses - before.misses
    assert hits / (hits + misses) == pytest.approx(hit_rate, abs=0.05)
    benchmark.extra_info |= {
        "hit_rate": hits / (hits + misses),
        "bytes": rows * running.stride,
        "owner_ms": median(owners) * 1e3,
        "follower_ms": median(followers) * 1e3,
        "limit_ratio": median(copies) / median(followers),
        "threads": torch.get_num_threads(),
        "ops": running.cache.site.ops.name,
    }
