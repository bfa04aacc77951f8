"""LRU within sets, two sets to choose from."""

import attrs
import torch
from torch import Tensor

from tierkv.errors import ConfigError, say
from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.set_fifo import check_ways
from tierkv.policies.table_policy import TableShape


@attrs.frozen
class SetLruOptions:
    """Shape of the sets."""

    ways: int = 16
    """Slots a set; they must divide ``pool.slots``."""

    def __attrs_post_init__(self) -> None:
        if self.ways < 1:
            raise ConfigError(say("ways", "must be at least 1", got=self.ways))


class SetLru(OperatorPolicy):
    """LRU by step within sets; each id has two sets and enters where the older slot is.

    Source: two-choice hashing, Azar et al., "Balanced allocations" (STOC 1994), and skewed
    associative caches, Seznec (ISCA 1993).
    """

    Options = SetLruOptions
    operator = "set_lru"

    @classmethod
    def footprint(cls, options: SetLruOptions, limits: Limits) -> int:
        for slots in limits.slots:
            check_ways(slots, options.ways)
        return super().footprint(options, limits)

    @classmethod
    def own_tables(cls, options: SetLruOptions, limits: Limits, slots: int) -> list[TableShape]:
        lanes = limits.lanes
        return [
            ((lanes, slots // options.ways, options.ways), torch.int32, -1),  # used, a step
            ((lanes, 1), torch.int32, 0),  # number of the next step
        ]

    def forgotten(self, lane: int, slots: Tensor) -> None:
        self.tables[2][lane].view(-1)[slots] = -1
