"""Independent draws from Zipf's law: what caches are usually judged on."""

from collections.abc import Iterator

import attrs
import numpy as np

from tierkv.trace.chunk import Ints
from tierkv.trace.synth.shape import Shape

_BLOCK = 1 << 16


@attrs.frozen
class Zipf:
    """Every step draws K distinct ids, the r-th likeliest with a weight of ``r ** -exponent``."""

    exponent: float = 1.0

    def generate(self, shape: Shape, random: np.random.Generator) -> Iterator[Ints]:
        """Give the selection of each step, [K] int32, in the order drawn."""
        ids = random.permutation(shape.context).astype(np.int32)
        mass = np.cumsum(np.arange(1, shape.context + 1, dtype=np.float64) ** -self.exponent)
        block = max(_BLOCK // shape.top_k, 1) * shape.top_k

        def draw() -> Ints:
            rank = np.searchsorted(mass, random.random(block) * mass[-1], side="right")
            drawn: Ints = np.take(ids, rank)
            return drawn

        drawn, at = draw(), 0
        for _ in range(shape.steps):
            picked = drawn[at : at + shape.top_k]
            at += shape.top_k
            while len(picked := _distinct(picked)) < shape.top_k:
                missing = shape.top_k - len(picked)
                if at + missing > len(drawn):
                    drawn, at = draw(), 0
                picked = np.concatenate([picked, drawn[at : at + missing]])
                at += missing
            yield picked
            if at + shape.top_k > len(drawn):
                drawn, at = draw(), 0


def _distinct(ids: Ints) -> Ints:
    """Give each id once, in order of first occurrence."""
    if len(ids) == 1:
        return ids
    _, first = np.unique(ids, return_index=True)
    return ids[np.sort(first)]
