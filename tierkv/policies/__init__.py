"""Who stays in the pool."""

from tierkv.policies.arc import Arc
from tierkv.policies.clock import Clock
from tierkv.policies.last_step import LastStep
from tierkv.policies.lru import Lru
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.s3_fifo import S3Fifo
from tierkv.policies.set_fifo import Fifo, SetFifo
from tierkv.policies.set_lru import SetLru
from tierkv.policies.sieve import Sieve
from tierkv.policies.table_policy import TablePolicy
from tierkv.policies.unbounded import Unbounded

__all__ = [
    "Arc",
    "Clock",
    "Fifo",
    "LastStep",
    "Lru",
    "OperatorPolicy",
    "S3Fifo",
    "SetFifo",
    "SetLru",
    "Sieve",
    "TablePolicy",
    "Unbounded",
]
