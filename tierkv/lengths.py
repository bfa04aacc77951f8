"""How far each lane is written."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tierkv.limits import Limits
from tierkv.rows import Rows
from tierkv.unread import Unread


class Lengths:
    """Tokens written of each lane and layer, and how many can no longer change.

    Where a step's lengths are known to the device alone, those here are upper bounds, and
    ``stable`` a lower one, until :meth:`read`.
    """

    def __init__(self, limits: Limits) -> None:
        spec = limits.spec
        layers, groups = (limits.lanes, len(spec.layouts)), (limits.lanes, len(spec.groups))
        self.tiered: npt.NDArray[np.int64] = np.zeros(layers, np.int64)
        """[lanes, layers] tokens whose tiered parts are written."""
        self.device: npt.NDArray[np.int64] = np.zeros(layers, np.int64)
        """[lanes, layers] tokens whose device parts are written."""
        self.stable: npt.NDArray[np.int64] = np.zeros(groups, np.int64)
        """[lanes, groups] ``stable`` of the group's last step."""
        self._start: npt.NDArray[np.int64] = np.zeros(groups, np.int64)
        """[lanes, groups] where the next step may begin at the earliest: at the end of a cold
        call, and then at the last ``stable``."""
        self.unread = Unread(limits)
        self._has_device = [bool(layout.device) for layout in spec.layouts]
        self._external = limits.external  # then only the engine knows what is written
        self._most, self._group_of = limits.max_tokens, spec.group_of
        self._owners = np.array([group.owner for group in spec.groups])
        self._spans = [slice(group.owner, group.last + 1) for group in spec.groups]

    def reset(self, lane: int, length: int) -> None:
        """Say that every layer of a lane holds `length` tokens, all of which may change."""
        self.tiered[lane] = self.device[lane] = self._start[lane] = length
        self.stable[lane] = 0
        self.unread.drop(lane)

    def copy(self, lane: int, other: int) -> None:
        """Say that lane `other` holds what `lane` does."""
        for numbers in (self.tiered, self.device, self.stable, self._start):
            numbers[other] = numbers[lane]
        self.unread.drop(other)

    def read(self, lanes: Sequence[int]) -> None:
        """Bring to the host what only the device knows of some lanes, which waits for it."""
        for lane, group, length, stable in self.unread.take(lanes):
            self.shorten(lane, group, length)
            self.keep(lane, group, stable)

    def written(self, lane: int) -> int:
        """Tokens written in every layer, device parts too."""
        device = self.device[lane, self._has_device]
        return int(min(self.tiered[lane].min(), device.min(initial=self._most)))

    def longest(self, lanes: list[int]) -> list[int]:
        """Tokens written in the longest layer of each lane; nobody knows of an engine's."""
        if self._external:
            return [self._most] * len(lanes)
        longest: list[int] = self.tiered[lanes].max(axis=1).tolist()
        return longest

    def start(self, lanes: list[int]) -> list[int]:
        """Positions that a step whose lengths the host does not know begins at, or behind."""
        begun = self.tiered[lanes][:, self._owners] > 0
        ends = np.where(begun, self._start[lanes], self._most).min(axis=1)
        start: list[int] = np.where(begun.any(axis=1), ends, 0).tolist()
        stable = self.stable[lanes].max(axis=1).tolist()
        return [max(pair) for pair in zip(start, stable, strict=True)]

    def reach(self, bounds: Rows) -> tuple[Tensor, Tensor]:
        """Give :meth:`longest` and :meth:`start` as the device knows them, [B] each.

        Those of lane -1 mean nothing.
        """
        told = np.maximum.reduceat(self.tiered[bounds.lanes], self._owners, axis=1)
        longest, start = self.unread.reach(bounds.lanes, told, bounds.first)
        return longest.fill_(self._most) if self._external else longest, start

    def touchable(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Say which groups a step may touch: [groups].

        Their layers are equally long and reach the first position of each row, and the row's
        ``stable`` is not below the group's last.
        """
        live = rows.live
        first, stable = (np.array(values)[live, None] for values in (rows.first, rows.stable))
        lanes = [rows.lanes[row] for row in live]
        length = self.tiered[lanes]
        low = np.minimum.reduceat(length, self._owners, axis=1)
        high = np.maximum.reduceat(length, self._owners, axis=1)
        fits = self._external | ((low == high) & (low >= first))
        fits &= (self.stable[lanes] <= stable) | (rows.seen is not None)
        return np.asarray(fits.all(axis=0))

    def advance(self, rows: Rows, groups: Sequence[int]) -> None:
        """Record that a step has written groups up to ``kv_len`` of its rows."""
        if rows.seen is not None:
            self._note(rows, groups, whole=True)
        live = rows.live
        lanes = [rows.lanes[row] for row in live]
        kv_len, stable = (np.array(values)[live, None] for values in (rows.kv_len, rows.stable))
        at = np.ix_(lanes, self._layers(groups))
        whole = self.device[at] >= self.tiered[at]
        self.tiered[at] = kv_len
        self.device[at] = np.where(whole, kv_len, self.device[at])
        of = np.ix_(lanes, groups)
        self.stable[of] = np.maximum(self.stable[of], stable)
        if rows.seen is None:
            self._start[of] = stable

    def fail(self, rows: Rows, groups: Sequence[int]) -> None:
        """Record that a step may have changed groups from its first positions on."""
        if rows.seen is not None:
            self._note(rows, groups, whole=False)
            return
        for row in rows.live:
            for group in groups:
                self.shorten(rows.lanes[row], group, rows.first[row])

    def _note(self, rows: Rows, groups: Sequence[int], whole: bool) -> None:
        """Let the device keep what only it knows."""
        lanes = [rows.lanes[row] for row in rows.live]
        if lanes and groups:
            lengths = self.tiered[np.ix_(lanes, [self._owners[group] for group in groups])]
            told = np.stack([lengths, self.stable[np.ix_(lanes, groups)]])
            self.unread.note(rows, groups, told, whole)

    def _layers(self, groups: Sequence[int]) -> list[int]:
        every = range(self.tiered.shape[1])
        return [layer for group in groups for layer in every[self._spans[group]]]

    def shorten(self, lane: int, group: int, length: int) -> None:
        """Record that a group holds `length` tokens at most."""
        for written in (self.tiered, self.device):
            span = written[lane, self._spans[group]]
            np.minimum(span, length, out=span)
        self._start[lane, group] = min(self._start[lane, group], length)

    def cut(self, lane: int, length: int) -> None:
        """Record that a lane holds `length` tokens at most, any of which may be written again."""
        for numbers in (self.tiered, self.device, self.stable, self._start):
            np.minimum(numbers[lane], length, out=numbers[lane])

    def keep(self, lane: int, group: int, length: int) -> None:
        """Record that a group's first `length` positions can no longer change."""
        for least in (self.stable, self._start):
            least[lane, group] = max(least[lane, group], length)

    def extend(self, lane: int, layer: int, start: int, stop: int, kinds: Sequence[str]) -> bool:
        """Record a cold write of a layer's ``tiered`` or ``device`` parts, or of both.

        Say whether it has replaced what was written.
        """
        replaced = False
        for kind in kinds:
            written = self.tiered if kind == "tiered" else self.device
            replaced |= start < int(written[lane, layer])
            written[lane, layer] = stop
        if "tiered" in kinds:
            self._start[lane, self._group_of[layer]] = stop
        if "device" not in kinds:
            self.device[lane, layer] = min(self.device[lane, layer], start)
        return replaced
