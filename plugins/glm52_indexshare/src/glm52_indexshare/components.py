"""Planner, Server and Installer of the IndexShare scheme."""

from typing import Any

from tierkv import ConfigError
from tierkv.errors import say
from tierkv.limits import Limits
from tierkv.plain import CopyInstaller, CopyServer, TablePlanner

MAX_SLOTS = 32_767


class IndexSharePlanner(TablePlanner):
    """Plans at a group's owner; plan and page look-up serve every layer of the group.

    Slot numbers are int16, as in the published tables, so a pool has at most 32,767 slots.
    """

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        if max(limits.slots) > MAX_SLOTS:
            raise ConfigError(
                say("pool.slots", f"indexshare allows at most {MAX_SLOTS}", got=max(limits.slots),
                    do="set planner: table for larger pools")
            )  # fmt: skip
        return super().footprint(options, limits)


class IndexShareServer(CopyServer):
    """Serves owner and followers from the group's frozen plan, out of two buffers in turn."""


class IndexShareInstaller(CopyInstaller):
    """Commits once a group at the owner; each layer copies its own records by that placement."""
