"""The records of every position: tiered parts in the backing, device parts beside the pool."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tierkv.errors import CapacityError, ShapeError, StateError, say
from tierkv.interfaces.tier import SupportsView, Tier
from tierkv.layout import Part
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.paging import Copy

Records = Mapping[str, Tensor] | Tensor
"""Part name -> [..., width] in the part's dtype, or [..., stride] uint8 of whole records."""


class Store:
    """Writes and reads records by backing row, whichever tier holds them."""

    def __init__(self, limits: Limits, ops: Ops, backing: Tier) -> None:
        self._layouts, self._page = limits.spec.layouts, limits.page
        self._parts = [{part.name: part for part in layout.parts} for layout in self._layouts]
        self._append, self._packs = ops.append, ops.packs
        self._backing, self._external = backing, limits.external
        self.device: list[dict[str, Tensor]] = [
            {part.name: _device_part(part, limits) for part in layout.device}
            for layout in self._layouts
        ]
        """Per layer, part name -> [rows, width]."""
        layers = range(len(self._layouts))
        self._base = [backing.view(i) for i in layers] if isinstance(backing, SupportsView) else []
        self._views = (
            [self._layouts[i].views(self._base[i]) for i in layers] if self._base else None
        )
        self.addressable = self._views is not None
        """Whether kernels write tiered parts themselves; else :meth:`write` does, whole records."""

    def named(
        self, what: str, layer: int, records: Records, lead: tuple[int, ...]
    ) -> Mapping[str, Tensor]:
        """Check records of shape `lead` + [width] and give them by part name.

        Raises
        ------
        ShapeError
            Starting with `what` and the layer.
        """
        if isinstance(records, Tensor):
            layout = self._layouts[layer]
            if records.dtype != torch.uint8 or records.shape != (*lead, layout.stride):
                wrong = f"whole records must be uint8 {[*lead, layout.stride]}"
                raise ShapeError(say(f"{what}, layer {layer}", wrong, got=_seen(records)))
            return layout.views(records)
        known = self._parts[layer]
        for name, rows in records.items():
            part = known.get(name)
            if part is None:
                raise ShapeError(
                    say(f"{what}, layer {layer}", "unknown part", got=name, known=known)
                )
            if rows.dtype != part.dtype or rows.shape != (*lead, part.width):
                wrong = f"part {name} must be {part.dtype} {[*lead, part.width]}"
                raise ShapeError(say(f"{what}, layer {layer}", wrong, got=_seen(rows)))
        return records

    def kinds(self, what: str, layer: int, parts: Mapping[str, Tensor]) -> list[str]:
        """Say whether these are the layer's ``tiered`` parts, its ``device`` parts, or both.

        Raises
        ------
        StateError
            If some are missing: each kind comes whole.
        """
        found = []
        layout = self._layouts[layer]
        for kind, wanted in (("tiered", layout.tiered), ("device", layout.device)):
            names = {part.name for part in wanted}
            if names.isdisjoint(parts):
                continue
            if not names.issubset(parts):
                wrong, do = f"{kind} parts come together", f"pass {sorted(names)}"
                raise StateError(say(f"{what}, layer {layer}", wrong, got=sorted(parts), do=do))
            found.append(kind)
        return found

    def append(
        self,
        layer: int,
        parts: Mapping[str, Tensor],
        rows: Tensor,
        fresh: Mapping[str, Tensor],
        records: Tensor,
    ) -> None:
        """Launch writes of `parts` [B, Q, width] to `rows` [B, Q].

        Tiered ones are kept in `fresh`, part name -> [B, Q, width], views of `records`
        [B, Q, stride] uint8.
        """
        tiered = [name for name in parts if name in fresh]
        if tiered and torch.compiler.is_compiling():
            self._append_bytes(layer, {name: parts[name] for name in tiered}, rows, records)
        elif tiered:
            out = [self._views[layer][name] for name in tiered] if self._views else []
            self._append([parts[n] for n in tiered], rows, [fresh[n] for n in tiered], out)
        device = [name for name in parts if name not in fresh]
        if device:
            out = [self.device[layer][name] for name in device]
            self._append([parts[n] for n in device], rows, [], out)

    def _append_bytes(
        self, layer: int, parts: Mapping[str, Tensor], rows: Tensor, records: Tensor
    ) -> None:
        """Append by slices made here: a graph may not mutate views of another dtype it is given."""
        layout = self._layouts[layer]
        if self._packs:
            if len(parts) < len(layout.tiered):
                # No `say`: a compiler's trace could not follow it.
                raise StateError("append: in a graph tiered parts come together")
            self._append([layout.pack(parts)], rows, [records], [self._base[layer]])
            return
        kept, written = layout.slices(records), layout.slices(self._base[layer])
        self._append(
            [part.view(torch.uint8) for part in parts.values()],
            rows,
            [kept[name] for name in parts],
            [written[name] for name in parts],
        )

    def written(self, what: str, layer: int, rows: Tensor) -> Tensor:
        """Give the records [B, Q, stride] that an engine has written to `rows` [B, Q]."""
        if not self._external:
            do = "pass them; None is for External blocks"
            raise StateError(say(f"{what}, layer {layer}", "records are missing", do=do))
        return self._base[layer][rows.clamp(min=0).long()]

    def write(self, layer: int, rows: Tensor, records: Tensor) -> None:
        """Write whole `records` [n, stride] uint8 to `rows` [n] int64 of the backing."""
        self._backing.write(layer, rows, records).wait()

    def write_live(self, layer: int, rows: Tensor, records: Tensor) -> None:
        """Write those of `records` [B, Q, stride] to the backing that have a row in `rows`."""
        live = rows >= 0
        self.write(layer, rows[live].long().cpu(), records[live].cpu())

    def write_device(self, layer: int, rows: Tensor, parts: Mapping[str, Tensor]) -> None:
        """Write those of `parts` [n, width] that stay on the device to `rows` [n] int64."""
        for name, target in self.device[layer].items():
            if name in parts:
                target[rows.to(target.device)] = parts[name].to(target.device)

    def copy_pages(self, copies: Sequence[Copy]) -> None:
        """Copy pages, in every layer and part."""
        if not copies:
            return
        source, target = (
            torch.cat([torch.arange(n * self._page, (n + 1) * self._page) for n in pages])
            for pages in zip(*((copy.source, copy.target) for copy in copies), strict=True)
        )
        for layer, layout in enumerate(self._layouts):
            records = torch.empty((len(source), layout.stride), dtype=torch.uint8)
            self._backing.read(layer, source, records).wait()
            self.write(layer, target, records)
            for part in self.device[layer].values():
                part[target.to(part.device)] = part[source.to(part.device)]

    def read(self, layer: int, rows: Tensor) -> dict[str, Tensor]:
        """Read all parts of `rows` [n] int64: name -> [n, width], on the host for tiered ones."""
        layout = self._layouts[layer]
        records = torch.empty((len(rows), layout.stride), dtype=torch.uint8)
        self._backing.read(layer, rows, records).wait()
        parts = layout.views(records)
        for name, source in self.device[layer].items():
            parts[name] = source[rows.to(source.device)]
        return parts


def _device_part(part: Part, limits: Limits) -> Tensor:
    try:
        return torch.empty((limits.rows, part.width), dtype=part.dtype, device=limits.device)
    except RuntimeError:
        raise CapacityError(
            say(
                "backing.capacity",
                f"device part {part.name} of {limits.rows:,} rows was refused",
                do="lower it",
            )
        ) from None


def _seen(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
