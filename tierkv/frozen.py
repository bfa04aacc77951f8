"""Selections that may be used again: the frozen top-k of a draft loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierkv.errors import StateError, say
from tierkv.types import Selection

if TYPE_CHECKING:
    from tierkv.cache import TieredCache
    from tierkv.step import Step


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """A layer's last selection and what it was made for."""

    selection: Selection
    rows: Mapping[str, list[int]]
    """Host copies of that step's lanes, kv_len, q_len, stable."""
    epochs: list[int]
    """Of each row's lane, how many cold calls had changed it."""


def freeze(step: Step, selection: Selection) -> Frozen:
    """Keep a selection of a step that ended well."""
    return Frozen(selection, step.rows, _epochs(step.cache, step.rows["lanes"]))


def _epochs(cache: TieredCache, lanes: list[int]) -> list[int]:
    return [cache.lanes.epoch[lane] if lane >= 0 else 0 for lane in lanes]


def again(step: Step, layer: int) -> Selection:
    """Give the layer's frozen selection; StateError if it would not equal selecting again."""
    last = step.stepper.last.get(layer)
    why = "there is no selection of this stepper to use again" if last is None else ""
    if last is None or (why := _why_not(last, step, layer)):
        raise StateError(say(f"reuse, layer {layer}", why, do="select it"))
    return last.selection


def _why_not(frozen: Frozen, step: Step, layer: int) -> str:
    """Say why using a selection again would not equal selecting its ids again; empty if it would.

    Records that it holds must not have been written since: a selection reaches no further than
    its own ``kv_len``, so a step that starts there or behind leaves it right.
    """
    then, now = frozen.rows, step.rows
    if then["lanes"] != now["lanes"]:
        return "its rows were other lanes then"
    if then["q_len"] != now["q_len"]:
        return "its rows had other queries then"
    if frozen.epochs != _epochs(step.cache, now["lanes"]):
        return "a request was changed since"
    for lane, kv_len, q_len, last in zip(
        now["lanes"], now["kv_len"], now["q_len"], then["kv_len"], strict=True
    ):
        if lane >= 0 and kv_len - q_len < last:
            return f"lane {lane} rewrites position {kv_len - q_len}, which it may hold"
    place = step.stepper.place(layer)
    if step.cache.served.get(place) != (step.batch.key, layer):
        return "another layer was served into its buffer since"
    return ""


def expire(cache: TieredCache, group: int, lane: int, start: int) -> None:
    """Drop frozen selections that may hold positions of a lane from `start` on."""
    for stepper in cache.steppers:
        for layer in cache.limits.spec.groups[group].layers:
            frozen = stepper.last.get(layer)
            if frozen is None or lane not in frozen.rows["lanes"]:
                continue
            if start < frozen.rows["kv_len"][frozen.rows["lanes"].index(lane)]:
                del stepper.last[layer]
