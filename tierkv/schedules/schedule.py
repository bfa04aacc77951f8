"""When placements and copies run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.types import Placement, Plan


class Schedule(ABC):
    """Runs an installer's work in the order it was given.

    Protocol, for each layer of a step
    ----------------------------------
    1. :meth:`fence`, before anything of the layer is planned or served.
    2. :meth:`place`, once a group, at its owner.
    3. :meth:`copy`, whose work comes after the placement's, wherever that runs.

    To wait is to let what the caller does next come after it; on a device with streams, what it
    launches next on the current one. The implementer owes: all work in one order, that of the
    calls. What fails in the background comes out of the next :meth:`fence` or :meth:`drain`, once.
    """

    background: ClassVar[bool] = False
    """Whether a thread does the work; prompts are then copied to the backing beside the caller."""
    compiles: ClassVar[bool] = False
    """Whether its work may be part of a compiled graph; there it is done at once if not."""

    @abstractmethod
    def place(self, policy: Policy, plan: Plan) -> Placement:
        """Run ``policy.place(plan)``, at the latest with the next :meth:`copy`."""

    @abstractmethod
    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        """Run ``install`` from `rows` [B, Q, K, width] into `pool` [lanes, P, width]."""

    @abstractmethod
    def fence(self, layer: int) -> None:
        """Wait for all work that `layer` must not overtake.

        That is the last copy out of the selection buffer it will be served into, its own last copy
        included, and at the owner of a group everything that reads the group's plan.
        """

    @abstractmethod
    def drain(self, lanes: Sequence[int] | None = None) -> None:
        """Wait for everything that names these lanes; None is all."""
