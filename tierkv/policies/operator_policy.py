"""Policies whose placement is an operator."""

from typing import Any, ClassVar

from torch import Tensor

from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.policies.table_policy import TablePolicy
from tierkv.types import Placement, Plan


class OperatorPolicy(TablePolicy):
    """Placement by ``place_<operator>``, in whichever backend the cache uses."""

    operator: ClassVar[str]
    """Name of the operator, without ``place_``."""

    def __init__(
        self, options: Any, limits: Limits, group: int, ops: Ops, counters: Tensor
    ) -> None:
        super().__init__(options, limits, group, ops, counters)
        self._place = ops.place(self.operator)
        self._arguments = self.arguments(options)

    @classmethod
    def arguments(cls, options: Any) -> tuple[int, ...]:
        """Give the operator's numbers that stand between the plan and the tables."""
        return ()

    def place(self, plan: Plan) -> Placement:
        placement = self._placements[plan.batch.key]
        self._place(
            plan.batch.lanes, plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
            *self._arguments, self.tables, placement.slot, placement.count, self.counters,
        )  # fmt: skip
        return placement
