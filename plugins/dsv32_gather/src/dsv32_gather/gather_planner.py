"""Planning against what lies in the selection buffers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from dsv32_gather.gather_policy import GatherPolicy
from tierkv.interfaces import Policy
from tierkv.plain import TablePlanner
from tierkv.site import Site
from tierkv.types import Batch, Plan


@dataclass(frozen=True, slots=True, eq=False)
class GatherPlan(Plan):
    """A plan whose entries stand at the places that their records have or will have."""

    source: Tensor
    """[B] int32, the buffer row that a row's hits lie in."""
    work: Tensor
    """[B, M] int32, flat places ``q * K + k`` to be written, in turn; -1 behind the count."""
    work_count: Tensor
    """[B] int32."""


class GatherPlanner(TablePlanner):
    """One ``plan_gather`` operator a group and step.

    A query's hits are what its own last selection holds; ``index`` of a hit is its place there. A
    lane whose row changed takes its records along, in a group of several layers only from rows of
    the same stepper: another might be served between the group's layers.
    """

    family = "gather"
    variants: ClassVar[Mapping[str, type[Policy]]] = {"last-step": GatherPolicy}

    def __init__(self, options: Any, site: Site) -> None:
        super().__init__(options, site)
        self._plan_gather = site.ops.plan_gather
        self._alone = [len(group.layers) == 1 for group in site.limits.spec.groups]

    def prepare(self, batch: Batch, group: int) -> Plan:
        plain = super().prepare(batch, group)
        known = {field.name: getattr(plain, field.name) for field in fields(plain)}
        plan = GatherPlan(
            **known,
            source=torch.zeros_like(batch.lanes),
            work=torch.zeros_like(plain.miss_id),
            work_count=torch.zeros_like(batch.lanes),
        )
        self._plans[batch.key, group] = plan
        return plan

    def plan(self, ids: Tensor, batch: Batch, group: int, policy: Policy) -> Plan:
        plan = self._plans[batch.key, group]
        assert isinstance(plan, GatherPlan)  # as prepared
        assert isinstance(policy, GatherPolicy)  # as build checked
        self._plan_gather(
            ids, batch.lanes, batch.kv_len, batch.q_len, batch.stable, batch.block_table,
            batch.page, batch.first_row, self._alone[group], policy.id_at, policy.row_of,
            plan.ids, plan.kind, plan.index, plan.length, plan.miss_id, plan.miss_from,
            plan.miss_count, plan.source, plan.work, plan.work_count, self._counters[group],
        )  # fmt: skip
        return plan
