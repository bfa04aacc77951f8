"""A whole ``select`` at real sizes: plan, serve, place and install, against a plain copy.

Rows of 1152 bytes, K = 2048, 8192 slots, 64K tokens a lane, one group of an owner and a follower.
Run as tests, every case uses small sizes.
"""

import itertools
import time
from statistics import median

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 512, torch.bfloat16), tierkv.Part("rope", 64, torch.bfloat16))
)


class Traffic:
    """A running cache and selections that hit at a wanted rate."""

    def __init__(self, lanes, queries, hit_rate, full, schedule):
        self.queries, self.hit_rate = queries, hit_rate
        self.top_k, self.context, slots = (2048, 65_536, 8192) if full else (32, 512, 128)
        spec = tierkv.ModelSpec.uniform("bench", self.top_k, [[0, 1]], LAYOUT)
        config = {
            "pool": {"slots": slots},
            "policy": {"use": "clock", "ways": 64},
            "installer": {"schedule": schedule},
        }
        room = self.context + 4096
        self.cache = tierkv.load(config, model=spec, lanes=lanes, max_tokens=room, queries=queries)
        self.lanes = [self.cache.admit(f"request {number}") for number in range(lanes)]
        records = torch.randint(0, 255, (self.context, LAYOUT.stride), dtype=torch.uint8)
        for number, layer in itertools.product(range(lanes), (0, 1)):
            self.cache.prefill(f"request {number}", layer, records)
        self.stepper = self.cache.stepper(lanes, queries)
        self.fresh = torch.zeros(lanes, queries, LAYOUT.stride, dtype=torch.uint8)
        self.kv_len = self.context
        self.random = torch.Generator().manual_seed(0)
        for _ in range(8):  # until the pool is full
            self.run(self.ids(0.5))

    def ids(self, hit_rate):
        """Draw [B, Q, K] ids of which `hit_rate` are resident, each query's in random order."""
        policy = self.cache.site.policies[0]
        rows = []
        for lane in self.lanes:
            near = policy.id_at[lane][policy.id_at[lane] >= 0]
            absent = torch.ones(self.context, dtype=torch.bool)
            absent[near[near < self.context].long()] = False
            far = absent.nonzero().flatten().int()
            for _ in range(self.queries):
                hits = min(round(self.top_k * hit_rate), len(near))
                picked = torch.cat([self.draw(near, hits), self.draw(far, self.top_k - hits)])
                rows.append(self.draw(picked, self.top_k))
        return torch.stack(rows).view(len(self.lanes), self.queries, self.top_k)

    def draw(self, values, count):
        return values[torch.randperm(len(values), generator=self.random)[:count]]

    def run(self, ids):
        """Make one step; give the seconds that owner and follower took in ``select``."""
        kv_len = [self.kv_len + self.queries] * len(self.lanes)
        with self.stepper.begin(self.lanes, kv_len) as step:
            step.append(0, self.fresh)
            step.append(1, self.fresh)
            start = time.perf_counter()
            step.select(0, ids)
            middle = time.perf_counter()
            step.select(1)
            end = time.perf_counter()
        return middle - start, end - middle


@pytest.mark.parametrize("hit_rate", [0.6, 0.9, 1.0])
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("lanes", [1, 8, 32])
@torch.inference_mode()
def test_select(benchmark, lanes, queries, hit_rate):
    full = benchmark.enabled
    traffic = Traffic(lanes, queries, hit_rate, full, "inline")
    rows = lanes * queries * traffic.top_k
    source, target = torch.ones(2, rows, LAYOUT.stride, dtype=torch.uint8)
    copies, owners, followers = [], [], []

    def setup():
        start = time.perf_counter()
        target.copy_(source)
        copies.append(time.perf_counter() - start)
        return (traffic.ids(hit_rate),), {}

    def select(ids):
        owner, follower = traffic.run(ids)
        owners.append(owner)
        followers.append(follower)

    before = traffic.cache.stats().groups[0]
    benchmark.pedantic(select, setup=setup, rounds=15 if full else 1, warmup_rounds=1)
    after = traffic.cache.stats().groups[0]
    hits, misses = after.hits - before.hits, after.misses - before.misses
    assert hits / (hits + misses) == pytest.approx(hit_rate, abs=0.05)
    benchmark.extra_info |= {
        "hit_rate": hits / (hits + misses),
        "bytes": rows * LAYOUT.stride,
        "owner_ms": median(owners) * 1e3,
        "follower_ms": median(followers) * 1e3,
        "limit_ratio": median(copies) / median(followers),
        "threads": torch.get_num_threads(),
        "ops": traffic.cache.site.ops.name,
    }
