"""Steps whose launches a graph replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierkv import frozen, refusals
from tierkv.errors import StateError, say

if TYPE_CHECKING:
    from tierkv.step import Step


def take_over(step: Step, captured: Step) -> None:
    """Write into a step's books what `captured` did; StateError if it may not do that."""
    where, groups = "replay", step.cache.limits.spec.groups
    if captured.stepper is not step.stepper:
        do = "make it with the stepper that captured"
        raise StateError(say(where, "the graph names another stepper's buffers", do=do))
    numbers = captured.touched
    for number in numbers:
        layers = groups[number].layers
        if not step.touchable[number]:
            raise StateError(refusals.group(where, step, number))
        if number in step.touched or any(step.selected[layer] for layer in layers):
            wrong = f"layers {list(layers)} were appended to in this step already"
            raise StateError(say(where, wrong, do="replay first"))
        for layer in layers:  # what it used again must still hold
            if captured.selected[layer] and layer not in captured.served:
                frozen.again(step, layer)
    step.touched += numbers
    for number in numbers:
        step.plans[number] = captured.plans[number]
        for layer in groups[number].layers:
            step.missing[layer] = set(captured.missing[layer])
            step.selected[layer] = captured.selected[layer]
    step.served |= captured.served
