"""A decode step of a transformers model: the stock cache (sdpa) against tierkv.

The model is the default one of scheme glm52-indexshare. Caches are filled with random latents
instead of a prompt, whose cost grows with the square of the context; a random-weight model has no
locality, so the hit rate is that of a pool of an eighth of the context.
"""

import time
from statistics import median

import pytest
import torch

from tierkv import config

pytest.importorskip("transformers")

from tierkv.blueprint import model_mapping, settle
from tierkv.integrations.transformers import build_model, tiered_cache
from tierkv.integrations.transformers.library import CACHE_ARGUMENT, DynamicCache

STEPS, PAGE = 12, 128


def filled_cache(model, context):
    """Give a stock cache of random rows, [1, 1, context, width] a layer."""
    cache = DynamicCache(config=model.config)
    sizes = model.config
    types = getattr(sizes, "indexer_types", ["full"] * sizes.num_hidden_layers)
    for layer, kind in zip(cache.layers, types, strict=True):
        layer.update(
            torch.randn(1, 1, context, sizes.kv_lora_rank),
            torch.randn(1, 1, context, sizes.qk_rope_head_dim),
        )
        if kind == "full":
            layer.update_indexer(torch.randn(1, context, sizes.index_head_dim))
    return cache


@pytest.mark.parametrize("context", [4096, 16_384, 32_768])
@torch.inference_mode()
def test_decode_step(benchmark, context):
    if not benchmark.enabled:
        context //= 16
    torch.set_num_threads(1)
    settings = config.read(
        {"scheme": "glm52-indexshare", "pool": {"slots": max(context // 8, 256)}},
        lanes=1,
        max_tokens=context + PAGE,
    )
    model = build_model(model_mapping(settings.model), context + PAGE)
    stock = filled_cache(model, context)
    with tiered_cache(model, settings, batch=1, max_tokens=context + PAGE) as tiered:
        tiered.adopt(stock)
        caches, seconds = {"sdpa": stock, "tierkv": tiered}, {"sdpa": [], "tierkv": []}
        logits = {}

        def step():
            for name, cache in caches.items():
                model.set_attn_implementation(name)
                start = time.perf_counter()
                out = model(torch.tensor([[7]]), **{CACHE_ARGUMENT: cache}, use_cache=True)
                seconds[name].append(time.perf_counter() - start)
                logits[name] = out.logits

        benchmark.pedantic(step, rounds=STEPS, warmup_rounds=1)
        torch.testing.assert_close(logits["tierkv"], logits["sdpa"], atol=1e-5, rtol=0)
        predicted = settle(settings).footprint.device
        device_bytes = tiered.tiered.stats().device_bytes
        assert device_bytes == pytest.approx(predicted, rel=0.01)
        benchmark.extra_info |= {
            "stock_ms": median(seconds["sdpa"]) * 1e3,
            "tierkv_ms": median(seconds["tierkv"]) * 1e3,
            "times_faster": median(seconds["sdpa"]) / median(seconds["tierkv"]),
            "hit_rate": tiered.tiered.stats().hit_rate,
            "device_bytes": device_bytes,
            "indexer_workspace_bytes": tiered.device_bytes - device_bytes,
            "predicted_device_bytes": predicted,
        }
