"""Installing by copying out of the selection."""

from collections.abc import Sequence

import attrs

from tierkv.errors import ConfigError, say
from tierkv.interfaces.installer import Installer
from tierkv.schedule import SCHEDULES
from tierkv.site import Site
from tierkv.types import Placement, Plan, Selection


@attrs.frozen
class CopyInstallerOptions:
    """When the work is done."""

    schedule: str = "inline"

    def __attrs_post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ConfigError(
                say("schedule", "unknown schedule", got=self.schedule, known=sorted(SCHEDULES))
            )


class CopyInstaller(Installer):
    """One ``place`` operator a group and one ``install`` a layer, on a schedule."""

    Options = CopyInstallerOptions

    def __init__(self, options: CopyInstallerOptions, site: Site) -> None:
        self._schedule = SCHEDULES[options.schedule](site.ops)
        self._policies = site.policies
        self._pools = [[site.pool_view(layer)] for layer in range(len(site.limits.spec.layouts))]

    def fence(self, layer: int) -> None:
        self._schedule.fence(layer)

    def commit(self, plan: Plan) -> Placement:
        return self._schedule.place(self._policies[plan.group], plan)

    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        self._schedule.copy(placement, layer, [selection.records], self._pools[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        self._schedule.drain(lanes)
