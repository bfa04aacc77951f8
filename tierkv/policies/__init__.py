"""Who stays in the pool."""

from tierkv.policies.clock import Clock
from tierkv.policies.last_step import LastStep
from tierkv.policies.lru import Lru
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.set_fifo import Fifo, SetFifo
from tierkv.policies.table_policy import TablePolicy
from tierkv.policies.unbounded import Unbounded

__all__ = [
    "Clock",
    "Fifo",
    "LastStep",
    "Lru",
    "OperatorPolicy",
    "SetFifo",
    "TablePolicy",
    "Unbounded",
]
