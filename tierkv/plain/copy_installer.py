"""Installing by copying out of the selection."""

from collections.abc import Sequence

import attrs
import torch

from tierkv.errors import ConfigError, say
from tierkv.interfaces.installer import Installer
from tierkv.interfaces.server import Server
from tierkv.limits import Limits
from tierkv.schedules import NAMES, InlineSchedule, Schedule, check_device, make_schedule
from tierkv.site import Site
from tierkv.types import Placement, Plan, Selection


@attrs.frozen
class CopyInstallerOptions:
    """When the work is done."""

    schedule: str = "inline"
    """``inline``: at once. ``worker``: on a thread of its own, while attention runs.
    ``side-stream``: likewise, on a stream of the device."""

    def __attrs_post_init__(self) -> None:
        if self.schedule not in NAMES:
            raise ConfigError(say("schedule", "unknown schedule", got=self.schedule, known=NAMES))


class CopyInstaller(Installer):
    """One ``place`` operator a group and one ``install`` a layer, on a schedule.

    If background work fails, every lane forgets its residency: right, but cold. Within a compiled
    graph the work is done at once, unless the schedule can be part of it; ``begin`` has waited for
    what was in flight.
    """

    Options = CopyInstallerOptions

    def __init__(self, options: CopyInstallerOptions, site: Site, server: Server) -> None:
        self._policies = site.policies
        self._lanes = range(site.limits.lanes)
        self._pools = [[site.pool_view(layer)] for layer in range(len(site.limits.spec.layouts))]
        self._schedule = make_schedule(options.schedule, site, server.depth)
        self._inline = InlineSchedule(site.ops)
        self.background = self._schedule.background

    @classmethod
    def footprint(cls, options: CopyInstallerOptions, limits: Limits) -> int:
        check_device(options.schedule, limits.device)
        return 0

    def fence(self, layer: int) -> None:
        try:
            self._now().fence(layer)
        except Exception:
            self._forget()
            raise

    def commit(self, plan: Plan) -> Placement:
        return self._now().place(self._policies[plan.group], plan)

    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        self._now().copy(placement, layer, [selection.records], self._pools[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        try:
            self._now().drain(lanes)
        except Exception:
            self._forget()
            raise

    def _now(self) -> Schedule:
        """Give the schedule to use: a compiler may hand a job memory that it uses again at once.

        A cache that is collected while another is compiled must wait for its own all the same.
        """
        if torch.compiler.is_dynamo_compiling() and not self._schedule.compiles:
            return self._inline
        return self._schedule

    def _forget(self) -> None:
        for policy in self._policies:
            policy.forget(self._lanes)
