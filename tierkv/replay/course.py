"""Where in a trace lanes become cold, or lose their last positions."""

from collections.abc import Iterator

import numpy as np

from tierkv.trace import Chunk

Forgets = list[tuple[int, int]]
"""Lane and position from which on it forgets."""


class Course:
    """Follows the requests of a trace from chunk to chunk.

    A lane that idles for some steps keeps what it holds; another request finds it cold. A request
    whose ``stable`` falls was truncated.
    """

    def __init__(self, lanes: int) -> None:
        self._request = np.full(lanes, -1, np.int32)
        self._stable = np.zeros(lanes, np.int32)

    def spans(self, chunk: Chunk) -> Iterator[tuple[Chunk, Forgets]]:
        """Cut a chunk where something is forgotten: give each span, and what goes before it."""
        request = np.concatenate([self._request[None], chunk.request])
        stable = np.concatenate([self._stable[None], chunk.stable])
        step = np.arange(len(request))[:, None]
        last = np.maximum.accumulate(np.where(request >= 0, step, 0))  # step that ran there last
        runs = np.take_along_axis(request, last, 0)
        reached = np.take_along_axis(stable, last, 0)
        self._request, self._stable = runs[-1], reached[-1]

        live, before = chunk.request >= 0, runs[:-1]
        cold = live & (before >= 0) & (before != chunk.request)
        back = live & (before == chunk.request) & (chunk.stable < reached[:-1])
        cuts = np.flatnonzero((cold | back).any(1)).tolist()
        starts = [0, *(cut for cut in cuts if cut)]
        for start, stop in zip(starts, [*starts[1:], len(chunk)], strict=True):
            forgets = [(int(lane), 0) for lane in np.flatnonzero(cold[start])]
            forgets += [(int(n), int(chunk.stable[start, n])) for n in np.flatnonzero(back[start])]
            yield chunk[start:stop], forgets
