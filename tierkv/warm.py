"""Make records resident before the first step asks for them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv import frozen
from tierkv.errors import ShapeError, StateError, say
from tierkv.requests import lane_of
from tierkv.rows import Rows

if TYPE_CHECKING:
    from tierkv.cache import TieredCache


def warm(cache: TieredCache, request: Hashable, layer: int, ids: Tensor) -> None:
    """Plan, serve and install selections [n, K] of a request as steps without attention."""
    where = f"warm {request!r}, layer {layer}"
    lane, group = lane_of(cache, "warm", request), cache.group_of(f"warm {request!r}", layer)
    layers, top_k = cache.limits.spec.groups[group].layers, cache.limits.spec.top_k
    if layer != layers[0]:
        do = f"pass layer {layers[0]}"
        raise StateError(say(where, "is not the owner of its group", do=do))
    rows = ids.reshape(-1, ids.shape[-1]) if ids.dim() else ids
    if ids.dtype != torch.int32 or rows.dim() != 2 or rows.shape[1] > top_k:
        got = f"{ids.dtype} {list(ids.shape)}"
        raise ShapeError(say(where, f"ids must be int32 [n, K], K at most {top_k}", got=got))
    if cache.lanes.open:
        raise StateError(say(where, "a step is open", do="end it first"))
    cache.installer.drain()  # pending work reads the batch and counts, both written here
    length = int(cache.lengths.tiered[lane, list(layers)].min())
    padded = torch.full((len(rows), top_k), -1, dtype=torch.int32, device=cache.limits.device)
    padded[:, : rows.shape[1]] = rows
    padded[padded >= length] = -1
    counters = cache.site.counters[group].clone()
    try:
        try:
            for row in padded:
                _install(cache, lane, length, group, row.view(1, 1, top_k))
        finally:
            cache.installer.drain([lane])
            frozen.overwrite(cache.stepper_for(1, 1), layers)
            cache.site.counters[group] = counters
    except BaseException:  # what was placed may not have been copied
        cache.site.policies[group].forget([lane])
        raise
    cache.lengths.keep(lane, group, length)  # what is resident


def _install(cache: TieredCache, lane: int, length: int, group: int, ids: Tensor) -> None:
    """Step one row whose every position is stable."""
    stepper = cache.stepper_for(1, 1)
    rows = Rows([lane], [length], q_len=[1], stable=[length], first=[length - 1])
    stepper.fill(rows, cache.paging.block_table[[lane]])
    plan = None
    for layer in cache.limits.spec.groups[group].layers:
        cache.installer.fence(layer)
        if plan is None:
            plan = cache.planner.plan(ids, stepper.batch, group, cache.site.policies[group])
            placement = cache.installer.commit(plan)
        selection = cache.server.serve(plan, layer, stepper.fresh[layer])
        cache.installer.install(placement, layer, selection)
