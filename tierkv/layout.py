"""What a model's KV looks like: parts, records, layer groups. Static, built once."""

from collections.abc import Iterable, Mapping, Sequence

import attrs
import torch
from torch import Tensor

from tierkv.constants import ALIGNMENT
from tierkv.errors import ConfigError, say

PLACEMENTS = ("tiered", "device")


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@attrs.frozen
class Part:
    """One named piece of a KV row."""

    name: str
    width: int
    """Elements."""
    dtype: torch.dtype
    placement: str = "tiered"
    """``tiered``: in records, backing and pool. ``device``: on the device for every position."""

    def __attrs_post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(say(f"part {self.name}", "width must be at least 1", got=self.width))
        if self.placement not in PLACEMENTS:
            raise ConfigError(
                say(f"part {self.name}", "unknown placement", got=self.placement, known=PLACEMENTS)
            )

    @property
    def nbytes(self) -> int:
        """Bytes of one row of this part, unpadded."""
        return self.width * self.dtype.itemsize


@attrs.frozen
class KVLayout:
    """The parts of one layer's KV row.

    The tiered parts form the *record*: packed in order, each starting at a multiple of 32 bytes,
    the whole rounded up to one. GLM-5.2 in bf16: ``nope`` 512 and ``rope`` 64 make 1152 bytes.
    """

    parts: tuple[Part, ...]

    def __attrs_post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ConfigError(say("layout", "a part name stands twice", got=names))
        if not self.tiered:
            raise ConfigError(say("layout", "at least one tiered part is needed", got=names))

    @property
    def tiered(self) -> tuple[Part, ...]:
        """The parts of the record, in order."""
        return tuple(part for part in self.parts if part.placement == "tiered")

    @property
    def device(self) -> tuple[Part, ...]:
        """The parts that stay on the device."""
        return tuple(part for part in self.parts if part.placement == "device")

    @property
    def stride(self) -> int:
        """Bytes from one record to the next."""
        return sum(_round_up(part.nbytes) for part in self.tiered)

    @property
    def device_stride(self) -> int:
        """Bytes that the device parts take for one position."""
        return sum(part.nbytes for part in self.device)

    def views(self, records: Tensor) -> dict[str, Tensor]:
        """View records as their tiered parts.

        Parameters
        ----------
        records
            [..., stride] uint8.

        Returns
        -------
        dict
            Part name -> [..., width] in the part's dtype, sharing `records`' memory.
        """
        slices = self.slices(records)
        return {part.name: slices[part.name].view(part.dtype) for part in self.tiered}

    def pack(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Give whole records [..., stride] uint8 of all tiered parts, zero between them."""
        rows = [parts[part.name].view(torch.uint8) for part in self.tiered]
        gaps = [_round_up(part.nbytes) - part.nbytes for part in self.tiered]
        return torch.cat(
            [torch.nn.functional.pad(row, (0, gap)) if gap else row
             for row, gap in zip(rows, gaps, strict=True)], -1
        )  # fmt: skip

    def slices(self, records: Tensor) -> dict[str, Tensor]:
        """Give the tiered parts' bytes: part name -> [..., bytes] uint8, views of `records`."""
        slices, start = {}, 0
        for part in self.tiered:
            slices[part.name] = records[..., start : start + part.nbytes]
            start += _round_up(part.nbytes)
        return slices


@attrs.frozen
class LayerGroup:
    """Consecutive layers that share one selection (IndexShare); usually just one."""

    layers: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        if not self.layers or any(
            b - a != 1 for a, b in zip(self.layers, self.layers[1:], strict=False)
        ):
            raise ConfigError(say("group", "layers must be consecutive", got=list(self.layers)))

    @property
    def owner(self) -> int:
        """The first layer: its indexer selects for the whole group."""
        return self.layers[0]

    @property
    def last(self) -> int:
        """The last layer."""
        return self.layers[-1]


@attrs.frozen
class ModelSpec:
    """What tierkv needs to know of a model."""

    name: str
    top_k: int
    """K, positions that a query selects at most."""
    groups: tuple[LayerGroup, ...]
    layouts: tuple[KVLayout, ...]
    """One a layer."""

    def __attrs_post_init__(self) -> None:
        layers = [layer for group in self.groups for layer in group.layers]
        if layers != list(range(len(self.layouts))):
            raise ConfigError(
                say(
                    f"model {self.name}",
                    f"groups must cover layers 0 to {len(self.layouts) - 1} in order",
                    got=layers,
                )
            )
        if self.top_k < 1:
            raise ConfigError(say(f"model {self.name}", "top_k must be at least 1", got=self.top_k))

    @classmethod
    def uniform(
        cls, name: str, top_k: int, groups: Iterable[Sequence[int]], layout: KVLayout
    ) -> "ModelSpec":
        """Describe a model whose layers all have the same `layout`."""
        shared = tuple(LayerGroup(tuple(group)) for group in groups)
        layers = sum(len(group.layers) for group in shared)
        return cls(name, top_k, shared, (layout,) * layers)

    @property
    def group_of(self) -> tuple[int, ...]:
        """Index of the group of each layer."""
        return tuple(i for i, group in enumerate(self.groups) for _ in group.layers)

    @property
    def row_bytes(self) -> int:
        """Bytes of one position in the backing, all layers."""
        return sum(layout.stride for layout in self.layouts)

    @property
    def device_row_bytes(self) -> int:
        """Bytes of one position in the device parts, all layers."""
        return sum(layout.device_stride for layout in self.layouts)
