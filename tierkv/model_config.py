"""Reading a model's configuration, for plugins that implement ``tierkv_model``."""

from collections.abc import Mapping
from typing import Any

import torch

from tierkv.constants import MAX_ROWS
from tierkv.errors import ConfigError, say
from tierkv.layout import KVLayout, Part


def whole_number(config: Mapping[str, Any], key: str, least: int = 1) -> int:
    """Give ``config[key]``, a whole number of at least `least`.

    Raises
    ------
    ConfigError
        If it is missing or something else.
    """
    value = config.get(key)
    if type(value) is not int or not least <= value <= MAX_ROWS:
        missing = "is missing, it " if value is None else ""
        wrong = f"{missing}must be a whole number of at least {least}"
        raise ConfigError(say(f"model.{key}", wrong, got=value))
    return value


def dtype(config: Mapping[str, Any]) -> torch.dtype:
    """Give the dtype of the KV rows: ``dtype`` or ``torch_dtype``, by default bfloat16."""
    name = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix(
        "torch."
    )
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ConfigError(
            say("model.dtype", "unknown dtype", got=name, known=["bfloat16", "float16", "float32"])
        )
    return found


def mla_layout(config: Mapping[str, Any], indexer: bool) -> KVLayout:
    """Describe a layer of multi-head latent attention (DeepSeek V2, arXiv 2405.04434).

    Parts ``nope`` (``kv_lora_rank``) and ``rope`` (``qk_rope_head_dim``) are tiered; a layer with
    an indexer keeps its keys ``index`` (``index_head_dim``) on the device.
    """
    kind = dtype(config)
    parts = [
        Part("nope", whole_number(config, "kv_lora_rank"), kind),
        Part("rope", whole_number(config, "qk_rope_head_dim"), kind),
    ]
    if indexer:
        parts.append(Part("index", whole_number(config, "index_head_dim"), kind, "device"))
    return KVLayout(tuple(parts))
