"""Why a step refuses a call, worked out only once it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tierkv.errors import StateError, say
from tierkv.types import Plan

if TYPE_CHECKING:
    from tierkv.step import Step


def select(where: str, step: Step, layer: int) -> str:
    """Say why a layer cannot be selected."""
    if step.selected[layer]:
        return say(where, "was selected in this step already", do="keep the selection")
    missing = sorted(step.missing[layer])
    return say(where, f"its parts {missing} are missing", do="append them first")


def group(where: str, step: Step, number: int) -> str:
    """Say which lane keeps a step from touching a group."""
    layers = list(step.cache.limits.spec.groups[number].layers)
    for row in step.rows.live:
        lane, first, stable = (
            values[row] for values in (step.rows.lanes, step.rows.first, step.rows.stable)
        )
        written = step.cache.lengths.tiered[lane, layers].tolist()
        last = int(step.cache.lengths.stable[lane, number])
        if min(written) != max(written) or written[0] < first:
            wrong = f"lane {lane} needs {first} tokens in each of the layers {layers}"
            do = (
                "prefill them"
                if step.rows.seen is None
                else "prefill them, or pass kv_len on the host"
            )
            return say(where, wrong, got=written, do=do)
        if 0 <= stable < last:
            wrong = f"stable of lane {lane} was {last} in the last step"
            return say(where, wrong, got=stable, do="truncate the request to take tokens back")
    raise AssertionError("a group that may be touched was refused")


def no_ids(layer: int, step: Step) -> str:
    """Say what an owner layer lacks."""
    do = f"pass ids {list(step.stepper.ids_shape)}"
    return say(f"select, layer {layer}", "it owns its group and needs ids", do=do)


def ids(layer: int, step: Step, given: Tensor) -> str:
    """Say how ids must look."""
    wrong = f"ids must be int32 {list(step.stepper.ids_shape)}"
    got = f"{given.dtype} {list(given.shape)}"
    return say(f"select, layer {layer}", wrong, got=got, do="pad with -1")


def follower(layer: int, owner: int, plan: Plan | None) -> str:
    """Say how a follower is selected."""
    where = f"select, layer {layer}"
    if plan is None:
        return say(
            where, f"its group's owner comes first, layer {owner}", do=f"select layer {owner}"
        )
    return say(where, f"it follows layer {owner} and takes no ids", do="pass None")


def check_mapped(layer: int, plan: Plan, given: Tensor) -> None:
    """Raise StateError if a visible id of a live query has no page; reads from the device."""
    batch = plan.batch
    query = torch.arange(batch.queries, device=given.device)[None, :, None]
    kv_len, q_len = batch.kv_len[:, None, None], batch.q_len[:, None, None]
    live = (batch.lanes[:, None, None] >= 0) & (query >= batch.queries - q_len)
    visible = live & (given >= 0) & (given <= kv_len - batch.queries + query)
    unmapped = visible.sum(-1) - plan.length
    if int(unmapped.max()) > 0:
        row = int(unmapped.amax(1).argmax())
        wrong = f"row {row} selects positions without a page"
        raise StateError(say(f"select, layer {layer}", wrong, do="check the indexer"))


def unfinished(step: Step) -> str:
    """Say which layer of a touched group was left out; empty if none."""
    for number in step.touched:
        for layer in step.cache.limits.spec.groups[number].layers:
            where = f"step, layer {layer}"
            if step.missing[layer]:
                wrong = f"parts {sorted(step.missing[layer])} are missing"
                return say(where, wrong, do="append every layer of a group that a step touches")
            if not step.selected[layer]:
                do = "select every layer of a group that a step touches"
                return say(where, "was appended to but not selected", do=do)
    return ""
