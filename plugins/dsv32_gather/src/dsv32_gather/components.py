"""Planner, Server and Installer of the gather scheme.

The fused gather, which keeps the selection buffer itself as the pool, will replace the copies
behind these names; until then they keep the last selection in a pool of its own.
"""

from typing import Any

import attrs

from tierkv import ConfigError
from tierkv.errors import say
from tierkv.limits import Limits
from tierkv.plain import CopyInstaller, CopyServer, TablePlanner
from tierkv.plain.copy_server import CopyServerOptions


class GatherPlanner(TablePlanner):
    """Plans every layer; the last selection must fit the pool."""

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        if min(limits.slots) < limits.spec.top_k:
            raise ConfigError(
                say(
                    "pool.slots",
                    f"gather needs at least top_k {limits.spec.top_k}",
                    got=min(limits.slots),
                )
            )
        return super().footprint(options, limits)


@attrs.frozen
class GatherServerOptions(CopyServerOptions):
    """A buffer for every layer, unless told otherwise."""

    depth: int = 0


class GatherServer(CopyServer):
    """Serves into private buffers, one a layer, so that a selection outlives its layer."""

    Options = GatherServerOptions


class GatherInstaller(CopyInstaller):
    """Keeps the last live query's records."""
