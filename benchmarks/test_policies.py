"""Every registered policy on three traces: time of plan and place a step, and hit rate.

    pytest benchmarks/test_policies.py --benchmark-enable --benchmark-group-by=param:slots

Policies of installed plugins take part. ``tierkv replay`` compares more: bounds, sizes, groups.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from tierkv.config import make_registry
from tierkv.errors import ConfigError
from tierkv.ops import NATIVE, REFERENCE
from tierkv.replay import UNBOUNDED, Contender
from tierkv.replay.run import PolicyRun
from tierkv.trace import Shape, Trace, open_trace, synthesize

REGISTRY = make_registry()
REAL = Path(__file__).parent / "traces" / "smollm-topics.npz"
STEPS, FEW = 900, 30
"""When measured, and when only run as a test."""


@cache
def trace_of(kind, steps):
    """Give the steps of one lane and group; a third of them is warm-up."""
    if kind != "real":
        return synthesize(kind, Shape(steps=steps)).held()
    whole = open_trace(REAL)
    chunk = next(whole.chunks(steps))
    ids = np.ascontiguousarray(chunk.ids[:, whole.groups // 2 :][:, :1])
    return Trace.from_arrays(ids, chunk.kv_len, stable=chunk.stable, request=chunk.request)


@pytest.mark.parametrize("slots", ["4K", "8K"])
@pytest.mark.parametrize("kind", ["stack", "drift", "real"])
@pytest.mark.parametrize("policy", REGISTRY.names("policy"))
def test_step(benchmark, policy, kind, slots):
    """Slots are 2 or 4 times K, which is 2048 but on the real trace."""
    trace = trace_of(kind, FEW if benchmark.disabled else STEPS)
    size = trace.top_k * int(slots[0]) // 2
    size = trace.positions if policy == UNBOUNDED else size
    try:
        run = PolicyRun(Contender.parse(policy, REGISTRY), size, trace, NATIVE or REFERENCE)
    except ConfigError as error:
        pytest.skip(str(error))
    warm = trace.steps // 3
    chunks = trace.chunks(1)
    for _ in range(warm):
        run.step(next(chunks))
    run.restart()

    def next_step():
        chunk = next(chunks)
        rows = [np.zeros_like(chunk.kv_len), chunk.kv_len, chunk.q_len, chunk.stable]
        run.load(torch.from_numpy(np.stack(rows))[:, 0])
        return (0, torch.from_numpy(chunk.ids[0, 0].copy())), {}

    benchmark.pedantic(run.place, setup=next_step, rounds=trace.steps - warm)
    group = run.measured().groups[0]
    benchmark.extra_info |= {
        "hit_rate": round(group.hit_rate, 4),
        "unique_hit_rate": round(group.unique_hit_rate, 4),
        "installs_per_step": group.installs / (trace.steps - warm),
        "slots": size,
        "native": run.native,
    }
    assert 0 < group.hit_rate <= 1
