"""Lengths that only the device knows."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tierkv.limits import Limits
from tierkv.rows import Rows
from tierkv.tiers import memory

Counts = npt.NDArray[np.int64]


class Unread:
    """Length and ``stable`` of lanes and groups, kept on the device until somebody asks."""

    def __init__(self, limits: Limits) -> None:
        self._device = limits.device
        self._shape = (2, limits.lanes, len(limits.spec.groups))
        self._noted = np.zeros(self._shape[1:], np.bool_)
        """[lanes, groups] whether the host's numbers are bounds."""

    @cached_property
    @torch.inference_mode(False)  # it outlives the mode it is made in
    def _known(self) -> Tensor:
        """[2, lanes, groups] int32 length and ``stable``; made once somebody needs it."""
        return torch.zeros(self._shape, dtype=torch.int32, device=self._device)

    def __contains__(self, lane: int) -> bool:
        return bool(self._noted[lane].any())

    def drop(self, lane: int) -> None:
        """Forget a lane: the host knows it now."""
        self._noted[lane] = False

    def take(self, lanes: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
        """Read some lanes, which waits for the device: lane, group, length and ``stable``."""
        lanes = [lane for lane in lanes if lane in self]
        if not lanes:
            return
        known = self._known[:, torch.tensor(lanes, device=self._device)].cpu().numpy()
        for row, lane in enumerate(lanes):
            for group in np.flatnonzero(self._noted[lane]).tolist():
                yield lane, group, *known[:, row, group].tolist()
            self.drop(lane)

    def reach(self, lanes: list[int], told: Counts, start: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Give longest layer and earliest beginning of lanes, [B] each, on the device.

        Parameters
        ----------
        told
            [B, groups] longest layer as the host knows it; rows of lane -1 mean nothing.
        start
            [B] likewise, where the next step may begin.
        """
        noted = self._noted[lanes]
        lane, noted_sent, told_sent, start_sent = self._send(
            np.maximum(lanes, 0), noted, np.where(noted, 0, told), start
        )
        length, stable = torch.where(noted_sent > 0, self._known[:, lane], 0)
        return length.maximum(told_sent).amax(1), stable.amax(1).maximum(start_sent)

    def note(self, rows: Rows, groups: Sequence[int], told: Counts, whole: bool) -> None:
        """Keep what a step that has ended leaves in `groups`, without a wait.

        Parameters
        ----------
        told
            [2, n, groups] what the host knows of length and ``stable`` of the n rows that are not
            padding: right where nothing was noted before.
        whole
            Whether the step ended well.
        """
        assert rows.seen is not None
        lanes = [rows.lanes[row] for row in rows.live]
        place = np.ix_(lanes, groups)
        noted = self._noted[place]
        row, lane, group, old, told_sent = self._send(rows.live, lanes, groups, noted, told)
        at = lane[:, None], group
        before = torch.where(old > 0, self._known[:, *at], told_sent)
        kv_len, stable, first, right = rows.seen.index_select(1, row)[..., None]
        after = before.clone()
        after[0] = kv_len if whole else first
        if whole:
            after[1] = before[1].maximum(stable)
        self._known[:, *at] = torch.where(right > 0, after, before).int()
        self._noted[place] = True

    def _send(self, *numbers: npt.ArrayLike) -> list[Tensor]:
        """Send all in one piece."""
        parts = [torch.from_numpy(np.asarray(part, np.int64)) for part in numbers]
        flat = torch.cat([part.flatten() for part in parts])
        there = memory.send(flat, torch.empty_like(flat, device=self._device))
        pieces = there.split([part.numel() for part in parts])
        return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
