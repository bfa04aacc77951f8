"""Which request runs in which lane, and how far each is written."""

from collections.abc import Hashable, Sequence
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
        spec = limits.spec
        self._lane_of: dict[Hashable, int] = {}
        self._free = list(range(limits.lanes - 1, -1, -1))
        self.length: npt.NDArray[np.int64] = np.zeros((limits.lanes, len(spec.layouts)), np.int64)
        """[lanes, layers] tokens written."""
        self.stable: npt.NDArray[np.int64] = np.zeros((limits.lanes, len(spec.groups)), np.int64)
        """[lanes, groups] ``stable`` of the group's last step."""
        self.device: npt.NDArray[np.int64] = np.zeros((limits.lanes, len(spec.layouts)), np.int64)
        """[lanes, layers] tokens whose device parts are written."""
        self.serial: npt.NDArray[np.int32] = np.full(limits.lanes, -1, np.int32)
        """[lanes] number of the request last bound there, counted from 0."""
        self._serials = count()
        self.epoch = [0] * limits.lanes
        """Of each lane, how often a cold call changed what it holds."""
        self.prompts: dict[int, Prompt] = {}
        """Lane -> tokens it was admitted with, as far as they still hold."""
        self._device = [bool(layout.device) for layout in spec.layouts]
        self.open: set[int] = set()
        """Lanes of open steps."""
        self._external = limits.external  # then only the engine knows what is written
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
        self.serial[lane] = next(self._serials)
        self.reset(lane, 0)
        return lane

    def reset(self, lane: int, length: int, stable: int = 0) -> None:
        """Say that every layer of a lane holds `length` tokens."""
        self.length[lane] = self.device[lane] = length
        self.stable[lane] = stable
        self.epoch[lane] += 1

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

    def written(self, lane: int) -> int:
        """Tokens written in every layer, device parts too."""
        written = int(self.length[lane].min())
        return min(written, *map(int, self.device[lane, self._device]), written)

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
        fits = self._external | ((low == high) & (low >= np.array(first)[:, None]))
        fits &= self.stable[list(lanes)] <= np.array(stable)[:, None]
        return np.asarray(fits.all(axis=0))

    def advance(self, lane: int, group: int, length: int, stable: int) -> None:
        """Record that a step has written a group up to `length`."""
        span = self._spans[group]
        whole = self.device[lane, span] >= self.length[lane, span]
        self.length[lane, span] = length
        self.device[lane, span][whole] = length
        self.stable[lane, group] = stable

    def cut(self, lane: int, group: int, length: int) -> None:
        """Record that a group holds `length` tokens at most."""
        for written in (self.length, self.device):
            span = written[lane, self._spans[group]]
            np.minimum(span, length, out=span)
        self.rewrite(lane, length)

    def rewrite(self, lane: int, start: int) -> None:
        """Record that positions from `start` on may no longer be those of the lane's prompt."""
        prompt = self.prompts.get(lane)
        if prompt is not None and start < len(prompt.tokens):
            self.prompts[lane] = Prompt(prompt.tokens[:start], prompt.salt)

    def copy(self, lane: int, other: int) -> None:
        """Say that lane `other` holds what `lane` does."""
        self.length[other], self.device[other] = self.length[lane], self.device[lane]
        self.stable[other] = self.stable[lane]
        if lane in self.prompts:
            self.prompts[other] = self.prompts[lane]

    def extend(self, lane: int, layer: int, start: int, stop: int, kinds: Sequence[str]) -> None:
        """Record a cold write of a layer's ``tiered`` or ``device`` parts, or of both."""
        for kind in kinds:
            written = self.length if kind == "tiered" else self.device
            if start < written[lane, layer]:
                self.rewrite(lane, start)
            written[lane, layer] = stop
        if "device" not in kinds:
            self.device[lane, layer] = min(self.device[lane, layer], start)
        self.epoch[lane] += 1
