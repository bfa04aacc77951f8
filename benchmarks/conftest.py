"""A running cache with selections that hit at a wanted rate, for the benchmarks of steps."""

import itertools
import time

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 512, torch.bfloat16), tierkv.Part("rope", 64, torch.bfloat16))
)


class Traffic:
    """Lanes of a full context, one group of an owner and a follower, rows of 1152 bytes.

    `full`: K = 2048, 8192 slots, 64K tokens a lane; else small, for runs as a test.
    """

    def __init__(self, lanes, queries, hit_rate, full, schedule):
        self.queries, self.hit_rate, self.stride = queries, hit_rate, LAYOUT.stride
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
        self.cache.installer.drain()  # the worker may still write what is read here
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

    def run(self, ids, attention=lambda: None):
        """Make one step; give the seconds of owner and follower, ``select`` and `attention`."""
        kv_len = [self.kv_len + self.queries] * len(self.lanes)
        with self.stepper.begin(self.lanes, kv_len) as step:
            step.append(0, self.fresh)
            step.append(1, self.fresh)
            start = time.perf_counter()
            step.select(0, ids)
            attention()
            middle = time.perf_counter()
            step.select(1)
            attention()
            end = time.perf_counter()
        return middle - start, end - middle


@pytest.fixture
def traffic():
    """Give the class; a fixture, as benchmark files do not import each other."""
    return Traffic
