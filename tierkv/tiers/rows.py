"""Rows that a tier was asked for."""

from collections.abc import Sequence

from torch import Tensor

from tierkv.errors import TierError, say


def records_of(where: str, layers: Sequence[Tensor], layer: int, rows: Tensor) -> Tensor:
    """Give a layer's records [n, stride] if it has all of `rows`, else raise TierError."""
    if not 0 <= layer < len(layers):
        raise TierError(say(where, f"layer {layer} is not allocated", do="call allocate"))
    records = layers[layer]
    bad = rows[(rows < 0) | (rows >= len(records))]
    if len(bad):
        raise TierError(
            say(where, f"layer {layer} of {len(records)} rows has none of {bad[:8].tolist()}")
        )
    return records
