"""GLM-5.2 IndexShare for tierkv: layer groups that share one selection, planned once a group.

Source: "shared indexer offload" for GLM-5.2 in the CANN recipes.
"""

from collections.abc import Mapping
from typing import Any

from glm52_indexshare.components import IndexShareInstaller, IndexSharePlanner, IndexShareServer
from glm52_indexshare.model import FAMILY, glm52_spec
from glm52_indexshare.scheme import SCHEME
from tierkv import ModelSpec, hookimpl


@hookimpl
def tierkv_register(registry: Any) -> None:
    """Add the scheme and its components."""
    registry.add("planner", "indexshare", IndexSharePlanner)
    registry.add("server", "indexshare", IndexShareServer)
    registry.add("installer", "indexshare", IndexShareInstaller)
    registry.add("scheme", "glm52-indexshare", SCHEME)


@hookimpl
def tierkv_model(model_config: Mapping[str, Any]) -> ModelSpec | None:
    """Describe GLM-5 and GLM-5.2."""
    return glm52_spec(model_config) if model_config.get("model_type") == FAMILY else None
