"""Records that only the backing has, as operators read them."""

import torch
from torch import Tensor

from tierkv.constants import Kind
from tierkv.interfaces.tier import SupportsView
from tierkv.site import Site
from tierkv.types import Plan


class FarRecords:
    """The backing's own memory, or one staging buffer a call where it has no ``SupportsView``.

    The latter waits for an accelerator twice: to know the rows, and to hand their records over.
    """

    def __init__(self, site: Site) -> None:
        layers = range(len(site.limits.spec.layouts))
        self._layouts, self._backing = site.limits.spec.layouts, site.backing
        view = site.backing.view if isinstance(site.backing, SupportsView) else None
        self._views = [[view(layer)] for layer in layers] if view else None

    def of(self, plan: Plan, layer: int) -> tuple[Tensor, list[Tensor]]:
        """Give the records that a plan needs from a layer, [n, stride], each read once.

        Returns
        -------
        tuple of Tensor and list
            The plan's index [B, Q, K], misses and window entries pointing into the records.
        """
        if self._views is not None:
            return plan.index, self._views[layer]
        wanted = (plan.kind == Kind.MISS) | (plan.kind == Kind.WINDOW)
        rows, device = plan.index[wanted].long().cpu(), wanted.device
        staging = torch.empty((len(rows), self._layouts[layer].stride), dtype=torch.uint8)
        if len(rows):
            self._backing.read(layer, rows, staging).wait()
        places = torch.arange(len(rows), dtype=torch.int32, device=device)
        return plan.index.masked_scatter(wanted, places), [staging.to(device)]
