"""Make missed records resident, off the critical path."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tierkv.interfaces.component import Component
from tierkv.types import Placement, Plan, Selection


class Installer(Component, ABC):
    """Commits placements and copies records into the pool; owns the schedule.

    Protocol, for each layer of a step
    ----------------------------------
    1. :meth:`fence` before the layer is planned or served.
    2. :meth:`commit` once a group, after the owner's plan and before its serve.
    3. :meth:`install` after the layer's serve; it may return before the copy is done.
    4. :meth:`drain` before a lane, a page or the cache itself is touched from outside a step.

    The implementer owes the ordering rules: commit before every install of the group and before
    the group's next plan; an install before the layer's next serve and before the selection it
    reads is written again. What a background install raises comes out of the next ``fence`` or
    ``drain``.
    """

    copies: ClassVar[bool] = True
    """Whether it copies from the selection, which then must be ordered."""
    background: bool = False
    """Whether its work runs beside the caller's; prompts are then copied so too."""

    @abstractmethod
    def fence(self, layer: int) -> None:
        """Wait until `layer` may be planned and served."""

    @abstractmethod
    def commit(self, plan: Plan) -> Placement:
        """Let the group's policy place the plan's misses."""

    @abstractmethod
    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        """Copy the placed misses of one layer into the pool."""

    @abstractmethod
    def drain(self, lanes: Sequence[int] | None = None) -> None:
        """Wait for everything that names these lanes; None is all of them."""
