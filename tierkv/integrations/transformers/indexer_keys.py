"""Indexer keys side by side, as models' indexers want them."""

import torch
from torch import Tensor

from tierkv.errors import ConfigError, say
from tierkv.layout import ModelSpec
from tierkv.limits import Limits


def key_part(spec: ModelSpec, layer: int) -> str:
    """Name the device part that holds the keys of a group's owner.

    Raises
    ------
    ConfigError
        If there is not exactly one.
    """
    names = [part.name for part in spec.layouts[layer].device]
    if len(names) != 1:
        wrong = f"layer {layer} must have one device part, its indexer's keys"
        raise ConfigError(say("model", wrong, got=names, do="mend the plugin's tierkv_model"))
    return names[0]


class IndexerKeys:
    """Gathers paged keys into one buffer, which every layer uses in turn.

    The keys of all positions stay on the device, in the pages of the requests that share them. An
    indexer reads them dense, once a step, so each layer's are laid side by side when it asks.
    """

    @torch.inference_mode(False)  # it outlives the mode it was made in
    def __init__(self, limits: Limits) -> None:
        layouts = (limits.spec.layouts[group.owner] for group in limits.spec.groups)
        nbytes = limits.page * max(layout.device_stride for layout in layouts)
        self._page = limits.page
        shape = limits.lanes * limits.lane_pages, nbytes
        self._buffer = torch.empty(shape, dtype=torch.uint8, device=limits.device)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, on the device."""
        return self._buffer.nbytes

    def gather(self, part: Tensor, table: Tensor, tokens: int) -> Tensor:
        """Lay the keys of a batch side by side.

        Parameters
        ----------
        part
            [pages * page, width], the keys of every page.
        table
            [B, pages] int32 block table, -1 unmapped.
        tokens
            T of the longest row.

        Returns
        -------
        Tensor
            [B, T, width], valid until the next call; behind a row's end it holds anything.
        """
        width, used = part.shape[1], -(-tokens // self._page)
        pages = table[:, :used].reshape(-1).clamp(min=0)
        flat = self._buffer.view(-1)[: len(pages) * self._page * width * part.itemsize]
        out = flat.view(part.dtype).view(len(pages), self._page * width)
        torch.index_select(part.view(-1, self._page * width), 0, pages, out=out)
        return out.view(len(table), used * self._page, width)[:, :tokens]
