"""The fused gather against copies out of a pool, both keeping the last selection.

Selections overlap from step to step; rows of 1152 bytes, K = 2048, 64K tokens a lane, one group of
one layer. Run as tests, every case uses small sizes.
"""

import time
from statistics import median

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 512, torch.bfloat16), tierkv.Part("rope", 64, torch.bfloat16))
)
COPIES = {"planner": {"use": "table"}, "server": {"use": "copy"}, "installer": {"use": "copy"}}


class Contender:
    """A cache of full lanes under one scheme."""

    def __init__(self, config, lanes, top_k, context):
        spec = tierkv.ModelSpec.uniform("bench", top_k, [[0]], LAYOUT)
        config = config | {"pool": {"slots": top_k}, "policy": "last-step"}
        self.cache = tierkv.load(config, model=spec, lanes=lanes, max_tokens=context + 256)
        self.lanes = [self.cache.admit(number) for number in range(lanes)]
        records = torch.randint(0, 255, (context, LAYOUT.stride), dtype=torch.uint8)
        for number in range(lanes):
            self.cache.prefill(number, 0, records)
        self.stepper = self.cache.stepper(lanes)
        self.fresh = torch.zeros(lanes, 1, LAYOUT.stride, dtype=torch.uint8)
        self.kv_len, self.times = context, []

    def step(self, ids):
        self.kv_len += 1
        with self.stepper.begin(self.lanes, [self.kv_len] * len(self.lanes)) as step:
            step.append(0, self.fresh)
            start = time.perf_counter()
            step.select(0, ids)
            self.times.append(time.perf_counter() - start)


def following(ids, overlap, context, random):
    """Keep a share of each row [B, 1, K] of ids, draw the rest anew, in random order."""
    rows = []
    for row in ids[:, 0]:
        kept = row[torch.randperm(len(row), generator=random)[: round(overlap * len(row))]]
        other = torch.ones(context, dtype=torch.bool)
        other[row.long()] = False
        drawn = other.nonzero().flatten().int()
        picked = torch.randperm(len(drawn), generator=random)[: len(row) - len(kept)]
        new = torch.cat([kept, drawn[picked]])
        rows.append(new[torch.randperm(len(new), generator=random)])
    return torch.stack(rows)[:, None]


@pytest.mark.parametrize("overlap", [0.6, 0.9])
@pytest.mark.parametrize("lanes", [1, 8])
@torch.inference_mode()
def test_gather(benchmark, lanes, overlap):
    full = benchmark.enabled
    top_k, context = (2048, 65_536) if full else (32, 512)
    random = torch.Generator().manual_seed(0)
    gather = Contender({"scheme": "dsv32-gather"}, lanes, top_k, context)
    copies = Contender(COPIES, lanes, top_k, context)
    first = [torch.randperm(context, generator=random)[:top_k].int() for _ in range(lanes)]
    ids = torch.stack(first)[:, None]
    rounds = 30 if full else 2

    def setup():
        nonlocal ids
        ids = following(ids, overlap, context, random)
        copies.step(ids)
        return (ids,), {}

    benchmark.pedantic(gather.step, setup=setup, rounds=rounds, warmup_rounds=2)
    one, other = (run.cache.stats().groups[0] for run in (gather, copies))
    assert (one.hits, one.fetched, one.moved) == (other.hits, other.fetched, 0)
    benchmark.extra_info |= {
        "hit_rate": one.hit_rate,
        "gather_ms": median(gather.times) * 1e3,
        "copies_ms": median(copies.times) * 1e3,
        "device_bytes": gather.cache.stats().device_bytes,
        "device_bytes_of_copies": copies.cache.stats().device_bytes,
        "ops": gather.cache.site.ops.name,
    }
