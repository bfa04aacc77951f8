"""Installing by copying out of the selection."""

from collections.abc import Sequence

import attrs

from tierkv.errors import ConfigError, say
from tierkv.interfaces.installer import Installer
from tierkv.interfaces.server import Server
from tierkv.schedules import NAMES, make_schedule
from tierkv.site import Site
from tierkv.types import Placement, Plan, Selection


@attrs.frozen
class CopyInstallerOptions:
    """When the work is done."""

    schedule: str = "inline"
    """``inline``: at once. ``worker``: on a thread of its own, while attention runs."""

    def __attrs_post_init__(self) -> None:
        if self.schedule not in NAMES:
            raise ConfigError(say("schedule", "unknown schedule", got=self.schedule, known=NAMES))


class CopyInstaller(Installer):
    """One ``place`` operator a group and one ``install`` a layer, on a schedule.

    If background work fails, every lane forgets its residency: right, but cold.
    """

    Options = CopyInstallerOptions

    def __init__(self, options: CopyInstallerOptions, site: Site, server: Server) -> None:
        self._policies = site.policies
        self._lanes = range(site.limits.lanes)
        self._pools = [[site.pool_view(layer)] for layer in range(len(site.limits.spec.layouts))]
        self._schedule = make_schedule(
            options.schedule, site.ops, site.limits, site.policies, server.depth
        )

    def fence(self, layer: int) -> None:
        try:
            self._schedule.fence(layer)
        except Exception:
            self._forget()
            raise

    def commit(self, plan: Plan) -> Placement:
        return self._schedule.place(self._policies[plan.group], plan)

    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        self._schedule.copy(placement, layer, [selection.records], self._pools[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        try:
            self._schedule.drain(lanes)
        except Exception:
            self._forget()
            raise

    def _forget(self) -> None:
        for policy in self._policies:
            policy.forget(self._lanes)
