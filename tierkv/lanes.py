"""Which request runs in which lane, and how far each is written."""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from tierkv.errors import CapacityError, StateError, say
from tierkv.limits import Limits


class Lanes:
    """Requests by their own identity, never a hash of it."""

    def __init__(self, limits: Limits) -> None:
        spec = limits.spec
        self._lane_of: dict[Hashable, int] = {}
        self._free = list(range(limits.lanes - 1, -1, -1))
        self.length: npt.NDArray[np.int64] = np.zeros((limits.lanes, len(spec.layouts)), np.int64)
        """[lanes, layers] tokens written."""
        self.stable: npt.NDArray[np.int64] = np.zeros((limits.lanes, len(spec.groups)), np.int64)
        """[lanes, groups] ``stable`` of the group's last step."""
        self.open: set[int] = set()
        """Lanes of open steps."""
        self._owners = np.array([group.owner for group in spec.groups])
        self._spans = [slice(group.owner, group.last + 1) for group in spec.groups]

    def __len__(self) -> int:
        return len(self._lane_of)

    def bound(self, lane: int) -> bool:
        """Say whether a request runs in `lane`."""
        return 0 <= lane < len(self.length) and lane not in self._free

    def bind(self, request: Hashable) -> int:
        """Bind a free lane, empty; :meth:`unbind` takes it back."""
        if request in self._lane_of:
            raise StateError(say(f"admit {request!r}", "is running already", do="release it first"))
        if not self._free:
            raise CapacityError(
                say(
                    "lanes",
                    f"all {len(self.length)} are taken",
                    do="release a request, or raise it",
                )
            )
        lane = self._free.pop()
        self._lane_of[request] = lane
        self.length[lane] = self.stable[lane] = 0
        return lane

    def unbind(self, request: Hashable) -> None:
        """Free the request's lane."""
        self._free.append(self._lane_of.pop(request))

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

    def written(self, lane: int) -> int:
        """Tokens written in every layer."""
        return int(self.length[lane].min())

    def touchable(
        self, lanes: Sequence[int], first: Sequence[int], stable: Sequence[int]
    ) -> npt.NDArray[np.bool_]:
        """Say which groups a step may touch: [groups].

        Their layers are equally long and hold at least ``first[i]`` tokens of ``lanes[i]``, and
        ``stable[i]`` is not below the group's last.
        """
        length = self.length[list(lanes)]
        low = np.minimum.reduceat(length, self._owners, axis=1)
        high = np.maximum.reduceat(length, self._owners, axis=1)
        fits = (low == high) & (low >= np.array(first)[:, None])
        fits &= self.stable[list(lanes)] <= np.array(stable)[:, None]
        return np.asarray(fits.all(axis=0))

    def advance(self, lane: int, group: int, length: int, stable: int) -> None:
        """Record that a step has written a group up to `length`."""
        self.length[lane, self._spans[group]] = length
        self.stable[lane, group] = stable

    def cut(self, lane: int, group: int, length: int) -> None:
        """Record that a group holds `length` tokens at most."""
        written = self.length[lane, self._spans[group]]
        np.minimum(written, length, out=written)
