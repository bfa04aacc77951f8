"""S3-FIFO."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.limits import Limits
from tierkv.ops.reference.queue import ENDS, Queue
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape, queue_tables


class S3Fifo(OperatorPolicy):
    """Three FIFO queues: a small one filters, a main one keeps, ghosts remember who left early.

    A tenth of the slots is the small queue's share; ghosts are nine tenths as many as slots. They
    cost a table as long as a lane.

    Source: Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023), in the
    variant of libCacheSim, which fills the main queue too before anything has left.
    """

    operator = "s3_fifo"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        lanes, ghosts = limits.lanes, slots * 9 // 10
        queue, _, _ = queue_tables(lanes, slots)
        return [
            queue,  # small, slots
            queue,  # main, slots
            *queue_tables(lanes, ghosts, limits.max_tokens)[:2],  # ghosts, ids
            ((lanes, 3 * ENDS + 1), torch.int32, 0),  # ends of the three; whether anything left
            ((lanes, slots), torch.int8, 0),  # uses
        ]

    def forget(self, lanes: Sequence[int], from_position: int = 0) -> None:
        super().forget(lanes, from_position)
        for lane in lanes:
            ghost, ghost_at, ends = (table[lane] for table in self.tables[4:7])
            queue = Queue(ghost, ends[2 * ENDS : 3 * ENDS], ghost_at)
            for id in [id for id in queue if id >= from_position]:
                queue.remove(id)
            queue.store()
            if from_position == 0:
                ends[-1] = 0

    def forgotten(self, lane: int, slots: Tensor) -> None:
        small, main, _, _, ends, uses = (table[lane] for table in self.tables[2:])
        for number, items in enumerate((small, main)):
            queue = Queue(items, ends[number * ENDS : (number + 1) * ENDS])
            for slot in slots.tolist():
                if slot in queue:
                    queue.remove(slot)
            queue.store()
        uses[slots] = 0
