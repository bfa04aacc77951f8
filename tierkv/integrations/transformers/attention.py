"""Attention over a selection, and the stock attention for everything else."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tierkv.errors import ShapeError, say
from tierkv.integrations.transformers.library import (
    AttentionInterface,
    AttentionMaskInterface,
    sdpa_attention_forward,
    sdpa_mask,
)
from tierkv.types import Selection

if TYPE_CHECKING:
    from tierkv.integrations.transformers.forward_cache import ForwardCache

NAME = "tierkv"
"""The attention implementation's name. With any other cache it computes what ``sdpa`` does."""

UPDATED: ContextVar["ForwardCache | None"] = ContextVar("tierkv updated", default=None)
"""The cache that the layer now running has updated: modules do not hand it to attention."""


def register() -> None:
    """Make the attention known to transformers; doing so again changes nothing."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers' ``AttentionInterface`` asks.

    Parameters
    ----------
    query
        [B, H, S, nope + rope].
    key, value
        [B, H, T, ...]; in a step they are not read.
    attention_mask
        [B or 1, 1, S, T] bool.
    options
        ``indices`` [B, S, min(K, T)] int32, ``scaling``, ``dropout`` and what else the model gives.

    Returns
    -------
    tuple
        [B, S, H, v_head_dim], and None for the weights.
    """
    cache = UPDATED.get()
    UPDATED.set(None)
    ids = options.pop("indices")
    if attention_mask is None or attention_mask.dtype != torch.bool:
        got = None if attention_mask is None else attention_mask.dtype
        do = "pass a mask of 0 and 1, or none"
        raise ShapeError(say("attention_mask", "must be boolean here", got=got, do=do))
    if cache is None or not cache.awaits(key.shape[2]):
        return dense(module, (query, key, value), attention_mask, ids, options), None
    selection = cache.select(module.layer_idx, attention_mask, ids)
    if selection is None:
        output = dense(module, (query, key, value), attention_mask, ids, options)
    else:
        output = absorbed(module, query, selection, options["scaling"])
    cache.layer_done(module.layer_idx)
    return output, None


def dense(
    module: Any,
    states: tuple[Tensor, Tensor, Tensor],
    mask: Tensor,
    ids: Tensor,
    options: dict[str, Any],
) -> Tensor:
    """Attend to all keys under a mask of the selected ones, as the models' own code does."""
    query, key, value = states
    hidden = ids.new_ones((len(query), query.shape[2], key.shape[2]), dtype=torch.bool)
    hidden = hidden.scatter_(-1, ids.long(), False).unsqueeze(1)
    output: Tensor = sdpa_attention_forward(module, query, key, value, mask & ~hidden, **options)[0]
    return output


def absorbed(module: Any, query: Tensor, selection: Selection, scaling: float) -> Tensor:
    """Attend to the selected latents without expanding them.

    The up-projections of keys and values move to the query and the output, as DeepSeek V2
    (arXiv 2405.04434, section 2.1.2) proposes.

    Parameters
    ----------
    query
        [B, H, S, qk_nope_head_dim + qk_rope_head_dim].
    selection
        ``nope`` [B, S, K, kv_lora_rank], ``rope`` [B, S, K, qk_rope_head_dim].

    Returns
    -------
    Tensor
        [B, S, H, v_head_dim].
    """
    batch, heads, queries, _ = query.shape
    flat = batch * queries
    up = module.kv_b_proj.weight.view(heads, -1, module.kv_lora_rank)
    key_up, value_up = up.split([module.qk_nope_head_dim, module.v_head_dim], dim=1)
    states = query.permute(1, 0, 2, 3).reshape(heads, flat, -1) * scaling
    q_nope, q_rope = states.split([module.qk_nope_head_dim, module.qk_rope_head_dim], dim=-1)
    nope, rope = selection["nope"].flatten(0, 1), selection["rope"].flatten(0, 1)
    latent = torch.bmm(q_nope, key_up).transpose(0, 1)
    scores = torch.bmm(q_rope.transpose(0, 1), rope.transpose(1, 2))
    scores = torch.baddbmm(scores, latent, nope.transpose(1, 2))
    places = torch.arange(nope.shape[1], dtype=torch.int32, device=nope.device)
    # A query that sees nothing attends to one record of zeros, or its weights were not numbers.
    behind = places >= selection.length.clamp(min=1).view(flat, 1, 1)
    weights = scores.masked_fill_(behind, -torch.inf).softmax(-1, dtype=torch.float32)
    mixed = torch.bmm(weights.to(nope.dtype), nope)
    output = torch.bmm(mixed.transpose(0, 1), value_up.transpose(1, 2))
    return output.view(heads, batch, queries, -1).permute(1, 2, 0, 3)
