"""Selections that may be used again: the frozen top-k of a draft loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierkv.errors import StateError, say
from tierkv.rows import Rows
from tierkv.types import Selection

if TYPE_CHECKING:
    from tierkv.cache import TieredCache
    from tierkv.step import Step
    from tierkv.stepper import Stepper


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """A layer's last selection and what it was made for."""

    selection: Selection
    rows: Rows
    """That step's."""
    epochs: list[int]
    """Of each row's lane, how many cold calls had changed it."""


def freeze(step: Step) -> None:
    """Keep what a step that ended well has served last into each buffer."""
    depth, epochs = step.cache.server.depth, _epochs(step.cache, step.rows.lanes)
    for layer in {layer % depth: layer for layer in step.served}.values():
        step.stepper.last[layer] = Frozen(step.served[layer], step.rows, epochs)


def overwrite(stepper: Stepper, layers: Iterable[int]) -> None:
    """Drop frozen selections whose buffers a stepper may have used to serve `layers`."""
    depth = stepper.cache.server.depth
    used = {layer % depth for layer in layers}
    for other in stepper.cache.steppers:
        if other.overlaps(stepper):
            for layer in [layer for layer in other.last if layer % depth in used]:
                del other.last[layer]


def _epochs(cache: TieredCache, lanes: list[int]) -> list[int]:
    return [cache.lanes.epoch[lane] if lane >= 0 else 0 for lane in lanes]


def again(step: Step, layer: int) -> Selection:
    """Give the layer's frozen selection; StateError if it would not equal selecting again."""
    last = step.stepper.last.get(layer)
    why = "no selection holds; it was rewritten, or another layer was served into its buffer"
    if last is not None:
        why = _why_not(last, step, layer)
    if last is None or why:
        raise StateError(say(f"reuse, layer {layer}", why, do="select it"))
    return last.selection


def _why_not(frozen: Frozen, step: Step, layer: int) -> str:
    """Say why using a selection again would not equal selecting its ids again; empty if it would.

    Records that it holds must not have been written since: a selection reaches no further than
    its own ``kv_len``, so a step that starts there or behind leaves it right.
    """
    then, now = frozen.rows, step.rows
    if then.lanes != now.lanes:
        return "its rows were other lanes then"
    if then.q_len != now.q_len:
        return "its rows had other queries then"
    if frozen.epochs != _epochs(step.cache, now.lanes):
        return "a request was changed since"
    for row in now.live:
        if now.first[row] < then.kv_len[row]:
            may = "rewrites" if now.seen is None else "may rewrite"
            return f"lane {now.lanes[row]} {may} position {now.first[row]}, which it may hold"
    depth = step.cache.server.depth
    if any(other % depth == layer % depth for other in step.served):
        return "another layer was served into its buffer since"
    return ""


def expire(step: Step) -> None:
    """Drop frozen selections that may hold what a step has written."""
    first = {step.rows.lanes[row]: step.rows.first[row] for row in step.rows.live}
    touched, group_of = set(step.touched), step.cache.limits.spec.group_of
    for stepper in step.cache.steppers:
        for layer, frozen in list(stepper.last.items()):
            ends = zip(frozen.rows.lanes, frozen.rows.kv_len, strict=True)
            if group_of[layer] in touched and any(first.get(at, end) < end for at, end in ends):
                del stepper.last[layer]
