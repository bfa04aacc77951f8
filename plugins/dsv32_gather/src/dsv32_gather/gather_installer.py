"""Nothing is left to install."""

from collections.abc import Sequence

from tierkv.interfaces import Installer, Server
from tierkv.limits import Limits
from tierkv.plain.copy_installer import CopyInstallerOptions
from tierkv.schedules import check_device
from tierkv.site import Site
from tierkv.types import Placement, Plan, Selection


class GatherInstaller(Installer):
    """Commits at once: what was served lies where it stays.

    So the schedule only says whether prompts are copied to the backing in the background.
    """

    Options = CopyInstallerOptions
    family = "gather"
    copies = False

    def __init__(self, options: CopyInstallerOptions, site: Site, server: Server) -> None:
        self._policies = site.policies
        self.background = options.schedule == "worker"

    @classmethod
    def footprint(cls, options: CopyInstallerOptions, limits: Limits) -> int:
        check_device(options.schedule, limits.device)
        return 0

    def fence(self, layer: int) -> None:
        pass

    def commit(self, plan: Plan) -> Placement:
        return self._policies[plan.group].place(plan)

    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        pass

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        pass
