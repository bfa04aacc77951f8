"""What a step costs the host beside its layers: begin and end, 78 layers in 21 groups."""

import time
from itertools import pairwise
from statistics import median

import pytest
import torch

import tierkv
from tierkv.testing.assemble import LAYOUT

GROUPS = [[0], [1], [2], *[list(range(first, min(first + 4, 78))) for first in range(3, 78, 4)]]
SPEC = tierkv.ModelSpec.uniform("bench", 16, GROUPS, LAYOUT)
QUERIES, CONTEXT = 4, 4096


@pytest.mark.parametrize("lanes", [1, 32])
@torch.inference_mode()
def test_begin_and_end(benchmark, lanes):
    config = {"pool": {"slots": 64}, "backing": {"capacity": "2GiB", "page": 128}}
    batch = list(range(lanes))
    with tierkv.load(
        config, model=SPEC, lanes=lanes, max_tokens=CONTEXT + 1024, queries=QUERIES
    ) as cache:
        records = torch.zeros(CONTEXT, LAYOUT.stride, dtype=torch.uint8)
        for name in batch:
            cache.admit(name)
            for layer in range(78):
                cache.prefill(name, layer, records)
        stepper, new = cache.stepper(lanes, QUERIES), records[: lanes * QUERIES]
        new = new.view(lanes, QUERIES, LAYOUT.stride)
        ids = torch.full((lanes, QUERIES, 16), -1, dtype=torch.int32)
        begins, ends = [], []

        def step():
            times = [time.perf_counter()]
            opened = stepper.begin(batch, [CONTEXT + QUERIES + len(begins)] * lanes)
            times.append(time.perf_counter())
            with opened:
                for layer in range(78):
                    opened.append(layer, new)
                    opened.select(layer, ids if layer == cache.owner_of[layer] else None)
                layers = time.perf_counter()
            times += [layers, time.perf_counter()]
            begin, _, end = (b - a for a, b in pairwise(times))
            begins.append(begin)
            ends.append(end)

        benchmark.pedantic(step, rounds=100, warmup_rounds=2)
    benchmark.extra_info |= {"begin_us": median(begins) * 1e6, "end_us": median(ends) * 1e6}
