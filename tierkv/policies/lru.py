"""Least recently used."""

from typing import Any

import torch
from torch import Tensor

from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.policies.table_policy import TableShape


class Lru(OperatorPolicy):
    """Fully associative LRU, one step at a time: what a step hits never leaves in that step.

    Source: the classical stack policy (Mattson et al., 1970); the batch order is tierkv's own.
    """

    operator = "lru"

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        return [((limits.lanes, slots), torch.int32, -1)]  # order: slots, least recent first

    def forgotten(self, lane: int, slots: Tensor) -> None:
        order = self.tables[2][lane]
        kept = order[(order >= 0) & ~torch.isin(order, slots.to(order.dtype))]
        order.fill_(-1)
        order[: len(kept)] = kept
