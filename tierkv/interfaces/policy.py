"""Who stays in the pool."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from tierkv.interfaces.component import Component
from tierkv.types import Placement, Plan


class Policy(Component, ABC):
    """The residency of one layer group: its tables, and the only code that writes them.

    Protocol
    --------
    1. :meth:`prepare` once for each stepper: buffers for the placements of its plan.
    2. Each step: a planner reads :attr:`slot_of`; then :meth:`place` once, which may run on another
       thread or stream. The tables do not change between ``place`` and the next.
    3. :meth:`forget` between steps, with nothing pending.

    The implementer owes: ``slot_of`` and ``id_at`` are inverse to each other; no id at or behind
    ``stable`` is resident (only ``plan.miss_id`` may enter); a lane never holds more than P ids
    and never another lane's; the result depends on the calls alone, never on time, randomness or
    addresses, so that tensor-parallel ranks stay in lockstep. Most policies derive from
    :class:`~tierkv.policies.table_policy.TablePolicy` and write only their victim choice.
    """

    slot_of: Tensor
    """[lanes, positions] int16 where P fits, else int32; -1 not resident."""
    id_at: Tensor
    """[lanes, P] int32; -1 free."""

    @abstractmethod
    def prepare(self, plan: Plan) -> None:
        """Allocate what :meth:`place` writes for this plan's buffers."""

    @abstractmethod
    def placement(self, plan: Plan) -> Placement:
        """Give the buffers that :meth:`place` writes for this plan."""

    @abstractmethod
    def place(self, plan: Plan) -> Placement:
        """Choose slots for the plan's unique misses and update the tables.

        Returns
        -------
        Placement
            Valid until the next ``place`` of the same batch.
        """

    @abstractmethod
    def forget(self, lanes: Sequence[int], from_position: int = 0) -> None:
        """Drop the ids at and behind `from_position` of these lanes."""
