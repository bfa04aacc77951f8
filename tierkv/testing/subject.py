"""What is put to the test: the components of a configuration, at sizes that a test can afford."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import torch

from tierkv import config as configuration
from tierkv.build import build, settle
from tierkv.cache import TieredCache
from tierkv.config import Backing, Config, Pool
from tierkv.errors import ConfigError
from tierkv.structure import Bytes
from tierkv.testing.assemble import Shape
from tierkv.testing.driver import Driver
from tierkv.testing.engine import Engine
from tierkv.testing.model_policies import MODELS
from tierkv.testing.model_residency import Residency


class Subject:
    """Makes caches of a configuration's components; sizes and model are the test's own.

    Parameters
    ----------
    source
        A YAML file, or a mapping of the same form. Its ``model`` and sizes are not looked at.
    external
        Let an engine page by itself, in place of the configured backing.
    """

    def __init__(self, source: str | Path | Mapping[str, Any], external: bool = False) -> None:
        self.external = external
        self._config = configuration.read(source, model=Shape().spec)
        self._slots: dict[Shape, int] = {}

    @property
    def policy(self) -> str:
        """Registered name of the policy."""
        return self._config.choices["policy"].name

    @property
    def device(self) -> torch.device:
        """Where caches lie."""
        return torch.device(self._config.general.device)

    def shape(self, shape: Shape) -> Shape:
        """Give a shape the nearest number of slots that the components take."""
        if shape not in self._slots:
            self._slots[shape] = self._fit(shape)
        return replace(shape, slots=self._slots[shape])

    def _fit(self, shape: Shape) -> int:
        tried = [shape.slots, *range(shape.slots, 17), 24, 32, 48, 64, 96, 128, 192, 256]
        tried += [-(-n // 64) * 64 for n in (shape.top_k, shape.max_tokens, 2 * shape.max_tokens)]
        candidates: list[int] = sorted(count for count in set(tried) if count >= shape.slots)
        for slots in candidates:
            try:
                settle(self.configure(replace(shape, slots=slots)))
            except ConfigError as error:
                refused = error
            else:
                return slots
        raise refused

    def configure(self, shape: Shape, **general: Any) -> Config:
        """Give the configuration of a cache of this shape."""
        capacity = Bytes(shape.pages * shape.page * shape.spec.row_bytes)
        sizes = {name: getattr(shape, name) for name in ("lanes", "max_tokens", "queries")}
        return attrs.evolve(
            self._config, model=shape.spec, backing=Backing(capacity, shape.page),
            pool=Pool(shape.slots), general=attrs.evolve(self._config.general, **sizes, **general),
        )  # fmt: skip

    def build(self, shape: Shape, engine: Engine | None = None, **general: Any) -> TieredCache:
        """Build a cache of this shape; the caller closes it."""
        config = self.configure(shape, **general)
        return build(attrs.evolve(config, blocks=engine.blocks) if engine else config)

    def model(self, slots: int) -> Callable[[], Residency] | None:
        """Give what makes the policy's model, if it has one."""
        chosen = self._config.choices["policy"]
        if chosen.name not in MODELS:
            return None
        return partial(MODELS[chosen.name], slots, **attrs.asdict(chosen.options))

    @contextmanager
    def open(self, shape: Shape, watched: bool = True) -> Iterator[Driver]:
        """Open a cache of this shape beside its model."""
        driver = self.driver(shape, watched)
        with driver.cache:
            yield driver

    def driver(self, shape: Shape, watched: bool = True) -> Driver:
        """Make a cache of this shape beside its model; the caller closes it."""
        shape = self.shape(shape)
        engine = Engine(shape, self.device) if self.external else None
        cache = self.build(shape, engine)
        return Driver(cache, self.model(shape.slots), engine, watched)
