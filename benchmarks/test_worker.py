"""How much of commit and install the worker takes off the step while attention runs."""

import os
import time
from statistics import median

import pytest
import torch


def timed(component, method, spent):
    call = getattr(component, method)

    def run(*arguments):
        start = time.perf_counter()
        result = call(*arguments)
        spent.append(time.perf_counter() - start)
        return result

    setattr(component, method, run)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: worker becomes inline")
@pytest.mark.parametrize("hit_rate", [0.6, 0.9])
@pytest.mark.parametrize("lanes", [1, 8])
@torch.inference_mode()
def test_hidden_share(benchmark, traffic, lanes, hit_rate):
    full = benchmark.enabled
    torch.set_num_threads(1)
    inline, worker = (traffic(lanes, 1, hit_rate, full, name) for name in ("inline", "worker"))
    spent = []
    timed(inline.cache.installer, "commit", spent)
    timed(inline.cache.installer, "install", spent)
    matrix = torch.randn(192, 192)
    repeats = lanes if full else 1  # attention takes longer than the work of a layer
    attentions = []

    def attention():
        start = time.perf_counter()
        for _ in range(repeats):
            torch.matmul(matrix, matrix)
        attentions.append(time.perf_counter() - start)

    times = {"inline": [], "worker": []}

    def both():
        for name, running in (("inline", inline), ("worker", worker)):
            ids = running.ids(hit_rate)
            times[name].append(sum(running.run(ids, attention)))

    benchmark.pedantic(both, rounds=40 if full else 1, warmup_rounds=1)
    worker.cache.installer.drain()
    assert inline.cache.stats() == worker.cache.stats()
    steps = zip(*[iter(spent)] * 3, strict=True)  # commit, install of the owner, of the follower
    work = median([sum(step) for step in steps])
    benchmark.extra_info |= {
        "commit_and_install_us_a_layer": work / 2 * 1e6,
        "attention_us_a_layer": median(attentions) * 1e6,
        "hidden_share": (median(times["inline"]) - median(times["worker"])) / work,
    }
