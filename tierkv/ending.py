"""What a step leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierkv import frozen

if TYPE_CHECKING:
    from tierkv.step import Step


def advance(step: Step) -> None:
    """Record what a step that ended well has written."""
    lanes = step.cache.lanes
    for number in step.touched:
        for lane, kv_len, q_len, stable in _live_rows(step):
            first = max(kv_len - q_len, 0)
            frozen.expire(step.cache, number, lane, first)
            lanes.rewrite(lane, first)
            lanes.advance(lane, number, kv_len, stable)
    frozen.overwrite(step.stepper, step.served)
    frozen.freeze(step)
    if step.cache.after_step is not None:
        step.cache.after_step(step)


def abandon(step: Step) -> None:
    """Leave no lie behind: the lanes are cold, and short of what the step may have changed."""
    cache, rows = step.cache, _live_rows(step)
    lanes = [row[0] for row in rows]
    try:
        cache.installer.drain(lanes)
    finally:
        for number in step.touched:
            cache.site.policies[number].forget(lanes)
            for lane, kv_len, q_len, _ in rows:
                first = max(kv_len - q_len, 0)
                frozen.expire(cache, number, lane, first)
                cache.lanes.cut(lane, number, first)
        groups = (cache.limits.spec.groups[number] for number in step.touched)
        frozen.overwrite(step.stepper, [layer for group in groups for layer in group.layers])


def _live_rows(step: Step) -> list[tuple[int, int, int, int]]:
    """Give (lane, kv_len, q_len, stable) of the rows that are not padding."""
    return [row for row in zip(*step.rows.values(), strict=True) if row[0] >= 0]
