"""Traces by LRU stack distance: how likely an id is, given when it was last selected.

The stack-distance model is Mattson et al., "Evaluation techniques for storage hierarchies" (IBM
Systems Journal 9, 1970). The numbers fit what is published of GLM-5.2 at 64K tokens: 58.85 % of a
selection in the previous one, 90.50 % hits of an LRU pool of 8192, about 85 % of 16-way FIFO.
"""

from collections.abc import Iterator

import attrs
import numpy as np

from tierkv.trace.chunk import Ints
from tierkv.trace.synth.shape import Floats, Shape


@attrs.frozen
class Stack:
    """Hot ids, and cold ones picked by their depth in a stack: the last selected is on top.

    Numbers of ids and depths are for a top-k of 2048, and scale with it.
    """

    hot: int = 540
    """Hot ids."""
    hot_share: float = 0.85
    """Of the hot ids that a step picks."""
    again: float = 0.508
    """Of the previous step's cold picks that a step picks."""
    knee: int = 7800
    """Depth up to which the miss curve is one power law, from ``1 - again`` to ``beyond``."""
    beyond: float = 0.133
    """Share of cold picks from deeper than ``knee``."""
    tail: float = 0.68
    """Exponent of the power law behind the knee."""
    run: int = 8
    """Adjacent ids that are picked together where ..."""
    run_depth: int = 7000
    """... they lie deeper than this."""
    stride: int = 0
    """Hot ids are multiples of it; 0 scatters them."""
    period: int = 0
    """Steps until all is shuffled: another topic; 0 is never."""

    def generate(self, shape: Shape, random: np.random.Generator) -> Iterator[Ints]:
        """Give the selection of each step, [K] int32."""
        return _Generator(self, shape, random).steps()


class _Generator:
    def __init__(self, model: Stack, shape: Shape, random: np.random.Generator) -> None:
        scale = shape.top_k / 2048
        self.model, self.shape, self.random = model, shape, random
        self.hot_count = round(model.hot * scale)
        self.cold_picks = shape.top_k - round(self.hot_count * model.hot_share)
        self.run_depth = max(round(model.run_depth * scale), self.cold_picks)
        self.picked = np.zeros(shape.context, np.bool_)
        self.shuffle()
        self.chance = self._chances(max(round(model.knee * scale), self.cold_picks + 1))

    def shuffle(self) -> None:
        """Forget all locality: other hot ids, another order."""
        context, run, stride = self.shape.context, self.model.run, self.model.stride
        if stride:
            self.hot = np.arange(self.hot_count) * stride % context
        else:
            self.hot = self.random.permutation(context)[: self.hot_count]
        self.is_hot = np.zeros(context, np.bool_)
        self.is_hot[self.hot] = True
        runs = self.random.permutation(-(-context // run))
        ids = (runs[:, None] * run + np.arange(run)).ravel()
        ids = ids[ids < context]
        self.stack = ids[~self.is_hot[ids]]

    def steps(self) -> Iterator[Ints]:
        for step in range(self.shape.steps):
            if self.model.period and step and step % self.model.period == 0:
                self.shuffle()
            yield self.pick().astype(np.int32)

    def pick(self) -> np.ndarray:
        random, head = self.random, self.stack[: self.cold_picks]
        hot = self.hot[random.random(len(self.hot)) < self.model.hot_share]
        room = self.shape.top_k - len(hot)
        self.picked[:] = False
        deep = self._deep()[:room]
        self.picked[deep] = True
        # Runs reach into the previous selection; its other ids make up for it.
        left = head[~self.picked[head]]
        wanted = self.model.again * len(head) - (len(head) - len(left))
        again = left[random.random(len(left)) * len(left) < wanted][: room - len(deep)]
        self.picked[again] = True
        last = self.stack[::-1]
        last = last[~self.picked[last]][: room - len(deep) - len(again)]
        self.picked[last] = True
        cold = self.picked[self.stack]
        self.stack = np.concatenate([random.permutation(self.stack[cold]), self.stack[~cold]])
        return np.concatenate([hot, again, deep, last])

    def _chances(self, knee: int) -> Floats:
        """Give the chance of each depth behind the previous selection."""
        model, first = self.model, self.cold_picks
        depth = np.arange(first, len(self.stack) + 1, dtype=np.float64)
        slope = np.log((1 - model.again) / model.beyond) / np.log(knee / first)
        curve = np.where(
            depth <= knee,
            (1 - model.again) * (depth / first) ** -slope,
            model.beyond * (depth / knee) ** -model.tail,
        )
        chance: Floats = first * (curve[:-1] - curve[1:])
        chance[self.run_depth - first :] /= model.run
        return chance

    def _deep(self) -> np.ndarray:
        """Pick from behind the previous selection: single ids, then runs."""
        run, found = (
            self.model.run,
            np.flatnonzero(self.random.random(len(self.chance)) < self.chance),
        )
        depth = found + self.cold_picks
        single = self.stack[depth[depth < self.run_depth]]
        starts = self.stack[depth[depth >= self.run_depth]] // run * run
        runs = (starts[:, None] + np.arange(run)).ravel()
        ids = np.unique(np.concatenate([single, runs[runs < self.shape.context]]))
        return self.random.permutation(ids[~self.is_hot[ids]])
