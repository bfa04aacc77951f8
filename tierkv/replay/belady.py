"""The bound that knows the future."""

import tempfile
from importlib import import_module
from importlib.util import find_spec
from time import thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

from tierkv.replay.contender import BELADY
from tierkv.replay.course import Course
from tierkv.replay.run import Run
from tierkv.trace import Chunk, Trace
from tierkv.trace.chunk import Ints

NEVER = int(np.iinfo(np.int32).max)
"""The id is not selected again."""
AGAIN = -1
"""The id stands earlier in its step, whose entry says when it is selected again."""
COUNTS = ("hits", "misses", "unique_hits", "unique_misses", "installs", "bypassed")

Places = npt.NDArray[np.int64]


def _native() -> Any:
    return import_module("tierkv._native") if find_spec("tierkv._native") else None


def offered(chunk: Chunk) -> Ints:
    """Give the entries that hit or miss, [T, groups, lanes, Q K]; -1 for the others.

    They are live and stable, see docs/semantics.md; what is stable is visible too.
    """
    queries = chunk.ids.shape[3]
    live = np.arange(queries) >= queries - chunk.q_len[..., None]  # [T, lanes, Q]
    live &= (chunk.request >= 0)[..., None]
    bound = np.where(live, chunk.stable[..., None], 0)[:, None, :, :, None]
    ids = np.where(chunk.ids < bound, chunk.ids, -1)
    return ids.reshape(*ids.shape[:3], -1)


class Future:
    """For every entry of a trace the step that selects its id again.

    It is as large as the trace's ids, and lies in a temporary file. Requests do not see each
    other's future, nor what is selected after a truncation.
    """

    def __init__(self, trace: Trace) -> None:
        entries = trace.queries * trace.top_k
        shape = (trace.groups, trace.steps, trace.lanes, entries)
        with tempfile.TemporaryFile() as file:  # the mapping outlives it, the disk space does not
            self.next: Ints = np.memmap(file, np.int32, "w+", shape=shape)
        native = _native()
        last: Places = np.full((trace.groups, trace.lanes, trace.positions), -1, np.int64)
        course = Course(trace.lanes)
        for chunk in trace.chunks():
            ids, forget = offered(chunk), forgets(course, chunk)
            for group in range(trace.groups):
                mine = np.ascontiguousarray(ids[:, group])
                link = native.link if native else link_steps
                link(mine, forget, chunk.start, last[group], self.next[group])


def forgets(course: Course, chunk: Chunk) -> Ints:
    """Give from which position on each lane forgets before each step of the next chunk.

    [T, lanes]; :data:`NEVER` where it forgets nothing, 0 where another request comes.
    """
    found = np.full(chunk.request.shape, NEVER, np.int32)
    for span, forgotten in course.spans(chunk):
        for lane, position in forgotten:
            found[span.start - chunk.start, lane] = position
    return found


def link_steps(ids: Ints, forget: Ints, start: int, last: Places, following: Ints) -> None:
    """Note when ids are selected again.

    Parameters
    ----------
    ids
        [T, lanes, entries] the next T steps, of which the first has the number `start`.
    forget
        [T, lanes], see :func:`forgets`.
    last
        [lanes, positions] flat place in `following` where an id was met last, -1 at first.
    following
        [steps, lanes, entries], written.
    """
    flat, each = following.reshape(-1), ids[0].size
    for step, lane in np.ndindex(ids.shape[:2]):
        last[lane, forget[step, lane] :] = -1
        now = start + step
        for entry, id in enumerate(ids[step, lane].tolist()):
            place = now * each + lane * ids.shape[2] + entry
            flat[place] = NEVER
            if id < 0:
                continue
            met = int(last[lane, id])
            if met >= now * each:
                flat[place] = AGAIN
                continue
            if met >= 0:
                flat[met] = now
            last[lane, id] = place


class BeladyGroup:
    """The lanes of one group, as the compiled ``Belady``: slower, and easier to read."""

    def __init__(self, lanes: int, positions: int, slots: int) -> None:
        self._next = np.full((lanes, positions), -1, np.int64)  # of residents; -1 is not resident
        self._since = np.full((lanes, positions), -1, np.int64)
        self._slots = slots

    def run(
        self, ids: Ints, following: Ints, forget: Ints, start: int, tally: Ints, counts: Places
    ) -> bool:
        """Select `ids` [T, lanes, entries]; add to `tally` [T, 2] and `counts` [6]."""
        for step, lane in np.ndindex(ids.shape[:2]):
            self._next[lane, forget[step, lane] :] = -1
            chosen = ids[step, lane] >= 0
            found = self._step(
                lane, start + step, ids[step, lane][chosen], following[step, lane][chosen]
            )
            tally[step] += found[:2].astype(np.int32)
            counts += found
        return True

    def _step(self, lane: int, step: int, ids: Ints, following: Ints) -> Places:
        known, since = self._next[lane], self._since[lane]
        hits = int((known[ids] >= 0).sum())
        first = following != AGAIN
        unique, following = ids[first], following[first]
        resident = known[unique] >= 0
        since[unique[~resident]] = step
        known[unique] = following
        held = np.flatnonzero(known >= 0)
        leaving = np.lexsort((held, known[held]))[self._slots :]  # by next selection, then by id
        known[held[leaving]] = -1
        bypassed = int((since[held[leaving]] == step).sum())
        missed = int((~resident).sum())
        found = [hits, len(ids) - hits, int(resident.sum()), missed, missed - bypassed, bypassed]
        return np.array(found)


class BeladyRun(Run):
    """After each step keep the P ids that are selected soonest, of residents and misses offered.

    A step is served whole, as everywhere; nobody is pinned, and a miss may be bypassed. No policy
    that hits on residents as a step finds them has a higher unique hit rate. (Hits per entry are
    not bounded: an id that several queries select counts as often, but takes one slot.)

    Source: Belady, "A study of replacement algorithms for a virtual-storage computer" (1966), step
    by step.
    """

    bound = True

    def __init__(self, future: Future, slots: int, trace: Trace) -> None:
        super().__init__(BELADY, slots, trace)
        native = _native()
        self.native = native is not None
        make = native.Belady if native else BeladyGroup
        self._groups = [make(trace.lanes, trace.positions, slots) for _ in range(trace.groups)]
        self._future = future
        self._counts = np.zeros((trace.groups, len(COUNTS)), np.int64)
        self._course = Course(trace.lanes)

    def step(self, chunk: Chunk) -> None:
        ids, forget = offered(chunk), forgets(self._course, chunk)
        steps = slice(chunk.start, chunk.start + len(chunk))
        for number, group in enumerate(self._groups):
            tally = np.zeros((len(chunk), 2), np.int32)
            mine = np.ascontiguousarray(ids[:, number])
            start = thread_time()
            group.run(mine, self._future.next[number, steps], forget, chunk.start, tally,
                      self._counts[number])  # fmt: skip
            self.seconds += thread_time() - start
            self.note(number, tally)
        self.steps += len(chunk)

    def counts(self) -> list[dict[str, int]]:
        return [
            {**dict(zip(COUNTS, row, strict=True)), "fetched": row[3]}
            for row in self._counts.tolist()
        ]

    def clear(self) -> None:
        self._counts[:] = 0
