"""What a cache will take, said before it is allocated."""

import attrs

from tierkv.limits import Limits


@attrs.frozen
class Footprint:
    """Bytes of each kind."""

    pool: int
    """Device: resident records."""
    selections: int
    """Device: selection buffers."""
    device_parts: int
    """Device: parts kept there for every position."""
    tables: int
    """Device: residency tables."""
    backing: int
    """Records of every position; 0 where they are an engine's own."""
    tokens: int
    """Tokens that the backing holds, all requests together."""

    @property
    def device(self) -> int:
        """KV bytes on the device."""
        return self.pool + self.selections + self.device_parts

    @classmethod
    def of(cls, limits: Limits, selections: int, tables: int) -> "Footprint":
        """Add up what the limits imply and what server and policy said."""
        spec = limits.spec
        pool = sum(
            limits.lanes * slots * spec.layouts[layer].stride
            for group, slots in zip(spec.groups, limits.slots, strict=True)
            for layer in group.layers
        )
        return cls(
            pool=pool,
            selections=selections,
            device_parts=limits.rows * spec.device_row_bytes,
            tables=tables,
            backing=0 if limits.external else limits.rows * spec.row_bytes,
            tokens=limits.rows,
        )
