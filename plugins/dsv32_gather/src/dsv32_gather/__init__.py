"""DeepSeek V3.2 gather for tierkv: what stays near is the last selection.

Source: the V3.2 "gather selection" offload in the CANN recipes.
"""

from collections.abc import Mapping
from typing import Any

from dsv32_gather.gather_installer import GatherInstaller
from dsv32_gather.gather_planner import GatherPlanner
from dsv32_gather.gather_server import GatherServer
from dsv32_gather.model import FAMILY, dsv32_spec
from dsv32_gather.scheme import SCHEME
from tierkv import ModelSpec, hookimpl


@hookimpl
def tierkv_register(registry: Any) -> None:
    """Add the scheme and its components."""
    registry.add("planner", "gather", GatherPlanner)
    registry.add("server", "gather", GatherServer)
    registry.add("installer", "gather", GatherInstaller)
    registry.add("scheme", "dsv32-gather", SCHEME)


@hookimpl
def tierkv_model(model_config: Mapping[str, Any]) -> ModelSpec | None:
    """Describe DeepSeek V3.2."""
    return dsv32_spec(model_config) if model_config.get("model_type") == FAMILY else None
