"""What a row of DeepSeek V3.2 holds; every layer selects for itself."""

from collections.abc import Mapping
from typing import Any

from tierkv import ModelSpec
from tierkv.model_config import mla_layout, whole_number

FAMILY = "deepseek_v32"


def dsv32_spec(config: Mapping[str, Any]) -> ModelSpec:
    """Describe a ``deepseek_v32`` model from its configuration.

    Raises
    ------
    ConfigError
        Naming the key that is missing or wrong.
    """
    layers = whole_number(config, "num_hidden_layers")
    groups = [[layer] for layer in range(layers)]
    top_k = whole_number(config, "index_topk")
    return ModelSpec.uniform(FAMILY, top_k, groups, mla_layout(config, indexer=True))
