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
        self.arguments = list(self.operator_arguments(options))
        """The operator's numbers that stand between plan and tables."""

    @classmethod
    def operator_arguments(cls, options: Any) -> tuple[int, ...]:
        """Give the operator's numbers for these options."""
        return ()

    @property
    def compiled(self) -> bool:
        """Whether native operators have a kernel for these options."""
        return True

    def place(self, plan: Plan) -> Placement:
        placement = self._placements[plan.batch.key]
        self._place(
            plan.batch.lanes, plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
            *self.arguments, self.tables, placement.slot, placement.count, self.counters,
        )  # fmt: skip
        return placement
