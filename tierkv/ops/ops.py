"""The operators of one backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from tierkv.finding import Finding
from tierkv.interfaces.component import NoOptions
from tierkv.interfaces.tier import Tier
from tierkv.ops.schemas import SCHEMAS

if TYPE_CHECKING:
    from tierkv.limits import Limits
    from tierkv.schedules.schedule import Schedule
    from tierkv.site import Site

Operator = Callable[..., None]


class Ops:
    """The operators of one backend, as attributes named like the schemas.

    `direct` names what to call in place of a registered operator.

    Registered is an object of this class, or, where a backend has options, a subclass: ``build``
    makes it by ``cls(options, limits)``, which raises ConfigError if it cannot work here. Nothing
    has been allocated then, and nothing may be by that call.
    """

    Options: ClassVar[type] = NoOptions
    """Of a subclass: an attrs class; its fields are the keys of ``ops`` beside ``use``."""
    devices: tuple[str, ...] = ()
    """Torch device types that it runs on. Empty is any, but then ``auto`` never takes it."""
    variants: ClassVar[Mapping[str, type[Tier]]] = {}
    """Registered name of a tier -> the class that stands in for it with these operators.

    It is made with that tier's options: say, host memory that the device's kernels can address.
    """

    packs: bool = False
    """Whether a compiled step appends whole records, not parts of them beside each other."""

    append: Operator
    plan: Operator
    serve: Operator
    plan_gather: Operator
    place_gather: Operator
    gather: Operator
    install: Operator
    submit: Operator
    submit_install: Operator
    wait: Operator

    def __init__(
        self,
        name: str,
        namespace: str,
        prepare: Callable[[], None] = lambda: None,
        start_worker: Callable[[], None] | None = None,
        devices: tuple[str, ...] = (),
        direct: Mapping[str, Operator] | None = None,
    ) -> None:
        self.name = name
        self.prepare = prepare
        """Does what must not happen in a step; called when a cache is built."""
        self.start_worker = start_worker
        """Starts the thread behind ``submit``; None if there is none and it runs at once."""
        self.devices = devices or type(self).devices
        packets, direct = getattr(torch.ops, namespace), direct or {}
        for operator in SCHEMAS:
            packet = getattr(packets, operator)
            setattr(self, operator, direct.get(operator) or packet.default)

    def place(self, policy: str) -> Operator:
        """Give the placement operator of a built-in policy."""
        operator: Operator = getattr(self, f"place_{policy.replace('-', '_')}")
        return operator

    def make_side_stream(self, site: Site, depth: int) -> Schedule | None:
        """Make the backend's own ``side-stream`` for a server with `depth` selection buffers.

        None, as here, takes :class:`~tierkv.schedules.side_stream_schedule.SideStreamSchedule`.
        """
        return None

    def check(self, choices: Mapping[str, Any], limits: Limits) -> None:
        """Raise ConfigError if it cannot do what one of the components will ask for.

        Parameters
        ----------
        choices
            ``policy`` and so on -> :class:`~tierkv.config.Choice`.
        """

    @classmethod
    def doctor(cls) -> Finding | None:
        """Say for ``tierkv doctor`` whether the backend can work here; None has nothing to say.

        It must not load what may end the process.
        """
        return None
