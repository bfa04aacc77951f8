"""From a model and a configuration to a cache."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tierkv import config as configuration
from tierkv.build import build, model_mapping, model_spec
from tierkv.config import Config
from tierkv.integrations.transformers.attention import NAME, register
from tierkv.integrations.transformers.cache import TieredDynamicCache
from tierkv.integrations.transformers.library import PreTrainedModel
from tierkv.layout import KVLayout, ModelSpec


def tiered_cache(
    model: PreTrainedModel,
    config: str | Path | Mapping[str, Any] | Config,
    *,
    batch: int = 1,
    max_tokens: int | None = None,
    queries: int | None = None,
) -> TieredDynamicCache:
    """Make a cache to hand to ``model.generate``, and let the model attend through it.

    The model's attention implementation becomes ``"tierkv"``, which computes what ``"sdpa"`` does
    wherever another cache is used.

    Parameters
    ----------
    config
        A YAML file, a mapping of the same form, or a checked configuration. Its ``model`` and
        ``device`` give way to those of `model`.
    batch
        Most rows; beams and returned sequences count.
    max_tokens
        Longest row, prompt, answer and left padding together; default: the configuration's.
    queries
        Most new tokens of a step, 1 + drafts (``prompt_lookup_num_tokens``); default: the
        configuration's. A forward over more is right but reads the whole past.

    Raises
    ------
    ConfigError, CapacityError
        Nothing is kept and the model is unchanged.
    """
    mapping = {**model_mapping(model.config), "dtype": str(model.dtype)}
    general: dict[str, Any] = {
        "lanes": batch, "max_tokens": max_tokens, "queries": queries, "device": str(model.device),
    }  # fmt: skip
    if not isinstance(config, Config):
        config = configuration.read(config, model=mapping, **general)
    given = {key: value for key, value in general.items() if value is not None}
    config = attrs.evolve(config, model=mapping, general=attrs.evolve(config.general, **given))
    config = attrs.evolve(config, model=_tiered_parts(model_spec(config)))
    cache = TieredDynamicCache(build(config), model)
    register()
    model.set_attn_implementation(NAME)
    return cache


def _tiered_parts(spec: ModelSpec) -> ModelSpec:
    """Leave out the parts that stay on the device: the cache's layers keep them, dense."""
    return attrs.evolve(spec, layouts=tuple(KVLayout(layout.tiered) for layout in spec.layouts))
