"""What recording costs a step: steps with and without it, at random in turn."""

import time
from statistics import median

import numpy as np
import torch

import tierkv
from tierkv.trace import Shape, open_trace, synthesize
from tierkv.trace.recorder import Recorder

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 512, torch.bfloat16), tierkv.Part("rope", 64, torch.bfloat16))
)
GROUPS = [[0, 1, 2, 3], [4, 5, 6, 7]]
WARMUP = 20


@torch.inference_mode()
def test_record(benchmark, tmp_path):
    top_k, context, count = (2048, 16_384, 1000) if benchmark.enabled else (32, 512, 40)
    spec = tierkv.ModelSpec.uniform("bench", top_k, GROUPS, LAYOUT)
    shape = Shape(steps=count, context=context, top_k=top_k, groups=len(GROUPS))
    trace = synthesize("stack", shape).held()
    ids = torch.from_numpy(trace.ids())
    flags = np.random.default_rng(0).integers(0, 2, count).astype(bool)
    record = torch.zeros(1, 1, LAYOUT.stride, dtype=torch.uint8)
    seconds = {True: [], False: []}
    source = {"pool": {"slots": 2 * top_k}, "policy": "clock"}
    with tierkv.load(source, model=spec, max_tokens=context + count) as cache:
        lane = cache.admit("request")
        tokens = torch.zeros(context - 1, LAYOUT.stride, dtype=torch.uint8)
        for layer in range(len(spec.layouts)):
            cache.prefill("request", layer, tokens)
        stepper = cache.stepper(1)
        recorder = Recorder(cache, tmp_path / "a.npz")
        take = cache.after_step
        number = 0

        def step():
            nonlocal number
            cache.after_step = take if flags[number] else None
            start = time.perf_counter()
            with stepper.begin([lane], [context + number]) as step:
                for layer in range(len(spec.layouts)):
                    step.append(layer, record)
                    step.select(layer, ids[number, layer // 4] if layer % 4 == 0 else None)
            if number >= WARMUP:
                seconds[bool(flags[number])].append(time.perf_counter() - start)
            number += 1

        benchmark.pedantic(step, rounds=count)
        while number < count:  # as a test it runs once
            step()
        recorder.close()
    recorded = open_trace(tmp_path / "a.npz")
    assert recorded.steps + recorder.dropped == flags.sum()
    for row in (0, -1):
        asked = trace.ids()[recorded.kv_len[row, 0] - context, :, 0, 0]
        np.testing.assert_array_equal(recorded.ids()[row, :, 0, 0], asked)
    plain, with_it = median(seconds[False]), median(seconds[True])
    benchmark.extra_info |= {
        "plain_us": plain * 1e6,
        "recorded_us": with_it * 1e6,
        "cost": with_it / plain - 1,
        "dropped": recorder.dropped,
    }
