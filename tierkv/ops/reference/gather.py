"""The fused gather: the last step's selection stays where it lies, and only what is new moves.

Selection buffers are [R, Q', K, width], a row for each that may be in a batch. A batch of B rows
and Q queries uses the rows from ``first_row`` on and their last Q queries.
"""

import torch
from torch import Tensor

from tierkv.constants import Counter, Kind
from tierkv.ops.reference.classify import classify, count, list_misses
from tierkv.ops.reference.move import take


def plan_gather(
    ids: Tensor,
    lanes: Tensor,
    kv_len: Tensor,
    q_len: Tensor,
    stable: Tensor,
    block_table: Tensor,
    page: int,
    first_row: int,
    across: bool,
    id_at: Tensor,
    row_of: Tensor,
    out_ids: Tensor,
    kind: Tensor,
    index: Tensor,
    length: Tensor,
    miss_id: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    source: Tensor,
    work: Tensor,
    work_count: Tensor,
    counters: Tensor,
) -> None:
    """Classify, give each entry a place in its query, and list the places to be written.

    `id_at` [lanes, Q' * K] holds the ids at each lane's places, `row_of` [lanes] the buffer row
    where they lie. Rows outside of the batch's are read only with `across`. Outputs are the fields
    of a plan, `source` [B], the row each row's hits lie in, and `work` [B, M], the flat places to
    be written: moves, then what is copied from elsewhere, then repeats, -1 behind `work_count` [B].
    """
    rows, queries, top_k = ids.shape
    entries = classify(ids, lanes, kv_len, q_len, stable, block_table, page)
    own = torch.arange(first_row, first_row + rows, device=ids.device, dtype=torch.int32)
    lane = lanes.clamp(min=0).long()
    lies = row_of[lane]
    near = (lies >= 0) & (across | ((lies >= first_row) & (lies < first_row + rows)))
    source.copy_(torch.where(near & (lanes >= 0), lies, own))
    held = torch.where(near[:, None], id_at[lane, -queries * top_k :], -1).view_as(ids)

    out_ids.fill_(-1)
    kind.zero_()
    index.fill_(-1)
    for row in range(rows):
        for query in range(queries):
            valid = entries.kind[row, query] != Kind.EMPTY
            wanted, kinds = ids[row, query, valid], entries.kind[row, query, valid]
            found = match(torch.where(kinds == Kind.MISS, wanted, -1), held[row, query])
            place = arrange(found)
            out_ids[row, query, place] = wanted
            kind[row, query, place] = torch.where(found >= 0, int(Kind.HIT), kinds).to(torch.int8)
            at = torch.where(found >= 0, found.to(torch.int32), entries.index[row, query, valid])
            index[row, query, place] = at
            length[row, query] = len(wanted)
    list_misses(out_ids, kind, index, miss_id, miss_from, miss_count)
    count(counters, out_ids, kind, miss_count, entries)
    counters[Counter.MOVED] += _list_work(kind, index, source != own, work, work_count)


def match(wanted: Tensor, held: Tensor) -> Tensor:
    """Give the place in `held` [K] of each of `wanted` [n], -1 for none; -1 is no id.

    The n-th time that an id is wanted it is found in the n-th place that holds it.
    """

    def occurrence(ids: Tensor) -> Tensor:
        return (ids[:, None] == ids).tril(-1).sum(1)

    same = (wanted[:, None] == held) & (wanted >= 0)[:, None]
    same &= occurrence(wanted)[:, None] == occurrence(held)
    return torch.where(same.any(1), same.to(torch.int8).argmax(1), -1)


def arrange(found: Tensor) -> Tensor:
    """Give each of n entries a place below n; `found` [n] is where it lies already, -1 nowhere.

    What lies below n stays. What lies behind takes the lowest holes, the last first, and what is
    new the rest in the order given.
    """
    n = len(found)
    stays = (found >= 0) & (found < n)
    behind = torch.nonzero(found >= n).flatten()
    behind = behind[found[behind].argsort(descending=True)]
    new = torch.nonzero(found < 0).flatten()
    hole = torch.ones(n, dtype=torch.bool, device=found.device)
    hole[found[stays]] = False
    place = found.clone()
    place[torch.cat([behind, new])] = torch.nonzero(hole).flatten()
    return place


