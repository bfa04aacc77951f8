"""Prompts on their way to the backing, while the model computes its next layer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.errors import TierError, say
from tierkv.interfaces.tier import Tier
from tierkv.limits import Limits

STAGED = 4096
"""Most records in the staging buffer; more of them go in pieces."""


@dataclass(frozen=True, slots=True)
class Copying:
    """What a copy to the backing is part of."""

    request: Hashable
    lane: int
    layer: int
    start: int
    """First position."""


class Offload:
    """Writes a prompt's records to the backing, one layer at a time.

    Protocol
    --------
    1. :meth:`write` packs records into the one staging buffer, whose last copy it waits for, and
       starts the next. What it was given may be changed at once.
    2. :meth:`finish` before anything reads these positions, or their page is copied, shared, named
       by the prefix index or reused, and before the next :meth:`write`.
    """

    def __init__(self, limits: Limits, backing: Tier, background: bool) -> None:
        self._layouts, self._backing = limits.spec.layouts, backing
        self._thread = ThreadPoolExecutor(1, "tierkv-offload") if background else None
        self._staging = torch.empty(0, dtype=torch.uint8)
        self._job: Future[None] | None = None
        self.copying: Copying | None = None
        """What is under way."""

    def write(self, what: Copying, rows: Tensor, parts: Mapping[str, Tensor]) -> None:
        """Write tiered `parts` [n, width] to `rows` [n] int64.

        Raises
        ------
        TierError
            If an earlier piece, or without a thread any, could not be written.
        """
        layout = self._layouts[what.layer]
        for first in range(0, len(rows), STAGED):
            self.finish()
            piece = rows[first : first + STAGED]
            records = self._stage(len(piece), layout.stride)
            for name, view in layout.views(records).items():
                view.copy_(parts[name][first : first + STAGED])
            if self._thread is None:
                self._backing.write(what.layer, piece, records).wait()
            else:
                self._job = self._thread.submit(self._copy, what.layer, piece, records)
                self.copying = what

    def finish(self) -> None:
        """Wait for the copy that is under way.

        Raises
        ------
        TierError
            If it failed, once; the message names the request.
        """
        job, self._job = self._job, None
        what, self.copying = self.copying, None
        if job is None or what is None:
            return
        try:
            job.result()
        except Exception as error:
            where = f"prefill {what.request!r}, layer {what.layer}"
            wrong = f"its records from {what.start} on were not written: {error}"
            raise TierError(say(where, wrong, do="prefill the layer again")) from error

    def close(self) -> None:
        """Wait, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
        self._job = self.copying = None

    def _copy(self, layer: int, rows: Tensor, records: Tensor) -> None:
        self._backing.write(layer, rows, records).wait()

    def _stage(self, count: int, stride: int) -> Tensor:
        if len(self._staging) < count * stride:
            with torch.inference_mode(False):  # it outlives the mode it is made in
                self._staging = torch.empty(count * stride, dtype=torch.uint8)
        return self._staging[: count * stride].view(count, stride).zero_()
