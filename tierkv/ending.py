"""What a step leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierkv import frozen

if TYPE_CHECKING:
    from tierkv.step import Step


def advance(step: Step) -> None:
    """Record what a step that ended well has written."""
    frozen.expire(step)
    _rewrite(step)
    step.cache.lengths.advance(step.rows, step.touched)
    frozen.overwrite(step.stepper, step.served)
    frozen.freeze(step)
    if step.cache.after_step is not None:
        step.cache.after_step(step)


def abandon(step: Step) -> None:
    """Leave no lie behind: the lanes are cold, and short of what the step may have changed."""
    cache, touched = step.cache, step.touched
    lanes = [step.rows.lanes[row] for row in step.rows.live]
    try:
        cache.installer.drain(lanes)
    finally:
        for number in touched:
            cache.site.policies[number].forget(lanes)
        frozen.expire(step)
        _rewrite(step)
        cache.lengths.fail(step.rows, touched)
        groups = (cache.limits.spec.groups[number] for number in touched)
        frozen.overwrite(step.stepper, [layer for group in groups for layer in group.layers])


def _rewrite(step: Step) -> None:
    for row in step.rows.live if step.touched else ():
        step.cache.lanes.rewrite(step.rows.lanes[row], step.rows.first[row])
