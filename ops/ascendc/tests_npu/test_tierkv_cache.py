"""A whole cache on the device, with the reference operators: the bytes of the same on the CPU."""

from pathlib import Path

import pytest
import torch
from hostsim.npu.device import Order, order

import tierkv

EXAMPLE = Path(__file__).parents[3] / "examples" / "glm52.yaml"
CONTEXT, STEPS, TOP_K = 200, 2, 256


def _serve(device, backing):
    """Selections of some steps of one request, in order."""
    torch.manual_seed(5)
    seen = []
    options = {"backing": {"use": backing}, "ops": "reference", "device": device}
    with tierkv.load(EXAMPLE, lanes=1, max_tokens=512, **options) as cache:
        layouts = cache.limits.spec.layouts

        def rows(layer, *shape):
            parts = layouts[layer].parts
            return {p.name: torch.randn(*shape, p.width).to(p.dtype).to(device) for p in parts}

        lane = cache.admit("request", reserve=CONTEXT + STEPS)
        for layer in range(len(layouts)):
            cache.prefill("request", layer, rows(layer, CONTEXT))
        for length in range(CONTEXT + 1, CONTEXT + 1 + STEPS):
            with cache.step([lane], kv_len=[length]) as step:
                for layer in range(len(layouts)):
                    step.append(layer, rows(layer, 1, 1))
                    ids = torch.randint(0, length, (1, 1, TOP_K), dtype=torch.int32).to(device)
                    owner = layer == cache.owner_of[layer]
                    kept = step.select(layer, ids if owner else None)
                    seen += [part.cpu().clone() for part in kept.parts.values()]
                    seen.append(kept.length.cpu().clone())
    return seen


@pytest.mark.parametrize("backing", ["host", "device"])
@pytest.mark.parametrize("chosen", [Order.EAGER, Order.LATE])
def test_equals_the_cpu(runtime, chosen, backing):
    expected = _serve("cpu", backing)
    with order(runtime, chosen):
        got = _serve("npu:0", backing)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)
