"""tierkv: tiered KV cache for sparse-attention LLMs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "load": "tierkv.build",
    "TieredCache": "tierkv.cache",
    "External": "tierkv.external",
    "Tier": "tierkv.interfaces",
    "Policy": "tierkv.interfaces",
    "Planner": "tierkv.interfaces",
    "Server": "tierkv.interfaces",
    "Installer": "tierkv.interfaces",
    "SupportsView": "tierkv.interfaces",
    "TablePolicy": "tierkv.policies",
    "KVLayout": "tierkv.layout",
    "LayerGroup": "tierkv.layout",
    "ModelSpec": "tierkv.layout",
    "Part": "tierkv.layout",
    "hookimpl": "tierkv.hookspecs",
    "CapacityError": "tierkv.errors",
    "ConfigError": "tierkv.errors",
    "PluginError": "tierkv.errors",
    "ShapeError": "tierkv.errors",
    "StateError": "tierkv.errors",
    "TierError": "tierkv.errors",
    "TierKVError": "tierkv.errors",
}

__version__ = "0.1.0"
__all__ = [
    "CapacityError",
    "ConfigError",
    "External",
    "Installer",
    "KVLayout",
    "LayerGroup",
    "ModelSpec",
    "Part",
    "Planner",
    "PluginError",
    "Policy",
    "Server",
    "ShapeError",
    "StateError",
    "SupportsView",
    "TablePolicy",
    "Tier",
    "TierError",
    "TierKVError",
    "TieredCache",
    "hookimpl",
    "load",
]

if TYPE_CHECKING:
    from tierkv.build import load
    from tierkv.cache import TieredCache
    from tierkv.errors import (
        CapacityError,
        ConfigError,
        PluginError,
        ShapeError,
        StateError,
        TierError,
        TierKVError,
    )
    from tierkv.external import External
    from tierkv.hookspecs import hookimpl
    from tierkv.interfaces import Installer, Planner, Policy, Server, SupportsView, Tier
    from tierkv.layout import KVLayout, LayerGroup, ModelSpec, Part
    from tierkv.policies import TablePolicy


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import tierkv`` itself stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'tierkv' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
