"""Which layers of GLM-5.2 share a selection, and what a row holds."""

from collections.abc import Mapping
from typing import Any

from tierkv import ConfigError, LayerGroup, ModelSpec
from tierkv.errors import say
from tierkv.model_config import mla_layout, whole_number

FAMILY = "glm_moe_dsa"
_FULL, _SHARED = "full", "shared"


def indexer_types(config: Mapping[str, Any], layers: int) -> list[str]:
    """Say for each layer whether it runs its own indexer, "full", or follows, "shared".

    Read from ``indexer_types``, else the pattern string ``index_topk_pattern`` ("FFSS..."), else
    ``index_topk_freq`` and ``index_skip_topk_offset``: layer ``i`` is full where
    ``max(i - offset + 1, 0)`` is a multiple of ``freq``.
    """
    types, where = config.get("indexer_types"), "model.indexer_types"
    pattern = config.get("index_topk_pattern")
    if types is None and pattern is not None:
        where = "model.index_topk_pattern"
        letters = {"F": _FULL, "S": _SHARED}
        types = [letters.get(letter, letter) for letter in str(pattern)]
    if types is None:
        defaults = {"index_topk_freq": 1, "index_skip_topk_offset": 2, **config}
        freq = whole_number(defaults, "index_topk_freq")
        offset = whole_number(defaults, "index_skip_topk_offset", least=0)
        return [_SHARED if max(i - offset + 1, 0) % freq else _FULL for i in range(layers)]
    if not isinstance(types, list):
        raise ConfigError(say(where, f"expected a list of {layers} types", got=types))
    if len(types) != layers:
        raise ConfigError(say(where, f"must name {layers} layers", got=len(types)))
    for kind in types:
        if kind not in (_FULL, _SHARED):
            raise ConfigError(say(where, "unknown type", got=kind, known=[_FULL, _SHARED]))
    if types[0] != _FULL:
        raise ConfigError(
            say(where, "the first layer has no one to follow", got=types[0], known=[_FULL])
        )
    return list(types)


def glm52_spec(config: Mapping[str, Any]) -> ModelSpec:
    """Describe a ``glm_moe_dsa`` model from its configuration.

    Raises
    ------
    ConfigError
        Naming the key that is missing or wrong.
    """
    types = indexer_types(config, whole_number(config, "num_hidden_layers"))
    groups: list[list[int]] = []
    for layer, kind in enumerate(types):
        if kind == _FULL:
            groups.append([])
        groups[-1].append(layer)
    layouts = {kind: mla_layout(config, indexer=kind == _FULL) for kind in (_FULL, _SHARED)}
    return ModelSpec(
        name=FAMILY,
        top_k=whole_number(config, "index_topk"),
        groups=tuple(LayerGroup(tuple(layers)) for layers in groups),
        layouts=tuple(layouts[kind] for kind in types),
    )
