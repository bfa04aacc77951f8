"""Bring the selected records together."""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from tierkv.interfaces.component import Component
from tierkv.types import Plan, Selection


class Server(Component, ABC):
    """Fills selections; owns their buffers.

    Protocol
    --------
    1. :meth:`prepare` once for each stepper and group.
    2. :meth:`serve` for each layer of a step, after the installer's ``fence`` for that layer.

    The implementer owes: bytes equal to what was last appended or prefilled at each position; an
    ordered selection (:attr:`ordered`) holds a query's entries as ``plan.ids`` has them. Layer
    ``l``'s selection stays valid until a layer from ``l + depth`` on is served, or a further step.
    """

    ordered: ClassVar[bool] = True
    """False if a query's records may be permuted; an installer cannot copy from those."""
    pooled: ClassVar[bool] = True
    """False if residents lie in the selection buffers; the cache then has no pool."""
    depth: int
    """Selections that are valid at once."""

    @abstractmethod
    def prepare(self, plan: Plan) -> None:
        """Lay out the selections of a group's layers for this plan's buffers."""

    @abstractmethod
    def serve(self, plan: Plan, layer: int, appended: Tensor) -> Selection:
        """Serve one layer from a frozen plan.

        Parameters
        ----------
        appended
            [B, Q, stride] uint8, the records that this step appended to the layer.

        Raises
        ------
        TierError
            If a record cannot be read.
        """
