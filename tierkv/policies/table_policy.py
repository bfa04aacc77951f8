"""Policies that keep the two residency tables."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tierkv.constants import Counter
from tierkv.interfaces.policy import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.ops.reference.queue import ENDS, ROOM
from tierkv.ops.reference.tables import hit_slots, live_rows, occupy
from tierkv.types import Placement, Plan

TableShape = tuple[tuple[int, ...], torch.dtype, int]
"""Shape, dtype and initial value of a table."""


def queue_tables(lanes: int, count: int, numbers: int | None = None) -> list[TableShape]:
    """Name the tables of a :class:`~tierkv.ops.reference.queue.Queue`: items, at, ends.

    It holds at most `count` numbers, all below `numbers`, or below `count` if that is None.
    """
    return [
        ((lanes, ROOM * count), torch.int32, -1),
        ((lanes, count if numbers is None else numbers), torch.int32, -1),
        ((lanes, ENDS), torch.int32, 0),
    ]


class TablePolicy(Policy):
    """The tables and everything but the victim choice.

    A subclass writes :meth:`choose`. One with an operator of its own derives from
    :class:`~tierkv.policies.operator_policy.OperatorPolicy` instead.
    """

    def __init__(
        self, options: Any, limits: Limits, group: int, ops: Ops, counters: Tensor
    ) -> None:
        """Allocate cold tables.

        Parameters
        ----------
        options
            An instance of the class's ``Options``.
        counters
            [len(Counter)] int64, the group's row; added to.
        """
        self.options = options
        self.ops = ops
        self.slots = limits.slots[group]
        self.counters = counters
        self.tables = [
            torch.full(shape, fill, dtype=dtype, device=limits.device)
            for shape, dtype, fill in self._shapes(options, limits, self.slots)
        ]
        self.slot_of, self.id_at = self.tables[:2]
        self._placements: dict[int, Placement] = {}

    @classmethod
    def own_tables(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        """Name further tables, kept in ``self.tables[2:]``."""
        return []

    @classmethod
    def _shapes(cls, options: Any, limits: Limits, slots: int) -> list[TableShape]:
        narrow = torch.int16 if slots <= torch.iinfo(torch.int16).max else torch.int32
        return [
            ((limits.lanes, limits.max_tokens), narrow, -1),
            ((limits.lanes, slots), torch.int32, -1),
            *cls.own_tables(options, limits, slots),
        ]

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        total = 0
        for slots in limits.slots:
            for shape, dtype, _ in cls._shapes(options, limits, slots):
                total += math.prod(shape) * dtype.itemsize
        return total

    def choose(self, lane: int, misses: Tensor, hits: Tensor) -> Tensor:
        """Choose a slot for each miss.

        Parameters
        ----------
        misses
            [n] int64 distinct ids, in the order offered.
        hits
            [h] int64 distinct slots that this step reads, ascending.

        Returns
        -------
        Tensor
            [n] int64 slots, -1 for one that is not kept. Occupants leave; of misses that name the
            same slot the last remains.
        """
        raise NotImplementedError(f"{type(self).__name__} must write choose")

    def forgotten(self, lane: int, slots: Tensor) -> None:
        """React to `slots` [n] int64 of a lane having been cleared."""

    def prepare(self, plan: Plan) -> None:
        slot, count = torch.full_like(plan.miss_id, -1), torch.zeros_like(plan.miss_count)
        self._placements[plan.batch.key] = Placement(plan, slot, count)

    def placement(self, plan: Plan) -> Placement:
        return self._placements[plan.batch.key]

    def place(self, plan: Plan) -> Placement:
        placement = self.placement(plan)
        placement.slot.fill_(-1)
        placement.count.zero_()
        for row, lane in live_rows(plan.batch.lanes):
            misses = plan.miss_id[row, : int(plan.miss_count[row])].long()
            slots = self.choose(lane, misses, hit_slots(plan.kind[row], plan.index[row]))
            self.counters[Counter.BYPASSED] += int((slots < 0).sum())
            slots = self._last_of_each(slots)
            occupy(self.slot_of, self.id_at, lane, misses, slots)
            placement.slot[row, : len(slots)] = slots.to(torch.int32)
            placement.count[row] = installs = int((slots >= 0).sum())
            self.counters[Counter.INSTALLS] += installs
        return placement

    def forget(self, lanes: Sequence[int], from_position: int = 0) -> None:
        for lane in lanes:
            slots = torch.nonzero(self.id_at[lane] >= from_position).flatten()
            self.slot_of[lane, self.id_at[lane, slots].long()] = -1
            self.id_at[lane, slots] = -1
            self.forgotten(lane, slots)

    def _last_of_each(self, slots: Tensor) -> Tensor:
        """Replace every slot that a later entry names too by -1, and count it."""
        later = torch.triu(slots[:, None] == slots[None, :], diagonal=1).any(1) & (slots >= 0)
        self.counters[Counter.SUPERSEDED] += int(later.sum())
        return torch.where(later, -1, slots)