def _list_work(
    kind: Tensor, index: Tensor, elsewhere: Tensor, work: Tensor, work_count: Tensor
) -> Tensor:
    """List what does not stay where it is; give the number of moves."""
    place = torch.arange(kind.shape[2], device=kind.device)
    hit = kind == Kind.HIT
    moves = hit & ((index != place) | elsewhere[:, None, None])
    turn = torch.full_like(kind, 3)  # 3 is not listed
    for mask, first in (
        (moves, 0), ((kind != Kind.EMPTY) & ~hit, 1), (kind == Kind.REPEAT, 2)
    ):  # fmt: skip
        turn[mask] = first
    order = turn.flatten(1).argsort(dim=1, stable=True)
    work_count.copy_((turn < 3).flatten(1).sum(1))
    listed = torch.arange(work.shape[1], device=work.device) < work_count[:, None]
    work.copy_(torch.where(listed, order, -1))
    return moves.sum()


def place_gather(
    lanes: Tensor,
    ids: Tensor,
    kind: Tensor,
    miss_from: Tensor,
    first_row: int,
    id_at: Tensor,
    row_of: Tensor,
    slot: Tensor,
    count: Tensor,
    counters: Tensor,
) -> None:
    """Note what lies where once a plan has been gathered; slots are places in ``id_at``.

    A lane that lay in one of the batch's rows, but is not in the batch, is cold.
    """
    rows = len(lanes)
    gone = (row_of >= first_row) & (row_of < first_row + rows)
    id_at[gone] = -1
    row_of[gone] = -1
    places = ids[0].numel()
    live = lanes >= 0
    lane = lanes[live].long()
    settled = (kind == Kind.HIT) | (kind == Kind.MISS) | (kind == Kind.REPEAT)
    id_at[lane] = -1
    id_at[lane, -places:] = torch.where(settled, ids, -1).flatten(1)[live]
    own = torch.arange(first_row, first_row + rows, device=lanes.device, dtype=torch.int32)
    row_of[lane] = own[live]
    slot.copy_(torch.where(miss_from >= 0, miss_from + (id_at.shape[1] - places), -1))
    count.copy_((slot >= 0).sum(1))
    counters[Counter.INSTALLS] += count.sum()


def gather(
    kind: Tensor,
    index: Tensor,
    length: Tensor,
    source: Tensor,
    work: Tensor,
    work_count: Tensor,
    first_row: int,
    fresh: list[Tensor],
    backing: list[Tensor],
    buffer: list[Tensor],
    filled: Tensor,
) -> None:
    """Bring one layer's buffer from the last selection to this one.

    `fresh` [B, Q, width], `backing` [N, width], `buffer` [R, Q', K, width]; `filled` [R, Q'] is
    how far each query may hold anything but zeros, updated.
    """
    rows, queries, top_k = kind.shape
    batch, turn = torch.nonzero(
        torch.arange(work.shape[1], device=work.device) < work_count[:, None], as_tuple=True
    )
    flat = work[batch, turn].long()
    query, place = flat // top_k, flat % top_k
    kinds, at = kind[batch, query, place], index[batch, query, place].long()
    hit, is_fresh, repeat = kinds == Kind.HIT, kinds == Kind.FRESH, kinds == Kind.REPEAT
    from_backing = (kinds == Kind.MISS) | (kinds == Kind.WINDOW)

    mine = slice(first_row, first_row + rows), slice(filled.shape[1] - queries, None)
    before = filled[mine]
    before.copy_(before.maximum(length))  # holds even if this fails half-way
    places = torch.arange(top_k, device=kind.device)
    rest = (places >= length[..., None]) & (places < before[..., None])
    for new, far, target in zip(fresh, backing, buffer, strict=True):
        to = target[mine]
        lain = target[:, mine[1]][source.long()[batch[hit]], query[hit], at[hit]]
        to[batch[hit], query[hit], place[hit]] = lain  # all are read before one is written
        fetched = take(far, at[from_backing])
        to[batch[from_backing], query[from_backing], place[from_backing]] = fetched
        to[batch[is_fresh], query[is_fresh], place[is_fresh]] = new[batch[is_fresh], at[is_fresh]]
        first = at[repeat] // top_k, at[repeat] % top_k
        to[batch[repeat], query[repeat], place[repeat]] = to[batch[repeat], *first]
        to[rest] = 0
    before.copy_(length)
