"""Synthetic traces by name."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import attrs
import numpy as np

from tierkv.errors import ConfigError, Faults, say
from tierkv.trace.chunk import Ints
from tierkv.trace.layout import make_head
from tierkv.trace.synth.cyclic import Cyclic
from tierkv.trace.synth.drift import Drift
from tierkv.trace.synth.shape import Shape
from tierkv.trace.synth.stack import Stack
from tierkv.trace.synth.zipf import Zipf
from tierkv.trace.trace import Trace

WARMUP = 1 / 3
"""Share of the steps after which the figures of docs/traces.md are counted."""


class Model(attrs.AttrsInstance, Protocol):
    """An attrs class; its fields are the parameters."""

    def generate(self, shape: Shape, random: np.random.Generator) -> Iterator[Ints]:
        """Give the selection of each step, [K] int32 distinct ids."""
        ...


MODELS: Mapping[str, Model] = {
    "stack": Stack(),
    "drift": Drift(),
    "zipf": Zipf(),
    "strided": Stack(hot=602, stride=64),  # 512 hot ids a step
    "cyclic": Cyclic(),
    "switch": Stack(period=300),
}


def synthesize(
    name: str, shape: Shape | None = None, *, seed: int = 0, model: Model | None = None
) -> Trace:
    """Describe a synthetic trace; its ids are made anew whenever they are iterated.

    Parameters
    ----------
    name
        One of :data:`MODELS`.
    shape
        Sizes; default: those of :class:`Shape`.
    seed
        Every group and lane draws from a stream of its own.
    model
        Parameters other than the named ones.

    Raises
    ------
    ConfigError
    """
    shape = shape or Shape()
    if name not in MODELS:
        raise ConfigError(say("trace", "unknown model", got=name, known=MODELS))
    model = model or MODELS[name]
    _check(name, shape, seed, model)
    kv_len = np.arange(shape.context, shape.context + shape.steps, dtype=np.int32)
    rows = {"kv_len": np.repeat(kv_len[:, None], shape.lanes, axis=1)}
    sizes = (shape.steps, shape.groups, shape.lanes, 1, shape.top_k)
    head = make_head(f"{name}, seed {seed}", sizes, rows, _meta(name, shape, seed, model))

    def read(most: int) -> Iterator[Ints]:
        streams = [
            [
                model.generate(shape, np.random.default_rng([seed, group, lane]))
                for lane in range(shape.lanes)
            ]
            for group in range(shape.groups)
        ]
        for start in range(0, shape.steps, most):
            steps = min(most, shape.steps - start)
            ids = np.empty((steps, *sizes[1:]), np.int32)
            for step in range(steps):
                for group, lanes in enumerate(streams):
                    for lane, stream in enumerate(lanes):
                        ids[step, group, lane, 0] = next(stream)
            yield ids

    return Trace(head, read)


def _check(name: str, shape: Shape, seed: int, model: Model) -> None:
    faults = Faults()
    most = np.iinfo(np.int32).max
    for key, value in (attrs.asdict(shape) | {"seed": seed}).items():
        low = 0 if key == "seed" else 1
        if not low <= value <= most:
            faults.add(say(f"trace {name}, {key}", f"must be {low} to {most:,}", got=value))
    least = shape.top_k * (4 if isinstance(model, Stack) else 1)  # its knee lies at 3.8 top-k
    if shape.context < least:
        wrong = f"must be at least {least:,} for a top-k of {shape.top_k:,}"
        faults.add(say(f"trace {name}, context", wrong, got=shape.context))
    span = getattr(model, "span", None)
    if span is not None and not shape.top_k <= span <= shape.context:
        wrong = f"must be from top-k to context, {shape.top_k:,} to {shape.context:,}"
        faults.add(say(f"trace {name}, span", wrong, got=span))
    faults.check()


def _meta(name: str, shape: Shape, seed: int, model: Model) -> dict[str, Any]:
    parameters = attrs.asdict(model)
    return {
        "source": "synth",
        "model": name,
        "seed": seed,
        "top_k": shape.top_k,
        "warmup": int(shape.steps * WARMUP),
        "parameters": parameters,
    }
