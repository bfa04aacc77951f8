"""What every model of a policy keeps: who is resident in one lane of one group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tierkv.testing.model import RowPlan


class Residency(ABC):
    """Who is resident in one lane of one group."""

    refused = "bypassed"
    """What the policy calls a miss that it does not keep."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.id_at: dict[int, int] = {}

    @property
    def slot_of(self) -> dict[int, int]:
        """Id -> slot."""
        return {id: slot for slot, id in self.id_at.items()}

    @abstractmethod
    def place(self, plan: RowPlan) -> None:
        """Let the plan's misses in."""

    def forget(self, from_position: int) -> None:
        """Drop the ids at and behind a position."""
        self.id_at = {slot: id for slot, id in self.id_at.items() if id < from_position}


def placed(residency: Residency, misses: Sequence[int]) -> list[int]:
    """Give the slot of each miss after a place, -1 for those that did not stay."""
    slot_of = residency.slot_of
    return [slot_of.get(id, -1) for id in misses]
