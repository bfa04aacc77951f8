"""Small caches built from classes, registered or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import attrs
import torch
from torch import Tensor

from tierkv import config as configuration
from tierkv.build import build
from tierkv.cache import TieredCache
from tierkv.config import Choice
from tierkv.layout import KVLayout, ModelSpec, Part
from tierkv.limits import Limits

LAYOUT = KVLayout((Part("key", 8, torch.float32), Part("value", 16, torch.int16)))
"""64 bytes, no padding between parts."""

INDEXED = KVLayout((*LAYOUT.parts, Part("index", 4, torch.int16, "device")))
"""The same with an indexer's key, which stays on the device."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a small cache and of the batches that step it."""

    lanes: int = 4
    batch: int = 3
    queries: int = 3
    top_k: int = 6
    max_tokens: int = 96
    page: int = 16
    pages: int = 18
    slots: int = 16
    groups: tuple[tuple[int, ...], ...] = ((0,), (1, 2))
    layout: KVLayout = LAYOUT

    @property
    def spec(self) -> ModelSpec:
        """A model of this shape."""
        return ModelSpec.uniform("small", self.top_k, self.groups, self.layout)

    @property
    def limits(self) -> Limits:
        """The sizes as components see them."""
        return Limits(
            spec=self.spec, device=torch.device("cpu"), lanes=self.lanes,
            max_tokens=self.max_tokens, queries=self.queries, page=self.page, pages=self.pages,
            slots=(self.slots,) * len(self.groups),
        )  # fmt: skip


def device_parts(layout: KVLayout, records: Tensor) -> dict[str, Tensor]:
    """Make up the device parts that go with records [..., stride] uint8: their first bytes."""
    return {
        part.name: records[..., : part.nbytes].contiguous().view(part.dtype)
        for part in layout.device
    }


def bytes_of(records: Tensor) -> bytes:
    """Give records as bytes, wherever they lie."""
    raw: bytes = records.contiguous().cpu().numpy().tobytes()
    return raw


def tensor_of(raw: bytes, stride: int) -> Tensor:
    """Give bytes as records, [n, stride] uint8."""
    if not raw:
        return torch.empty((0, stride), dtype=torch.uint8)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, stride)


def choice(component: Any, options: Mapping[str, Any] | None = None) -> Choice:
    """Choose a component class by itself rather than by a registered name."""
    return Choice(component.__name__, component, component.Options(**(options or {})))


def assemble(
    shape: Shape, debug: bool = False, ops: str = "reference", **components: str | Choice
) -> TieredCache:
    """Build a cache.

    Parameters
    ----------
    ops
        Registered name of the operators' backend.
    components
        ``backing``, ``pool``, ``policy``, ``planner``, ``server``, ``installer``: a registered
        name, or a :func:`choice`; what is not given is the default.
    """
    named = {name: {"use": use} for name, use in components.items() if isinstance(use, str)}
    page_bytes = shape.page * shape.spec.row_bytes
    source: dict[str, Any] = {"policy": {"use": "fifo"}, "debug": debug, "ops": ops}
    source |= named
    source["backing"] = {
        "use": "host", "page": shape.page, "capacity": shape.pages * page_bytes,
        **named.get("backing", {}),
    }  # fmt: skip
    source["pool"] = {"use": "device", "slots": shape.slots, **named.get("pool", {})}
    config = configuration.read(
        source, model=shape.spec, lanes=shape.lanes, max_tokens=shape.max_tokens,
        queries=shape.queries,
    )  # fmt: skip
    chosen = {name: use for name, use in components.items() if isinstance(use, Choice)}
    return build(attrs.evolve(config, choices={**config.choices, **chosen}))
