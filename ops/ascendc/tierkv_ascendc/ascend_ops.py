"""The backend ``ascendc``."""

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from tierkv.errors import ConfigError, say
from tierkv.finding import Finding
from tierkv.interfaces import Tier
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.schedules import Schedule
from tierkv.site import Site
from tierkv_ascendc import converters, libraries
from tierkv_ascendc.fitness import check_components, check_sizes
from tierkv_ascendc.functional import Functional
from tierkv_ascendc.operators import OPERATORS
from tierkv_ascendc.side_stream import GeSideStream, NpuSideStream
from tierkv_ascendc.swapped_tier import SwappedTier

MODES = ("eager", "npugraph_ex", "ge_graph")


@attrs.frozen
class AscendOptions:
    """How the model runs."""

    mode: str = MODES[0]
    """``eager``: at once, or captured by ``torch.npu.NPUGraph``. ``npugraph_ex``, ``ge_graph``:
    compiled by the backend of that name, all layers of a step in one graph."""

    def __attrs_post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(say("mode", "unknown mode", got=self.mode, known=MODES))


class AscendOps(Ops):
    """AscendC kernels on an NPU."""

    Options = AscendOptions
    devices = ("npu",)
    variants: ClassVar[Mapping[str, type[Tier]]] = {"host": SwappedTier}

    def __init__(self, options: AscendOptions, limits: Limits) -> None:
        libraries.check()
        check_sizes(limits)
        super().__init__("ascendc", "tierkv", self._load)
        self.mode = options.mode
        if self.mode == "ge_graph":
            self.packs = True
            for name in OPERATORS:
                setattr(self, name, Functional(name))

    def _load(self) -> None:
        libraries.load()
        if self.mode == "ge_graph":
            converters.register()

    def check(self, choices: Mapping[str, Any], limits: Limits) -> None:
        check_components(choices, limits)

    def make_side_stream(self, site: Site, depth: int) -> Schedule | None:
        kind = GeSideStream if self.mode == "ge_graph" else NpuSideStream
        return kind(self, site.limits, depth)

    @classmethod
    def doctor(cls) -> Finding | None:
        return libraries.finding()
