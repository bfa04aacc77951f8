"""Who lies where in the selection buffers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.interfaces import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.types import Placement, Plan


class GatherPolicy(Policy):
    """Keep each live query's last selection, in the places that the plan gave its records.

    ``last-step`` for buffers that are the pool. A slot is a place: query times top-k plus the place
    in the query, queries counted as in the widest batch, so that the last is always the last. An
    id may have a place in each query, and one for each time it was selected.
    """

    family = "gather"

    def __init__(
        self, options: Any, limits: Limits, group: int, ops: Ops, counters: Tensor
    ) -> None:
        lanes, places = limits.lanes, limits.queries * limits.spec.top_k
        self._place, self._counters = ops.place_gather, counters
        self.id_at = torch.full((lanes, places), -1, dtype=torch.int32, device=limits.device)
        self.row_of = torch.full((lanes,), -1, dtype=torch.int32, device=limits.device)
        """[lanes] int32, the buffer row that a lane's records lie in; -1 none."""
        self.slot_of = torch.empty((lanes, 0), dtype=torch.int16, device=limits.device)
        """Empty: the planner looks ids up in ``id_at``."""
        self._placements: dict[int, Placement] = {}

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        groups, places = len(limits.spec.groups), limits.queries * limits.spec.top_k
        return groups * limits.lanes * (places + 1) * torch.int32.itemsize

    def prepare(self, plan: Plan) -> None:
        slot, count = torch.full_like(plan.miss_id, -1), torch.zeros_like(plan.miss_count)
        self._placements[plan.batch.key] = Placement(plan, slot, count)

    def placement(self, plan: Plan) -> Placement:
        return self._placements[plan.batch.key]

    def place(self, plan: Plan) -> Placement:
        placement = self._placements[plan.batch.key]
        self._place(
            plan.batch.lanes, plan.ids, plan.kind, plan.miss_from, plan.batch.first_row,
            self.id_at, self.row_of, placement.slot, placement.count, self._counters,
        )  # fmt: skip
        return placement

    def forget(self, lanes: Sequence[int], from_position: int = 0) -> None:
        for lane in lanes:
            held = self.id_at[lane]
            held[held >= from_position] = -1
