"""The hooks a plugin may implement. Cold path only: none is called during a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from tierkv.layout import ModelSpec
    from tierkv.registry import Registrar

PROJECT = "tierkv"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's implementation of a hook."""


@hookspec
def tierkv_register(registry: Registrar) -> None:
    """Add components: ``registry.add(kind, name, component)``."""


@hookspec(firstresult=True)
def tierkv_model(model_config: Mapping[str, Any]) -> ModelSpec | None:
    """Describe a model from its configuration, or None if it is not yours.

    `model_config` has the keys of a Hugging Face ``config.json``; ``model_type`` names the family.
    A key that is missing or wrong is a ConfigError.
    """
