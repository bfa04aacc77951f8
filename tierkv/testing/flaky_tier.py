"""A tier that fails when it is told to."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from tierkv.errors import TierError
from tierkv.interfaces import Tier
from tierkv.testing.harness import Interrupted

T = TypeVar("T")


class InjectedFault(Interrupted, TierError):  # noqa: N818 - of a test
    """What a tier raises when it is told to."""


class FlakyTier:
    """Lets a cache's backing fail once, when :attr:`armed`; what kernels do themselves cannot."""

    def __init__(self, backing: Tier, spared: Callable[[int], bool]) -> None:
        """Put itself before a tier's ``read`` and ``write``.

        Parameters
        ----------
        spared
            Says whether a call for a layer must not fail now.
        """
        self.armed = ""
        """``read`` or ``write``: what shall fail next."""
        self.fired = 0
        """Failures so far."""
        self._spared = spared
        for verb in ("read", "write"):
            setattr(backing, verb, partial(self._call, verb, getattr(backing, verb)))

    def _call(self, verb: str, call: Callable[..., Any], layer: int, rows: Tensor, *to: Any) -> Any:
        if self.armed == verb and len(rows) and not self._spared(layer):
            self.armed = ""
            self.fired += 1
            raise InjectedFault(f"tier: {verb} of layer {layer}, rows {rows.tolist()[:4]} failed")
        return call(layer, rows, *to)

    def heard(self, call: Callable[[], T]) -> T:
        """Make a call; if the tier fails, that must come out."""
        fired = self.fired
        result = call()
        assert self.fired == fired, "the tier failed, but its error did not reach the caller"
        return result

    def retry(self, call: Callable[[], T]) -> T:
        """Make a call that may be repeated if the tier fails; the failure must come out."""
        fired = self.fired
        try:
            return self.heard(call)
        except TierError:
            if self.fired == fired:
                raise
            return call()
