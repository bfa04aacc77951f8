"""First in, first out, within sets or as a whole."""

from typing import Any

import attrs
import torch

from tierkv.errors import ConfigError, say
from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape

HASHES = ("multiplicative", "low-bits")


def check_hash(name: str) -> None:
    """Raise ConfigError unless `name` is a set hash."""
    if name not in HASHES:
        raise ConfigError(say("hash", "unknown hash", got=name, known=HASHES))


def check_ways(slots: int, ways: int) -> None:
    """Raise ConfigError unless sets of `ways` fill a pool of `slots`."""
    if slots % ways:
        raise ConfigError(say("pool.slots", f"must be divisible by policy.ways {ways}", got=slots))


@attrs.frozen
class SetFifoOptions:
    """Shape of the sets."""

    ways: int = 16
    """Slots a set; they must divide ``pool.slots``."""
    hash: str = HASHES[0]
    """``low-bits`` is the published scheme's; it collapses on strided ids."""

    def __attrs_post_init__(self) -> None:
        check_hash(self.hash)
        if self.ways < 1:
            raise ConfigError(say("ways", "must be at least 1", got=self.ways))


class SetFifo(OperatorPolicy):
    """Set-associative FIFO: each new id takes the way under its set's hand; hits move nothing.

    Source: the GLM-5.2 shared-indexer offload of CANN recipes, generalised to any number of sets
    and a hash that strided selections do not defeat.
    """

    Options = SetFifoOptions
    operator = "set_fifo"

    @classmethod
    def footprint(cls, options: SetFifoOptions, limits: Limits) -> int:
        for slots in limits.slots:
            check_ways(slots, options.ways)
        return super().footprint(options, limits)

    @classmethod
    def own_tables(cls, options: SetFifoOptions, limits: Limits, slots: int) -> list[TableShape]:
        return [((limits.lanes, slots // options.ways), torch.int32, 0)]  # hand

    @classmethod
    def operator_arguments(cls, options: SetFifoOptions) -> tuple[int, ...]:
        return (HASHES.index(options.hash),)


class Fifo(OperatorPolicy):
    """First in, first out over the whole pool of a lane."""

    operator = "set_fifo"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        return [((limits.lanes, 1), torch.int32, 0)]

    @classmethod
    def operator_arguments(cls, options: Any) -> tuple[int, ...]:
        return (0,)
