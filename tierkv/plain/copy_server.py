"""Serving by copying into selection buffers."""

import attrs
from torch import Tensor

from tierkv.errors import ConfigError, say
from tierkv.interfaces.server import Server
from tierkv.limits import Limits
from tierkv.plain.far_records import FarRecords
from tierkv.site import Site
from tierkv.tiers import memory
from tierkv.types import Plan, Selection


@attrs.frozen
class CopyServerOptions:
    """How many selections are valid at once."""

    depth: int = 2
    """Selection buffers, used by the layers in turn; 0 gives every layer its own."""

    def __attrs_post_init__(self) -> None:
        if self.depth < 0:
            raise ConfigError(say("depth", "must not be negative", got=self.depth))


class CopyServer(Server):
    """One ``serve`` operator a layer: hits from the pool, the rest from backing.

    Layer ``l`` uses buffer ``l % depth``.
    """

    Options = CopyServerOptions

    def __init__(self, options: CopyServerOptions, site: Site) -> None:
        limits = site.limits
        self.depth = options.depth or len(limits.spec.layouts)
        self._layouts, self._groups = limits.spec.layouts, limits.spec.groups
        self._serve = site.ops.serve
        self._row = limits.queries * limits.spec.top_k  # records of a row of the buffers
        self._pools = [[site.pool_view(layer)] for layer in range(len(self._layouts))]
        self._far = FarRecords(site)
        size = self.footprint(options, limits) // self.depth
        self._buffers = [
            memory.allocate("server.depth", (size,), limits.device) for _ in range(self.depth)
        ]
        self._selections: dict[tuple[int, int], tuple[Selection, list[Tensor]]] = {}
        self._records: dict[tuple[int, int, int], Tensor] = {}
        """Batch, buffer, stride -> the one view of them: to a compiler two would be two inputs."""

    @classmethod
    def footprint(cls, options: CopyServerOptions, limits: Limits) -> int:
        layouts = limits.spec.layouts
        rows = limits.lanes * limits.queries * limits.spec.top_k
        depth = options.depth or len(layouts)
        if depth > max(len(layouts), 2):  # the default suits a model of one layer too
            raise ConfigError(
                say("server.depth", f"the model has only {len(layouts)} layers", got=options.depth)
            )
        return int(depth * rows * max(layout.stride for layout in layouts))

    def prepare(self, plan: Plan) -> None:
        for layer in self._groups[plan.group].layers:
            layout = self._layouts[layer]
            records = self._view(plan, layer % self.depth, layout.stride)
            selection = Selection(records, plan.ids, plan.length, layout.views(records), layout)
            self._selections[plan.batch.key, layer] = selection, [records]

    def _view(self, plan: Plan, buffer: int, stride: int) -> Tensor:
        key = plan.batch.key, buffer, stride
        if key not in self._records:
            start = plan.batch.first_row * self._row * stride
            stop = start + plan.ids.numel() * stride
            shape = (*plan.ids.shape, stride)
            self._records[key] = self._buffers[buffer][start:stop].view(shape)
        return self._records[key]

    def serve(self, plan: Plan, layer: int, appended: Tensor) -> Selection:
        selection, out = self._selections[plan.batch.key, layer]
        index, backing = self._far.of(plan, layer)
        self._serve(
            plan.batch.lanes, plan.kind, index, [appended], self._pools[layer], backing, out
        )
        return selection
