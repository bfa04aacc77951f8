"""From a model and a configuration to a cache."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tierkv import config as configuration
from tierkv.blueprint import model_mapping, model_spec
from tierkv.build import build
from tierkv.cache import TieredCache
from tierkv.config import Config
from tierkv.integrations.transformers.attention import NAME, register
from tierkv.integrations.transformers.cache import TieredDynamicCache
from tierkv.integrations.transformers.indexer_keys import key_part
from tierkv.integrations.transformers.library import PreTrainedModel
from tierkv.integrations.transformers.serving_cache import ServingCache


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
    cache = TieredDynamicCache(_built(model, config, batch, max_tokens, queries), model)
    _attend_through(model)
    return cache


def serving_cache(
    model: PreTrainedModel,
    config: str | Path | Mapping[str, Any] | Config,
    *,
    requests: int = 8,
    max_tokens: int | None = None,
    queries: int | None = None,
) -> ServingCache:
    """Make a cache for a loop that drives the model itself, over requests that come and go.

    Parameters
    ----------
    config
        As for :func:`tiered_cache`.
    requests
        Most requests that run at once.
    max_tokens
        Longest request, prompt and answer together; default: the configuration's.
    queries
        Most new tokens of a step, 1 + drafts; default: the configuration's.

    Raises
    ------
    ConfigError, CapacityError
        Nothing is kept and the model is unchanged.
    """
    cache = ServingCache(_built(model, config, requests, max_tokens, queries), model)
    _attend_through(model)
    return cache


def _built(
    model: PreTrainedModel,
    config: str | Path | Mapping[str, Any] | Config,
    lanes: int,
    max_tokens: int | None,
    queries: int | None,
) -> TieredCache:
    mapping = {**model_mapping(model.config), "dtype": str(model.dtype)}
    general: dict[str, Any] = {
        "lanes": lanes, "max_tokens": max_tokens, "queries": queries, "device": str(model.device),
    }  # fmt: skip
    if not isinstance(config, Config):
        config = configuration.read(config, model=mapping, **general)
    given = {key: value for key, value in general.items() if value is not None}
    config = attrs.evolve(config, model=mapping, general=attrs.evolve(config.general, **given))
    spec = model_spec(config)
    for group in spec.groups:
        key_part(spec, group.owner)
    return build(config)


def _attend_through(model: PreTrainedModel) -> None:
    register()
    model.set_attn_implementation(NAME)
