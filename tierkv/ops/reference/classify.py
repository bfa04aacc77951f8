"""What planning operators share: judge each entry, list the unique misses, count."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.constants import Counter, Kind


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Entries [B, Q, K] judged without regard to what is resident."""

    kind: Tensor
    """Int8; what may turn out to be a hit is a MISS here."""
    index: Tensor
    """Int32."""
    future: Tensor
    """Bool, behind the query's own position."""
    unmapped: Tensor
    """Bool, without a page."""


def classify(
    ids: Tensor,
    lanes: Tensor,
    kv_len: Tensor,
    q_len: Tensor,
    stable: Tensor,
    block_table: Tensor,
    page: int,
) -> Entries:
    """Judge `ids` [B, Q, K] int32 by the fields of :class:`~tierkv.types.Batch`."""
    queries = ids.shape[1]
    start = (kv_len - queries)[:, None, None]  # the position of query 0
    query = torch.arange(queries, device=ids.device)[None, :, None]
    live = ((lanes >= 0) & (kv_len > 0))[:, None, None] & (
        query >= (queries - q_len)[:, None, None]
    )

    asked = live & (ids >= 0)
    future = asked & (ids > start + query)
    row = _backing_row(ids, block_table, page)
    unmapped = asked & ~future & (row < 0)
    valid = asked & ~future & (row >= 0)
    window = valid & (ids >= stable[:, None, None])
    fresh = window & (ids >= (kv_len - q_len)[:, None, None])

    kind, index = torch.zeros_like(ids, dtype=torch.int8), row
    for mask, name, value in (
        (valid & ~window, Kind.MISS, row),
        (window, Kind.WINDOW, row),
        (fresh, Kind.FRESH, ids - start),
    ):
        kind = torch.where(mask, int(name), kind).to(torch.int8)
        index = torch.where(mask, value, index)
    return Entries(kind, index, future, unmapped)


def _backing_row(ids: Tensor, block_table: Tensor, page: int) -> Tensor:
    pages = block_table.shape[1]
    number = torch.div(ids, page, rounding_mode="floor")
    flat = number.clamp(0, max(pages - 1, 0)).long().flatten(1)
    mapped = block_table.gather(1, flat).view_as(ids)
    known = (ids >= 0) & (number < pages) & (mapped >= 0)
    return torch.where(known, mapped * page + ids.remainder(page), -1)


def list_misses(
    ids: Tensor, kind: Tensor, index: Tensor, miss_id: Tensor, miss_from: Tensor, miss_count: Tensor
) -> None:
    """Deduplicate a row's misses: later ones become REPEAT and point at the first."""
    flat_ids, flat_kind, flat_index = ids.flatten(1), kind.flatten(1), index.flatten(1)
    miss = flat_kind == Kind.MISS
    place = torch.arange(flat_ids.shape[1], device=ids.device).expand_as(flat_ids)

    # A stable sort brings equal ids together, the first occurrence in front.
    key, order = torch.where(miss, flat_ids, -1).sort(dim=1, stable=True)
    head = torch.ones_like(miss)
    head[:, 1:] = key[:, 1:] != key[:, :-1]
    first_in_order = order.gather(1, torch.where(head, place, 0).cummax(dim=1).values)
    first = torch.empty_like(order).scatter_(1, order, first_in_order)

    repeat = miss & (first != place)
    kind.copy_(torch.where(repeat, int(Kind.REPEAT), flat_kind).view_as(kind))
    index.copy_(torch.where(repeat, first.to(torch.int32), flat_index).view_as(index))

    unique = miss & ~repeat
    miss_count.copy_(unique.sum(1))
    listed = (~unique).to(torch.int8).argsort(dim=1, stable=True)
    counted = place < miss_count[:, None]
    miss_from.copy_(torch.where(counted, listed, -1))
    miss_id.copy_(torch.where(counted, flat_ids.gather(1, listed), -1))


def count(
    counters: Tensor, ids: Tensor, kind: Tensor, miss_count: Tensor, entries: Entries
) -> None:
    """Add what a plan holds to the group's `counters`."""
    hit = kind == Kind.HIT
    found = torch.where(hit, ids, -1).flatten(1).sort(dim=1).values
    heads = (found[:, :1] >= 0).sum() + (
        (found[:, 1:] != found[:, :-1]) & (found[:, 1:] >= 0)
    ).sum()
    written = (kind == Kind.WINDOW).sum()
    misses = miss_count.sum()
    for counter, amount in (
        (Counter.STEPS, 1),
        (Counter.HITS, hit.sum()),
        (Counter.MISSES, ((kind == Kind.MISS) | (kind == Kind.REPEAT)).sum()),
        (Counter.WINDOW, written + (kind == Kind.FRESH).sum()),
        (Counter.FUTURE, entries.future.sum()),
        (Counter.UNMAPPED, entries.unmapped.sum()),
        (Counter.UNIQUE_HITS, heads),
        (Counter.UNIQUE_MISSES, misses),
        (Counter.FETCHED, misses + written),
    ):
        counters[counter] += amount
