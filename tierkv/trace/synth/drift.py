"""Traces from scores that drift: a model of the indexer rather than of its outcome."""

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from tierkv.trace.chunk import Ints
from tierkv.trace.synth.shape import Shape

_WIDTH = 16
_SUMS = (1, 2, 4, 8)  # doubling sums add up _WIDTH neighbours


@attrs.frozen
class Drift:
    """The top-k of a score per id: two Ornstein-Uhlenbeck fields and noise, each of variance 1.

    Fields are smoothed over 16 adjacent ids. The numbers fit the same published figures as
    :class:`~tierkv.trace.synth.stack.Stack`.
    """

    slow: float = 0.8085
    """Share of the variance."""
    slow_steps: float = 110.39
    """Time constant."""
    fast: float = 0.1056
    fast_steps: float = 5.0
    sinks: int = 4
    """First ids, always selected."""
    newest: int = 64
    """Last ids, whose score is raised ..."""
    bonus: float = 2.0
    """... by so much."""

    def generate(self, shape: Shape, random: np.random.Generator) -> Iterator[Ints]:
        """Give the selection of each step, [K] int32, highest score first."""
        size = shape.context + shape.steps + _WIDTH - 1

        def noise() -> npt.NDArray[np.float32]:
            return random.standard_normal(size, dtype=np.float32)

        keep = [np.float32(np.exp(-1 / steps)) for steps in (self.slow_steps, self.fast_steps)]
        gain = [np.float32(np.sqrt(1 - share * share)) for share in keep]
        weight = [
            np.float32(np.sqrt(share / _WIDTH))
            for share in (self.slow, self.fast, 1 - self.slow - self.fast)
        ]
        fields = [noise(), noise()]
        for step in range(shape.steps):
            if step:
                for number in range(len(fields)):
                    fields[number] *= keep[number]
                    fields[number] += gain[number] * noise()
            total = weight[0] * fields[0] + weight[1] * fields[1] + weight[2] * noise()
            for shift in _SUMS:
                total = total[:-shift] + total[shift:]
            score = total[: shape.context + step]
            score[-self.newest :] += np.float32(self.bonus)
            score[: self.sinks] = np.inf
            top = np.argpartition(score, -shape.top_k)[-shape.top_k :]
            yield top[np.argsort(-score[top], kind="stable")].astype(np.int32)
