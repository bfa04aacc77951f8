"""Everything at once."""

from collections.abc import Sequence

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.ops import Ops
from tierkv.schedules.schedule import Schedule
from tierkv.types import Placement, Plan


class InlineSchedule(Schedule):
    """All work at once, in the caller's thread, or in order on the caller's stream."""

    compiles = True

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
