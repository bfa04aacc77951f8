"""Lengths that stay on the device: no step waits for them."""

import random

import pytest
import torch
from hostsim.npu.device import Order, order

import tierkv
from tierkv.layout import KVLayout, ModelSpec, Part

NPU = "npu:0"
LAYOUT = KVLayout((Part("kv", 16, torch.float16), Part("index", 16, torch.float16, "device")))
SPEC = ModelSpec.uniform("small", 64, [[0], [1, 2]], LAYOUT)
QUERIES, PROMPT, STEPS = 4, 100, 25


def _records(*shape, at):
    """Records that tell layer and position, on the device."""
    return {part.name: at.expand(*shape, part.width).to(part.dtype) for part in LAYOUT.parts}


@pytest.fixture
def cache(kernels, runtime):
    config = {"pool": {"slots": 256}, "policy": "set-fifo", "ops": "ascendc", "device": NPU}
    config["backing"] = {"use": "host", "page": 128}
    with tierkv.load(config, model=SPEC, lanes=2, max_tokens=1024, queries=QUERIES) as cache:
        for name in range(2):
            cache.admit(name)
            for layer in range(3):
                at = torch.arange(PROMPT)[:, None] + layer
                cache.prefill(name, layer, _records(PROMPT, at=at))
        yield cache


def _decode(cache, step, length):
    """Make a step of rows that are so long; give what is served, and what must be."""
    query = torch.arange(QUERIES, device=NPU)
    position = length[:, None] - QUERIES + query
    recent = position[..., None] - torch.arange(64, device=NPU)
    ids = torch.where(recent >= 0, recent, -1).to(torch.int32)
    for layer in range(3):
        step.append(layer, _records(2, QUERIES, at=position[..., None] + layer))
        kept = step.select(layer, ids if layer < 2 else None)
        wanted = ((ids + layer) * (ids >= 0)).to(torch.float16)
        yield kept["kv"][..., 0], wanted


def test_no_step_waits(cache, runtime):
    """Lengths are drawn on the host, and lie on the device as those of a sampler would."""
    draw, length = random.Random(3), [PROMPT, PROMPT]
    served = []
    with order(runtime, Order.LATE):
        torch.npu.synchronize()
        for _ in range(STEPS):
            kv_len = torch.tensor([n + QUERIES for n in length]).pin_memory()
            kv_len = kv_len.to(NPU, non_blocking=True)
            before = runtime.hostnpu_pending()
            with cache.step([0, 1], kv_len, queries=QUERIES) as step:
                served += [(a.clone(), b) for a, b in _decode(cache, step, kv_len)]
            assert runtime.hostnpu_pending() > before, "the step has waited for the device"
            length = [n + draw.randint(1, QUERIES) for n in length]
        torch.npu.synchronize()
        for got, wanted in served:
            assert torch.equal(got, wanted)
    last = kv_len.tolist()
    assert [cache.length(name) for name in range(2)] == last
    for name in range(2):
        rows = cache.read(name, 2, 0, last[name])["kv"][:, 0]
        assert rows.tolist() == [n + 2 for n in range(last[name])]
