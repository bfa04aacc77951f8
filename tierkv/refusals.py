"""Why a step refuses a call, worked out only once it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierkv.errors import say

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
    for lane, kv_len, q_len, stable in zip(*step.rows.values(), strict=True):
        if lane < 0:
            continue
        written = step.cache.lanes.length[lane, layers].tolist()
        last = int(step.cache.lanes.stable[lane, number])
        first = max(kv_len - q_len, 0)
        if min(written) != max(written) or written[0] < first:
            wrong = f"lane {lane} needs {first} tokens in each of the layers {layers}"
            return say(where, wrong, got=written, do="prefill them")
        if stable < last:
            wrong = f"stable of lane {lane} was {last} in the last step"
            return say(where, wrong, got=stable, do="truncate the request to take tokens back")
    raise AssertionError("a group that may be touched was refused")


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
