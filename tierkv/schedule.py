"""When placements and copies run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.ops import Ops
from tierkv.types import Placement, Plan


class Schedule(ABC):
    """Runs an installer's work in the order it was given.

    What fails in the background comes out of the next :meth:`fence` or :meth:`drain`.
    """

    @abstractmethod
    def place(self, policy: Policy, plan: Plan) -> Placement:
        """Run ``policy.place(plan)``, at the latest before the next :meth:`copy`."""

    @abstractmethod
    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        """Run ``install`` from `rows` [B, Q, K, width] into `pool` [lanes, P, width]."""

    @abstractmethod
    def fence(self, layer: int) -> None:
        """Wait until the layer's last copy, and any that reads its selection buffer, is done."""

    @abstractmethod
    def drain(self, lanes: Sequence[int] | None = None) -> None:
        """Wait for everything that names these lanes; None is all."""


class InlineSchedule(Schedule):
    """Everything at once, in the caller's thread or stream."""

    def __init__(self, ops: Ops) -> None:
        self._install = ops.install

    def place(self, policy: Policy, plan: Plan) -> Placement:
        return policy.place(plan)

    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        plan = placement.plan
        self._install(plan.batch.lanes, plan.miss_from, plan.miss_count, placement.slot, rows, pool)

    def fence(self, layer: int) -> None:
        pass

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        pass


SCHEDULES: dict[str, type[InlineSchedule]] = {"inline": InlineSchedule}
