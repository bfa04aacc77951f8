"""ARC."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape


class Arc(OperatorPolicy):
    """Adaptive replacement: recency against frequency, balanced by what left too early.

    Source: Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache" (FAST 2003). By
    the reference operator whatever ``ops`` says: for study, not for speed.
    """

    operator = "arc"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        lanes = limits.lanes
        return [
            ((lanes, slots), torch.int32, -1),  # once, slots
            ((lanes, slots), torch.int32, -1),  # again, slots
            ((lanes, slots), torch.int32, -1),  # once_gone, ids
            ((lanes, 2 * slots), torch.int32, -1),  # again_gone, ids
            ((lanes, 1), torch.int32, 0),  # target
        ]

    @property
    def compiled(self) -> bool:
        return False

    def forget(self, lanes: Sequence[int], from_position: int = 0) -> None:
        super().forget(lanes, from_position)
        for lane in lanes:
            for table in self.tables[4:6]:
                _keep(table[lane], table[lane] < from_position)
            if from_position == 0:
                self.tables[6][lane] = 0

    def forgotten(self, lane: int, slots: Tensor) -> None:
        for table in self.tables[2:4]:
            _keep(table[lane], ~torch.isin(table[lane], slots.to(table.dtype)))


def _keep(numbers: Tensor, wanted: Tensor) -> None:
    """Close up the `numbers` [n] that are `wanted`, in order, then -1."""
    kept = numbers[wanted & (numbers >= 0)]
    numbers.fill_(-1)
    numbers[: len(kept)] = kept
