"""Move rows: append, serve, install."""

import torch
from torch import Tensor

from tierkv.constants import Kind


def append(parts: list[Tensor], rows: Tensor, fresh: list[Tensor], out: list[Tensor]) -> None:
    """Keep this step's rows in `fresh` and write the live ones to their place.

    `parts` [B, Q, width]; `rows` [B, Q] int32, -1 is dropped; `fresh` is empty or like `parts`;
    `out` is empty or [N, width] each.
    """
    for part, kept in zip(_bytes(parts), _bytes(fresh), strict=False):
        kept.copy_(part)
    live = rows >= 0
    for part, target in zip(_bytes(parts), _bytes(out), strict=False):
        at = rows[live].long()
        target[at.to(target.device)] = part[live].to(target.device)


def serve(
    lanes: Tensor,
    kind: Tensor,
    index: Tensor,
    fresh: list[Tensor],
    pool: list[Tensor],
    backing: list[Tensor],
    out: list[Tensor],
) -> None:
    """Put the selected rows side by side, zero behind them.

    `fresh` [B, Q, width], `pool` [lanes, P, width], `backing` [N, width], `out` [B, Q, K, width].
    """
    batch = torch.arange(kind.shape[0], device=kind.device)[:, None, None].expand_as(kind)
    at = index.long()
    hit, is_fresh, repeat = kind == Kind.HIT, kind == Kind.FRESH, kind == Kind.REPEAT
    from_backing = (kind == Kind.MISS) | (kind == Kind.WINDOW)
    lane = lanes.long()[:, None, None].expand_as(kind)
    lists = (_bytes(rows) for rows in (fresh, pool, backing, out))
    for new, near, far, target in zip(*lists, strict=True):
        target.zero_()
        target[hit] = near[lane[hit], at[hit]]
        target[from_backing] = take(far, at[from_backing])
        target[is_fresh] = new[batch[is_fresh], at[is_fresh]]
        rows = target.flatten(1, 2)
        rows[repeat.flatten(1)] = rows[batch[repeat], at[repeat]]


def install(
    lanes: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    slot: Tensor,
    selection: list[Tensor],
    pool: list[Tensor],
) -> None:
    """Copy placed misses from `selection` [B, Q, K, width] into `pool` [lanes, P, width]."""
    column = torch.arange(slot.shape[1], device=slot.device)
    placed = (slot >= 0) & (column < miss_count[:, None])
    batch, miss = placed.nonzero(as_tuple=True)
    lane, place = lanes[batch].long(), slot[batch, miss].long()
    for rows, near in zip(_bytes(selection), _bytes(pool), strict=True):
        near[lane, place] = rows.flatten(1, 2)[batch, miss_from[batch, miss].long()]


def take(rows: Tensor, at: Tensor) -> Tensor:
    """Give rows `at` [n] of `rows` [N, width], which may lie in main memory, where `at` lies."""
    return rows[at.to(rows.device)].to(at.device)


def _bytes(rows: list[Tensor]) -> list[Tensor]:
    """View rows as bytes: arithmetic types may change a NaN in passing."""
    return [part.view(torch.uint8) for part in rows]
