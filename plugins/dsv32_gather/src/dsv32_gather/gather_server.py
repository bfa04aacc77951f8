"""Serving in place."""

from typing import Any

import torch
from torch import Tensor

from dsv32_gather.gather_planner import GatherPlan
from tierkv.interfaces import Server
from tierkv.limits import Limits
from tierkv.plain.far_records import FarRecords
from tierkv.site import Site
from tierkv.tiers import memory
from tierkv.types import Plan, Selection


class GatherServer(Server):
    """One ``gather`` operator a layer, on a buffer of the layer's own, which is its pool.

    A buffer has a row for each lane and each of the most queries; a narrower batch uses the last
    queries of its rows.
    """

    family = "gather"
    ordered = False
    pooled = False

    def __init__(self, options: Any, site: Site) -> None:
        limits = site.limits
        self.depth = len(limits.spec.layouts)
        self._layouts, self._groups = limits.spec.layouts, limits.spec.groups
        self._gather, self._far = site.ops.gather, FarRecords(site)
        shape = (limits.lanes, limits.queries, limits.spec.top_k)
        self.buffers = [
            [memory.allocate("queries", (*shape, layout.stride), limits.device)]
            for layout in self._layouts
        ]
        """Of each layer, [lanes, queries, K, stride] uint8."""
        self._filled = [
            torch.full(shape[:2], shape[2], dtype=torch.int32, device=limits.device)
            for _ in self._layouts
        ]
        """How far a query's records may be other than zero: at first all of them."""
        self._selections: dict[tuple[int, int], Selection] = {}

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        record = sum(layout.stride for layout in limits.spec.layouts)
        filled = len(limits.spec.layouts) * torch.int32.itemsize
        return limits.lanes * limits.queries * (limits.spec.top_k * record + filled)

    def prepare(self, plan: Plan) -> None:
        batch, queries = plan.batch, plan.batch.queries
        rows = slice(batch.first_row, batch.first_row + len(batch.lanes))
        for layer in self._groups[plan.group].layers:
            records, layout = self.buffers[layer][0][rows, -queries:], self._layouts[layer]
            self._selections[batch.key, layer] = Selection(
                records, plan.ids, plan.length, layout.views(records), layout
            )

    def serve(self, plan: Plan, layer: int, appended: Tensor) -> Selection:
        assert isinstance(plan, GatherPlan)  # as built
        index, backing = self._far.of(plan, layer)
        self._gather(
            plan.kind, index, plan.length, plan.source, plan.work, plan.work_count,
            plan.batch.first_row, [appended], backing, self.buffers[layer], self._filled[layer],
        )  # fmt: skip
        return self._selections[plan.batch.key, layer]
