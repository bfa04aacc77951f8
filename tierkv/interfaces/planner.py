"""Where every selected record is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from tierkv.interfaces.component import Component
from tierkv.interfaces.policy import Policy
from tierkv.types import Batch, Plan


class Planner(Component, ABC):
    """Turns a selection into a :class:`~tierkv.types.Plan`; changes no table.

    Protocol
    --------
    1. :meth:`prepare` once for each stepper and group: the plan's buffers.
    2. :meth:`plan` at the owner layer of a group, once a step. The plan stays frozen until the
       same group of the same batch is planned again; followers are served from it.

    The implementer owes: the classification and order of docs/semantics.md; nothing is written
    but the plan and the group's counters.
    """

    variants: ClassVar[Mapping[str, type[Policy]]] = {}
    """Registered name of a policy -> its form that this planner needs; of any other itself."""

    @abstractmethod
    def prepare(self, batch: Batch, group: int) -> Plan:
        """Allocate the plan of a batch and layer group; :meth:`plan` fills this very object."""

    @abstractmethod
    def plan(self, ids: Tensor, batch: Batch, group: int, policy: Policy) -> Plan:
        """Plan `ids` [B, Q, K] int32 (-1 is empty) against the policy's tables."""
