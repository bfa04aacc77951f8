"""What a trace is like, in figures that need no policy."""

from collections.abc import Callable

import attrs
import numpy as np

from tierkv.trace.chunk import Chunk
from tierkv.trace.trace import Trace


@attrs.frozen
class GroupSummary:
    """Figures of one group, over all lanes."""

    previous: float
    """Share of a query's ids that the query before it, of the same lane and request, selected."""
    distinct: int
    """Different ids that were selected, summed over requests."""
    selected: float
    """Ids a query, mean."""
    window: float
    """Share of ids at or behind ``stable``."""


@attrs.frozen
class Summary:
    """Figures of a trace."""

    requests: int
    live_queries: int
    groups: tuple[GroupSummary, ...]

    @property
    def previous(self) -> float:
        """Mean over the groups."""
        return float(np.mean([group.previous for group in self.groups]))


class _Counts:
    """Counts of one group; one mark for each lane and position."""

    def __init__(self, lanes: int, positions: int) -> None:
        self.last = np.zeros((lanes, positions), np.int32)
        """Number of the last query that selected the position, from 1 on; 0 is none."""
        self.selected = self.again = self.possible = self.window = self.queries = self.distinct = 0

    def summary(self) -> GroupSummary:
        return GroupSummary(
            previous=self.again / max(self.possible, 1),
            distinct=self.distinct,
            selected=self.selected / max(self.queries, 1),
            window=self.window / max(self.selected, 1),
        )


def summarise(trace: Trace, on_progress: Callable[[int, int], None] | None = None) -> Summary:
    """Read a trace once and give its figures.

    Parameters
    ----------
    on_progress
        Called with the steps done, and of how many.

    Raises
    ------
    TraceError
    """
    counts = [_Counts(trace.lanes, trace.positions) for _ in range(trace.groups)]
    running = np.full(trace.lanes, -1, np.int32)
    query = np.zeros(trace.lanes, np.int64)
    requests, live = set(), 0
    for chunk in trace.chunks():
        for step in range(len(chunk)):
            for lane in np.flatnonzero(chunk.request[step] >= 0):
                request = int(chunk.request[step, lane])
                if request != running[lane]:
                    running[lane], query[lane] = request, 0
                    for count in counts:
                        count.last[lane] = 0
                requests.add((int(lane), request))
                count_live = int(chunk.q_len[step, lane])
                live += count_live
                _step(counts, chunk, step, int(lane), int(query[lane]))
                query[lane] += count_live
        if on_progress:
            on_progress(chunk.start + len(chunk), trace.steps)
    return Summary(len(requests), live, tuple(count.summary() for count in counts))


def _step(counts: list[_Counts], chunk: Chunk, step: int, lane: int, past: int) -> None:
    kv_len, live = int(chunk.kv_len[step, lane]), int(chunk.q_len[step, lane])
    queries = chunk.ids.shape[3]
    for group, count in enumerate(counts):
        for number in range(live):
            position = kv_len - live + number
            ids = chunk.ids[step, group, lane, queries - live + number]
            ids = ids[(ids >= 0) & (ids <= position)]
            last = count.last[lane][ids]
            count.queries += 1
            count.selected += len(ids)
            count.window += int((ids >= chunk.stable[step, lane]).sum())
            count.distinct += int((last == 0).sum())
            if past + number:
                count.possible += len(ids)
                count.again += int((last == past + number).sum())
            count.last[lane][ids] = past + number + 1
