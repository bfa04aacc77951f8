"""SIEVE."""

from typing import Any

import torch
from torch import Tensor

from tierkv.limits import Limits
from tierkv.ops.reference.queue import Queue
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape, queue_tables


class Sieve(OperatorPolicy):
    """FIFO order, from which a roving hand sifts out what was not hit since it last came by.

    Source: Zhang et al., "SIEVE is simpler than LRU" (NSDI 2024); what a step hits staying for that
    step is tierkv's own.
    """

    operator = "sieve"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        return [
            *queue_tables(limits.lanes, slots),  # slots in order of arrival
            ((limits.lanes, 1), torch.int32, -1),  # hand, a slot; -1 is the oldest
            ((limits.lanes, slots), torch.int8, 0),  # visited
        ]

    def forgotten(self, lane: int, slots: Tensor) -> None:
        items, at, ends, hand, visited = (table[lane] for table in self.tables[2:])
        queue = Queue(items, ends, at)
        for slot in slots.tolist():
            if slot == int(hand):
                hand.fill_(queue.newer(slot))
            queue.remove(slot)
        queue.store()
        visited[slots] = 0
