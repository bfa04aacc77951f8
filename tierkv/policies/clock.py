"""CLOCK within sets."""

from typing import Literal

import attrs
import torch
from torch import Tensor

from tierkv.errors import ConfigError, say
from tierkv.limits import Limits
from tierkv.ops.reference.place_clock import WORD
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.set_fifo import HASHES, check_hash, check_ways
from tierkv.policies.table_policy import TableShape


@attrs.frozen
class ClockOptions:
    """Shape of the sets."""

    ways: int | Literal["all"] = WORD
    """Slots a set, at most 64; they must divide ``pool.slots``. ``all`` is one set of every slot:
    the classical CLOCK, for study."""
    hash: str = HASHES[0]
    """``low-bits`` exists for comparison; it collapses on strided ids."""

    def __attrs_post_init__(self) -> None:
        check_hash(self.hash)
        if self.ways != "all" and not 1 <= self.ways <= WORD:
            raise ConfigError(say("ways", f"must be 1 to {WORD}, or all", got=self.ways))

    def of(self, slots: int) -> int:
        """Ways of a pool of `slots`."""
        return slots if self.ways == "all" else self.ways


class Clock(OperatorPolicy):
    """Set-associative CLOCK, one step at a time: LRU's hit rate at about FIFO's cost.

    A hit marks its slot visited. The hand of a set passes visited slots, unmarking them, and takes
    the first that is neither visited nor hit in this very step.

    Source: Corbato, "A paging experiment with the Multics system" (1968), in sets and step by step.
    """

    Options = ClockOptions
    operator = "clock"

    @classmethod
    def footprint(cls, options: ClockOptions, limits: Limits) -> int:
        for slots in limits.slots:
            check_ways(slots, options.of(slots))
        return super().footprint(options, limits)

    @classmethod
    def own_tables(cls, options: ClockOptions, limits: Limits, slots: int) -> list[TableShape]:
        ways = options.of(slots)
        sets, words = slots // ways, -(-ways // WORD)
        return [
            ((limits.lanes, sets), torch.int32, 0),  # hand
            ((limits.lanes, sets, words), torch.int64, 0),  # visited, a bit a way
        ]

    @classmethod
    def operator_arguments(cls, options: ClockOptions) -> tuple[int, ...]:
        return (HASHES.index(options.hash),)

    def forgotten(self, lane: int, slots: Tensor) -> None:
        ways, visited = self.options.of(self.slots), self.tables[3][lane]
        for slot in slots.tolist():
            way = slot % ways
            bit = way % WORD
            kept = ~(1 << bit) if bit < WORD - 1 else 2 ** (WORD - 1) - 1  # the sign is a bit too
            visited[slot // ways, way // WORD] &= kept
