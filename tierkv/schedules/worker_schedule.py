"""The native worker thread."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.schedules.schedule import Schedule
from tierkv.types import Placement, Plan


class WorkerSchedule(Schedule):
    """One thread, written in C++, works while the caller computes attention.

    One submission a layer; the owner's carries the placement too. ``tickets`` holds the number of
    the last job of each selection buffer and of each group, so that a fence waits for no more than
    it must.
    """

    background = True

    def __init__(self, ops: Ops, limits: Limits, depth: int) -> None:
        groups = limits.spec.groups
        self._submit, self._submit_install, self._wait = ops.submit, ops.submit_install, ops.wait
        self.tickets = torch.zeros(1 + depth + len(groups), dtype=torch.int64)
        """[1 + depth + groups] int64: bits of Failure, then job numbers."""
        self._buffer = [1 + layer % depth for layer in range(len(limits.spec.layouts))]
        self._group = [1 + depth + group for group in range(len(groups))]
        self._fences = [
            (self._buffer[layer], self._group[number] if layer == group.owner else -1)
            for number, group in enumerate(groups)
            for layer in group.layers
        ]
        self._placing: OperatorPolicy | None = None

    def place(self, policy: Policy, plan: Plan) -> Placement:
        assert isinstance(policy, OperatorPolicy)  # make_schedule sees to it
        self._placing = policy
        return policy.placement(plan)

    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        plan, policy = placement.plan, self._placing
        lanes, group = plan.batch.lanes, self._group[plan.group]
        if policy is None:
            self._submit_install(
                self.tickets, self._buffer[layer], group, lanes, plan.miss_from, plan.miss_count,
                placement.slot, rows, pool,
            )  # fmt: skip
            return
        self._placing = None
        self._submit(
            self.tickets, self._buffer[layer], group, policy.operator, policy.arguments,
            lanes, plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
            policy.tables, placement.slot, placement.count, policy.counters, rows, pool,
        )  # fmt: skip

    def fence(self, layer: int) -> None:
        self._wait(self.tickets, *self._fences[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        self._placing = None
        self._wait(self.tickets, -1, -1)
