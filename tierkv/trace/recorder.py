"""Records what a running cache selects."""

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.errors import StateError, TraceError, say
from tierkv.rows import Rows
from tierkv.step import Step
from tierkv.trace.chunk import Chunk, Ints
from tierkv.trace.layout import ROWS
from tierkv.trace.writer import TraceWriter
from tierkv.types import Batch

_BUFFER_BYTES = 1 << 26
_FEWEST, _MOST = 4, 1024
_PAUSE = 0.02
"""Seconds between two looks at the buffer: waking a thread costs the step path more."""


@dataclass(frozen=True, slots=True, eq=False)
class _Record:
    """One step in the buffer."""

    slot: int
    groups: list[int]
    rows: Rows
    request: list[int]
    """Of each row, the number of its request; -1 is padding."""
    queries: int
    copied: torch.Event | None
    """When the device has copied the ids; None on the CPU."""


class Recorder:
    """Writes every step of a cache to a trace file, until it is closed.

    Use it as a context manager. After a step its selections are copied into a buffer that was
    allocated beforehand; a thread empties it into the file. A step that finds the buffer full is
    counted in :attr:`dropped` and left out; the cache never waits. Steps that raised are not
    recorded. Capture no graph meanwhile: the thread waits for events.

    Parameters
    ----------
    slots
        Steps that the buffer holds; default: as many as 64 MiB hold, 4 to 1024.

    Raises
    ------
    TraceError
        If the file cannot be written; on :meth:`close` too.
    StateError
        If the cache is being recorded already.
    """

    @torch.inference_mode(False)  # the buffer outlives the mode it was made in
    def __init__(self, cache: TieredCache, path: str | Path, *, slots: int | None = None) -> None:
        if cache.after_step is not None:
            raise StateError(say("record", "the cache is being recorded already"))
        limits, spec = cache.limits, cache.limits.spec
        self.dropped = 0
        """Steps that found the buffer full."""
        self._cache, self._device = cache, limits.device
        shape = (len(spec.groups), limits.lanes, limits.queries, spec.top_k)
        meta = {
            "source": "record", "model": spec.name, "top_k": spec.top_k, "page": limits.page,
            "layers": [list(group.layers) for group in spec.groups],
        }  # fmt: skip
        self._writer = TraceWriter(path, shape, meta=meta)
        self._ids: Ints = np.empty((1, *shape), np.int32)
        entries = limits.lanes * limits.queries * spec.top_k
        fitting = _BUFFER_BYTES // (4 * len(spec.groups) * entries)
        slots = slots or min(max(fitting, _FEWEST), _MOST)
        self._buffer = torch.empty(
            (slots, len(spec.groups), entries), dtype=torch.int32,
            pin_memory=self._device.type != "cpu",
        )  # fmt: skip
        self._views: dict[tuple[int, int], list[Tensor]] = {}
        self._free, self._filled = deque(range(slots)), deque[_Record]()
        self._error: TraceError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tierkv-record", daemon=True)
        self._thread.start()
        cache.after_step = self._take

    def close(self) -> None:
        """Stop recording and complete the file.

        Raises
        ------
        TraceError
            If it could not be written, or no step was recorded; there is no file then.
        """
        self._detach()
        if self._error is not None:
            self._writer.abandon()
            raise self._error
        self._writer.meta["dropped"] = self.dropped
        self._writer.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete the file; after an error with the steps there are, if any."""
        if error is None or self._detach():
            self.close()
        else:
            self._writer.abandon()

    def _detach(self) -> int:
        """Let the cache go and empty the buffer; give how many steps were written."""
        self._cache.after_step = None
        self._stop.set()
        self._thread.join()
        return self._writer.steps

    # On the step path.

    def _take(self, step: Step) -> None:
        if not self._free:
            self.dropped += 1
            return
        slot, batch = self._free.pop(), step.batch  # the one used last is warm
        views = self._views.get((slot, batch.key)) or self._view(slot, batch)
        groups = []
        for group, plan in enumerate(step.plans):
            if plan is not None:
                views[group].copy_(plan.ids, non_blocking=True)
                groups.append(group)
        copied = None
        if self._device.type != "cpu":
            copied = torch.Event(self._device)
            copied.record()
        serial = self._cache.lanes.serial
        request = [int(serial[lane]) if lane >= 0 else -1 for lane in step.rows.lanes]
        self._filled.append(_Record(slot, groups, step.rows, request, batch.queries, copied))

    @torch.inference_mode(False)
    def _view(self, slot: int, batch: Batch) -> list[Tensor]:
        """View a slot as the ids of each group, [B, Q, K]; once for each slot and stepper."""
        shape = (len(batch.lanes), batch.queries, self._ids.shape[-1])
        entries = shape[0] * shape[1] * shape[2]
        views = [group[:entries].view(shape) for group in self._buffer[slot]]
        self._views[slot, batch.key] = views
        return views

    # In the thread.

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE):
            self._drain()
        self._drain()

    def _drain(self) -> None:
        while self._filled and self._error is None:
            record = self._filled.popleft()
            if record.copied is not None:
                record.copied.synchronize()
            try:
                self._writer.write(self._chunk(record))
            except TraceError as error:
                self._error = error
            self._free.append(record.slot)

    def _chunk(self, record: _Record) -> Chunk:
        """Bring batch rows to their lanes, and queries to the right."""
        self._ids.fill(-1)
        _, lanes, queries, top_k = self._ids.shape[1:]
        rows = {name: np.zeros((1, lanes), np.int32) for name in ROWS}
        rows["request"].fill(-1)
        given, live = np.array(record.rows.lanes), record.rows.live
        kv_len, stable = record.rows.kv_len, record.rows.stable
        if record.rows.seen is not None:
            kv_len, stable, *_ = record.rows.seen.tolist()
        columns = zip(ROWS, (kv_len, record.rows.q_len, stable, record.request), strict=True)
        for name, values in columns:
            rows[name][0, given[live]] = np.array(values)[live]
        shape = (len(given), record.queries, top_k)
        held: Any = self._buffer[record.slot].numpy()
        for group in record.groups:
            ids = held[group, : np.prod(shape)].reshape(shape)
            self._ids[0, group, given[live], queries - record.queries :] = ids[live]
        return Chunk(0, self._ids, **rows)
