"""A random model of a configuration's shape."""

from collections.abc import Mapping
from typing import Any

import torch

from tierkv.errors import ConfigError, say
from tierkv.integrations.transformers.library import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedModel,
)
from tierkv.model_config import dtype, whole_number

_OWN = ("family", "model_type", "seed", "dtype")


def build_model(mapping: Mapping[str, Any], max_position_embeddings: int) -> PreTrainedModel:
    """Build a model with random weights.

    Parameters
    ----------
    mapping
        ``family`` (transformers' ``model_type``), ``seed``, ``dtype`` and fields of the family's
        configuration.
    max_position_embeddings
        Tokens that the model is to handle.

    Raises
    ------
    ConfigError
        If transformers does not know the family, or refuses the fields.
    """
    family = str(mapping.get("family") or mapping.get("model_type"))
    fields = {key: value for key, value in mapping.items() if key not in _OWN}
    fields["max_position_embeddings"] = max_position_embeddings
    seed = whole_number({"seed": 0, **mapping}, "seed", least=0)
    try:
        config = AutoConfig.for_model(family, **fields)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype(mapping))
    except Exception as error:  # each release checks in its own way, or not at all
        why = " ".join(str(error).split())
        raise ConfigError(say("model", f"transformers refuses it, {why}", got=family)) from error
    model.eval()
    return model
