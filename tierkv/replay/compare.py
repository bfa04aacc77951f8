"""Several policies, several sizes, one trace."""

from collections.abc import Callable, Iterator, Sequence

from tierkv.errors import ConfigError
from tierkv.ops import Ops
from tierkv.replay.belady import BeladyRun, Future
from tierkv.replay.contender import BELADY, UNBOUNDED, Contender
from tierkv.replay.measured import Measured
from tierkv.replay.run import PolicyRun, Run
from tierkv.trace import Trace

Told = Callable[[int, int], None]
"""Is told how many steps are done and of how many."""


def sizes_of(trace: Trace) -> list[int]:
    """Give sizes worth looking at: 1, 2, 4 and 8 times a selection, or a 64th of the positions."""
    least = max(trace.top_k, trace.positions // 64)
    return [-(-least // 64) * 64 * times for times in (1, 2, 4, 8)]


class Comparison:
    """Replays a trace under each policy at each size, and under the bounds.

    Parameters
    ----------
    warmup
        Steps at the start that are replayed, but not counted.
    strict
        Raise ConfigError for a policy that refuses a size, instead of leaving it out.
    """

    def __init__(
        self, trace: Trace, contenders: Sequence[Contender], sizes: Sequence[int], ops: Ops,
        warmup: int = 0, strict: bool = True,
    ) -> None:  # fmt: skip
        self.trace, self.warmup, self.ops = trace, warmup, ops
        self.refused: list[str] = []
        """Why policies are left out at a size, a line each."""
        self._future: Future | None = None
        self._made: list[tuple[Contender | None, int]] = []
        for contender in contenders:
            if contender.name not in (BELADY, UNBOUNDED):
                self._made += [
                    (contender, size) for size in self._fitting(contender, sizes, strict)
                ]
        self._made += [(None, size) for size in sizes]
        self._made += [(c, trace.positions) for c in contenders if c.name == UNBOUNDED]

    def _fitting(self, contender: Contender, sizes: Sequence[int], strict: bool) -> list[int]:
        fitting = []
        for size in sizes:
            try:
                PolicyRun.check(contender, size, self.trace)
                fitting.append(size)
            except ConfigError as error:
                if strict:
                    raise
                self.refused.append(f"{contender.name} at {size} slots is left out: {error}")
        return fitting

    def measure(self, told: Told | None = None) -> Iterator[Measured]:
        """Replay one after the other, and give each as soon as it is done."""
        done, total = 0, len(self._made) * self.trace.steps
        for contender, size in self._made:
            run = self._run(contender, size)
            for chunk in self.trace.chunks():
                cut = min(max(self.warmup - chunk.start, 0), len(chunk))
                if cut:
                    run.step(chunk[:cut])
                if chunk.start + cut == self.warmup:
                    run.restart()
                if cut < len(chunk):
                    run.step(chunk[cut:])
                done += len(chunk)
                if told:
                    told(done, total)
            yield run.measured()

    def _run(self, contender: Contender | None, size: int) -> Run:
        if contender is not None:
            run = PolicyRun(contender, size, self.trace, self.ops)
            run.bound = contender.name == UNBOUNDED
            return run
        if self._future is None:
            self._future = Future(self.trace)
        return BeladyRun(self._future, size, self.trace)
