"""Which request runs in which lane."""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from tierkv.errors import CapacityError, StateError, say
from tierkv.limits import Limits


@dataclass(frozen=True, slots=True)
class Prompt:
    """The tokens a request was admitted with."""

    tokens: tuple[int, ...]
    salt: Hashable


class Lanes:
    """Requests by their own identity, never a hash of it."""

    def __init__(self, limits: Limits) -> None:
        self._lane_of: dict[Hashable, int] = {}
        self._free = list(range(limits.lanes - 1, -1, -1))
        self.serial: npt.NDArray[np.int32] = np.full(limits.lanes, -1, np.int32)
        """[lanes] number of the request last bound there, counted from 0."""
        self._serials = count()
        self.epoch = [0] * limits.lanes
        """Of each lane, how often a cold call changed what it holds."""
        self.prompts: dict[int, Prompt] = {}
        """Lane -> tokens it was admitted with, as far as they still hold."""
        self.open: set[int] = set()
        """Lanes of open steps."""

    def __len__(self) -> int:
        return len(self._lane_of)

    def bound(self, lane: int) -> bool:
        """Say whether a request runs in `lane`."""
        return 0 <= lane < len(self.epoch) and lane not in self._free

    def bind(self, request: Hashable) -> int:
        """Bind a free lane, empty; :meth:`unbind` takes it back."""
        if request in self._lane_of:
            raise StateError(say(f"admit {request!r}", "is running already", do="release it first"))
        if not self._free:
            raise CapacityError(
                say(
                    "lanes",
                    f"all {len(self.epoch)} are taken",
                    do="release a request, or raise it",
                )
            )
        lane = self._free.pop()
        self._lane_of[request] = lane
        self.serial[lane] = next(self._serials)
        self.epoch[lane] += 1
        return lane

    def unbind(self, request: Hashable) -> None:
        """Free the request's lane."""
        lane = self._lane_of.pop(request)
        self.prompts.pop(lane, None)
        self._free.append(lane)

    def closed(self, verb: str, request: Hashable) -> int:
        """Give the request's lane; StateError if it is unknown or in an open step."""
        lane = self._lane_of.get(request)
        if lane is None:
            raise StateError(say(f"{verb} {request!r}", "is not running", do="admit it first"))
        if lane in self.open:
            raise StateError(
                say(f"{verb} {request!r}", "is in an open step", do="end the step first")
            )
        return lane

    def rewrite(self, lane: int, start: int) -> None:
        """Record that positions from `start` on may no longer be those of the lane's prompt."""
        prompt = self.prompts.get(lane)
        if prompt is not None and start < len(prompt.tokens):
            self.prompts[lane] = Prompt(prompt.tokens[:start], prompt.salt)
