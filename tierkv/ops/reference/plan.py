"""Say where every selected record is."""

import torch
from torch import Tensor

from tierkv.constants import Kind
from tierkv.ops.reference.classify import classify, count, list_misses


def plan(
    ids: Tensor,
    lanes: Tensor,
    kv_len: Tensor,
    q_len: Tensor,
    stable: Tensor,
    block_table: Tensor,
    page: int,
    slot_of: Tensor,
    out_ids: Tensor,
    kind: Tensor,
    index: Tensor,
    length: Tensor,
    miss_id: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    counters: Tensor,
) -> None:
    """Classify, compact, and list the unique misses.

    Inputs are `ids` [B, Q, K] int32, the fields of :class:`~tierkv.types.Batch` and a policy's
    `slot_of` [lanes, positions]; outputs the fields of :class:`~tierkv.types.Plan` and the group's
    `counters`, which are added to.
    """
    entries = classify(ids, lanes, kv_len, q_len, stable, block_table, page)
    slot = _slot(ids, lanes, slot_of)
    hit = (entries.kind == Kind.MISS) & (slot >= 0)
    kinds = torch.where(hit, int(Kind.HIT), entries.kind).to(torch.int8)
    where = torch.where(hit, slot, entries.index)

    empty = kinds == Kind.EMPTY
    order = empty.to(torch.int8).argsort(dim=-1, stable=True)  # valid entries to the front
    front = ~empty.gather(2, order)
    out_ids.copy_(torch.where(front, ids.gather(2, order), -1))
    kind.copy_(torch.where(front, kinds.gather(2, order), 0))
    index.copy_(torch.where(front, where.gather(2, order), -1))
    length.copy_(front.sum(-1))
    list_misses(out_ids, kind, index, miss_id, miss_from, miss_count)
    count(counters, out_ids, kind, miss_count, entries)


def _slot(ids: Tensor, lanes: Tensor, slot_of: Tensor) -> Tensor:
    positions = slot_of.shape[1]
    lane = lanes.clamp(min=0).long()[:, None, None].expand_as(ids)
    slot = slot_of[lane, ids.clamp(0, positions - 1).long()].to(torch.int32)
    return torch.where((ids >= 0) & (ids < positions), slot, -1)
