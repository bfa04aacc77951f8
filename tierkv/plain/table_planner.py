"""Planning against a policy's tables."""

from typing import Any

import torch
from torch import Tensor

from tierkv.interfaces.planner import Planner
from tierkv.interfaces.policy import Policy
from tierkv.site import Site
from tierkv.types import Batch, Plan


class TablePlanner(Planner):
    """One ``plan`` operator a group and step."""

    def __init__(self, options: Any, site: Site) -> None:
        self._plan = site.ops.plan
        self._counters = site.counters_of
        self._top_k = site.limits.spec.top_k
        self._plans: dict[tuple[int, int], Plan] = {}

    def prepare(self, batch: Batch, group: int) -> Plan:
        rows, shape = len(batch.lanes), (len(batch.lanes), batch.queries, self._top_k)
        misses = batch.queries * self._top_k
        device = batch.lanes.device

        def buffer(*size: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        plan = Plan(
            group=group, batch=batch,
            ids=buffer(*shape), kind=buffer(*shape, dtype=torch.int8), index=buffer(*shape),
            length=buffer(rows, batch.queries),
            miss_id=buffer(rows, misses), miss_from=buffer(rows, misses), miss_count=buffer(rows),
        )  # fmt: skip
        self._plans[batch.key, group] = plan
        return plan

    def plan(self, ids: Tensor, batch: Batch, group: int, policy: Policy) -> Plan:
        plan = self._plans[batch.key, group]
        self._plan(
            ids, batch.lanes, batch.kv_len, batch.q_len, batch.stable, batch.block_table,
            batch.page, policy.slot_of, plan.ids, plan.kind, plan.index, plan.length,
            plan.miss_id, plan.miss_from, plan.miss_count, self._counters[group],
        )  # fmt: skip
        return plan
