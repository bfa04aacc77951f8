"""How much of commit and install the worker takes off the step while attention runs."""

import os
import threading
import time
from statistics import median

import pytest
import torch

from tierkv.schedules import make_schedule


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def timed(component, method, spent):
    call = getattr(component, method)

    def run(*arguments):
        run.arguments = arguments
        start = time.perf_counter()
        result = call(*arguments)
        spent.append(time.perf_counter() - start)
        return result

    setattr(component, method, run)
    return lambda: call(*run.arguments)


def overlap(attention, job, rounds):
    """Give attention's speed while another thread runs `job` without pause, 1 is undisturbed.

    No more of the job's time than this can be hidden: cores share caches, memory, and on many
    machines each other's arithmetic.
    """
    stop, alone, disturbed = threading.Event(), [], []

    def work():
        while not stop.is_set():
            job()

    for _ in range(rounds):
        alone.append(seconds(attention))
        stop.clear()
        thread = threading.Thread(target=work)
        thread.start()
        disturbed.append(median(seconds(attention) for _ in range(3)))
        stop.set()
        thread.join()
    return median(alone) / median(disturbed)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: worker becomes inline")
@pytest.mark.parametrize("hit_rate", [0.6, 0.9])
@pytest.mark.parametrize("lanes", [1, 8])
@torch.inference_mode()
def test_hidden_share(benchmark, traffic, lanes, hit_rate):
    full = benchmark.enabled
    torch.set_num_threads(1)
    running = traffic(lanes, 1, hit_rate, full, "inline")
    cache, installer = running.cache, running.cache.installer
    schedules = {
        name: make_schedule(name, cache.site, cache.server.depth) for name in ("inline", "worker")
    }
    spent = []
    timed(schedules["inline"], "place", spent)
    last_copy = timed(schedules["inline"], "copy", spent)
    matrix = torch.randn(192, 192)
    repeats = lanes if full else 1  # attention takes longer than the work of a layer

    def attention():
        for _ in range(repeats):
            torch.matmul(matrix, matrix)

    times = {name: [] for name in schedules}

    def both():
        for name, schedule in schedules.items():
            installer._schedule = schedule
            ids = running.ids(hit_rate)
            times[name].append(sum(running.run(ids, attention)))
            installer.drain()

    benchmark.pedantic(both, rounds=150 if full else 1, warmup_rounds=1)
    won = [a - b for a, b in zip(times["inline"], times["worker"], strict=True)]
    steps = zip(*[iter(spent)] * 3, strict=True)  # owner: place, copy; follower: copy
    work = median([sum(step) for step in steps])
    benchmark.extra_info |= {
        "commit_and_install_us_a_layer": work / 2 * 1e6,
        "attention_us_a_layer": median(seconds(attention) for _ in range(9)) * 1e6,
        "hidden_share": median(won) / work,
        "overlap": overlap(attention, last_copy, 20 if full else 1),
    }
