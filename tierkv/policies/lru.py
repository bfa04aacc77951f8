"""Least recently used."""

from typing import Any

from torch import Tensor

from tierkv.limits import Limits
from tierkv.ops.reference.queue import Queue
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape, queue_tables


class Lru(OperatorPolicy):
    """Fully associative LRU, one step at a time: what a step hits never leaves in that step.

    Source: the classical stack policy (Mattson et al., 1970); the batch order is tierkv's own.
    """

    operator = "lru"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        return queue_tables(limits.lanes, slots)  # slots, least recent first

    def forgotten(self, lane: int, slots: Tensor) -> None:
        items, at, ends = (table[lane] for table in self.tables[2:])
        queue = Queue(items, ends, at)
        for slot in slots.tolist():
            queue.remove(slot)
        queue.store()
