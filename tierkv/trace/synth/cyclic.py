"""A scan that comes round again: the worst case of every recency policy."""

from collections.abc import Iterator

import attrs
import numpy as np

from tierkv.trace.chunk import Ints
from tierkv.trace.synth.shape import Shape


@attrs.frozen
class Cyclic:
    """Ids 0, 1, 2 and on, K a step, starting again after ``span`` of them."""

    span: int = 9216
    """Ids; the default is slightly more than a pool of 8192."""

    def generate(self, shape: Shape, random: np.random.Generator) -> Iterator[Ints]:
        """Give the selection of each step, [K] int32; nothing is random."""
        scan = np.arange(shape.top_k)
        for step in range(shape.steps):
            yield ((step * shape.top_k + scan) % self.span).astype(np.int32)
