"""The side stream of each mode."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.interfaces import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.schedules.side_stream_schedule import SideStreamSchedule
from tierkv.schedules.streams import Streams
from tierkv.types import Placement, Plan


def npu_streams(device: torch.device) -> Streams:
    """Give torch_npu's own: of torch's generic ones npugraph_ex would drop the switch."""
    npu: Any = torch.npu  # type: ignore[attr-defined]  # torch_npu brings it
    return Streams(
        current=npu.current_stream, stream=lambda: npu.Stream(device), event=npu.Event,
        on=npu.stream,
    )  # fmt: skip


class NpuSideStream(SideStreamSchedule):
    """Core's, which npugraph_ex can make part of its graph."""

    compiles = True

    def __init__(self, ops: Ops, limits: Limits, depth: int) -> None:
        super().__init__(ops, limits, depth, npu_streams(limits.device))


class GeSideStream(NpuSideStream):
    """In a graph of GE: work on a stream that the graph names, ordered by what it reads and writes.

    Values and the converters' control edges say all that events would. Outside of a compiler's
    trace it is the parent's.
    """

    LABEL = "tierkv"

    def __init__(self, ops: Ops, limits: Limits, depth: int) -> None:
        import torchair

        super().__init__(ops, limits, depth)
        self._switch = torchair.scope.npu_stream_switch

    def place(self, policy: Policy, plan: Plan) -> Placement:
        if not torch.compiler.is_dynamo_compiling():
            return super().place(policy, plan)
        with self._switch(self.LABEL):
            return policy.place(plan)

    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        if not torch.compiler.is_dynamo_compiling():
            super().copy(placement, layer, rows, pool)
            return
        plan = placement.plan
        with self._switch(self.LABEL):
            self._install(
                plan.batch.lanes, plan.miss_from, plan.miss_count, placement.slot, rows, pool
            )

    def fence(self, layer: int) -> None:
        if not torch.compiler.is_dynamo_compiling():
            super().fence(layer)

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        if not torch.compiler.is_dynamo_compiling():
            super().drain(lanes)
