"""Streams and events on the CPU, for schedules that launch work beside the caller's."""

import random
from contextlib import contextmanager
from functools import partial

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from tierkv.schedules.streams import Streams


class Stream:
    """A queue of launches and waits; as a context manager, launches go there."""

    def __init__(self, simulator):
        self.simulator, self.queue, self.done = simulator, [], 0
        self.before = []

    def __enter__(self):
        self.before.append(self.simulator.current)
        self.simulator.current = self

    def __exit__(self, *_):
        self.simulator.current = self.before.pop()

    def run(self, stop=None):
        """Do what was queued, up to `stop`, and whatever that waits for."""
        stop = len(self.queue) if stop is None else stop
        while self.done < stop:
            job = self.queue[self.done]
            self.done += 1
            job()


class Event:
    def __init__(self, simulator):
        self.simulator, self.mark = simulator, None

    def record(self, stream):
        self.mark = self.simulator.mark(stream)

    def wait(self, stream):
        self.simulator.wait(stream, self.mark)


class Graph:
    """What was launched while it was captured, and in which order it must run."""

    def __init__(self, simulator):
        self.simulator, self.jobs = simulator, []
        self.count, self.joined = {}, {}

    def add(self, stream, job, mark=None):
        """Record a launch, or a wait for a mark of this graph."""
        origin = self.simulator.current_at_capture
        if stream is not origin and mark is None:
            assert self.count.get(stream), "a stream that waits for nothing in the graph"
        self.jobs.append((stream, job, mark))
        self.count[stream] = self.count.get(stream, 0) + 1
        if mark is not None and stream is origin:
            self.joined[mark[1]] = max(self.joined.get(mark[1], 0), mark[2])

    def check_joined(self):
        for stream, count in self.count.items():
            if stream is not self.simulator.current_at_capture:
                assert self.joined.get(stream) == count, "a stream was not joined"

    def replay(self):
        simulator, start = self.simulator, {}
        begun = simulator.mark(simulator.current)
        for stream in self.count:
            if stream is not simulator.current:
                simulator.wait(stream, begun)
            start[stream] = len(stream.queue)
        for stream, job, mark in self.jobs:
            if mark is None:
                simulator.push(stream, job)
            else:
                simulator.wait(stream, (None, mark[1], start[mark[1]] + mark[2]))


class Simulator(TorchDispatchMode):
    """Runs launches as late as events allow: those of the ``side``, of ``main``, or at random.

    An operator without a result is a launch. Any other needs what was launched before it on its
    stream, and waits for that.

    Parameters
    ----------
    late
        ``side``: the side stream starts only what somebody waits for, the caller's work is done at
        once. ``main``: the other way round. A number: seeds chance.
    """

    def __init__(self, late):
        super().__init__()
        self.late, self.graph, self.quiet = late, None, False
        self.main = self.current = Stream(self)
        self.streams_made = [self.main]
        self.events = 0
        self.random = random.Random(late)

    @property
    def streams(self):
        return Streams(lambda: self.current, self._stream, self._event)

    def _stream(self):
        self.streams_made.append(Stream(self))
        return self.streams_made[-1]

    def _event(self):
        self.events += 1
        return Event(self)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        call = partial(function, *args, **(kwargs or {}))
        if self.quiet:
            return call()
        if function._schema.returns:
            assert self.graph is None, f"{function} in a graph"
            self._run(self.current)
            return call()
        if self.graph is not None:
            return self.graph.add(self.current, call)
        return self.push(self.current, call)

    def push(self, stream, job):
        stream.queue.append(job)
        if self.late == "side":
            self._run(self.main)
        elif self.late == "main":
            for other in self.streams_made[1:]:
                self._run(other)
        else:
            other = self.random.choice(self.streams_made)
            self._run(other, self.random.randint(other.done, len(other.queue)))

    def mark(self, stream):
        """Name what was launched on a stream so far."""
        count = len(stream.queue) if self.graph is None else self.graph.count.get(stream, 0)
        return self.graph, stream, count

    def wait(self, stream, mark):
        if mark is None:
            return
        graph, other, count = mark
        assert graph is self.graph, "waits for what the graph does not hold"
        if graph is not None:
            graph.add(stream, None, mark)
        else:
            self.push(stream, partial(self._run, other, count))

    def synchronize(self):
        for stream in self.streams_made:
            self._run(stream)

    def _run(self, stream, stop=None):
        quiet, self.quiet = self.quiet, True
        try:
            stream.run(stop)
        finally:
            self.quiet = quiet

    @contextmanager
    def capture(self):
        self.graph, self.current_at_capture = Graph(self), self.current
        try:
            yield self.graph
            self.graph.check_joined()
        finally:
            self.graph = None


@pytest.fixture(params=["side", "main", 1, 2, 3])
def simulator(request):
    with Simulator(request.param) as simulator:
        yield simulator


@pytest.fixture
def make_simulator():
    return Simulator
