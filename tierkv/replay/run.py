"""A policy on a trace: plan and place, and nothing else of a cache."""

from abc import ABC, abstractmethod
from time import thread_time

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tierkv.constants import MAX_PAGE, Counter
from tierkv.errors import TraceError, say
from tierkv.layout import KVLayout, ModelSpec, Part
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.plain import TablePlanner
from tierkv.policies import OperatorPolicy
from tierkv.replay.contender import Contender
from tierkv.replay.course import Course
from tierkv.replay.measured import Measured
from tierkv.site import Site
from tierkv.tiers import DeviceTier
from tierkv.trace import Chunk, Trace
from tierkv.types import Batch, GroupStats

_AT_ONCE = 1 << 16
"""Steps in one native call: short enough for a progress bar and Ctrl-C."""


class Run(ABC):
    """One policy, or bound, at one size, walking along a trace.

    Protocol
    --------
    1. :meth:`step` with every chunk in order; with :meth:`restart` once where the warm-up ends.
    2. :meth:`measured`.
    """

    bound = False
    native = False

    def __init__(self, name: str, slots: int, trace: Trace) -> None:
        self.name, self.slots, self.trace = name, slots, trace
        self.steps = 0
        self.seconds = 0.0
        self._rates: list[list[npt.NDArray[np.float32]]] = [[] for _ in range(trace.groups)]

    @abstractmethod
    def step(self, chunk: Chunk) -> None:
        """Replay some steps."""

    @abstractmethod
    def counts(self) -> list[dict[str, int]]:
        """Give each group's counters, by the names of :class:`GroupStats`."""

    @abstractmethod
    def clear(self) -> None:
        """Set all counters to zero."""

    def restart(self) -> None:
        """Forget what was counted, but nobody who is resident."""
        self.clear()
        self.steps, self.seconds = 0, 0.0
        self._rates = [[] for _ in self._rates]

    def measured(self) -> Measured:
        """Give what was counted."""
        none = np.zeros(0, np.float32)
        return Measured(
            policy=self.name,
            slots=self.slots,
            bound=self.bound,
            native=self.native,
            steps=self.steps,
            groups=tuple(GroupStats((n,), **counts) for n, counts in enumerate(self.counts())),
            rates=tuple(np.concatenate(rates or [none]) for rates in self._rates),
            seconds=self.seconds,
        )

    def note(self, group: int, tally: npt.NDArray[np.int32]) -> None:
        """Keep the hit rates of steps, from their hits and misses [T, 2]."""
        total = tally.sum(1)
        some = total > 0
        self._rates[group].append((tally[some, 0] / total[some]).astype(np.float32))


class PolicyRun(Run):
    """A registered policy, by the very operators that serve."""

    def __init__(self, contender: Contender, slots: int, trace: Trace, ops: Ops) -> None:
        """Allocate the policy of each group.

        Raises
        ------
        ConfigError
            If the policy cannot have so many slots.
        """
        super().__init__(contender.name, slots, trace)
        self.limits = limits = self.check(contender, slots, trace)
        self.counters = torch.zeros((trace.groups, len(Counter)), dtype=torch.int64)
        self.policies = [
            contender.component(contender.options, limits, group, ops, self.counters[group])
            for group in range(trace.groups)
        ]
        tiers = [DeviceTier(DeviceTier.Options(), limits) for _ in range(2)]  # with nothing in them
        rows = tuple(self.counters)
        site = Site(limits, ops, tiers[0], tiers[1], tuple(self.policies), self.counters, rows)
        self._planner = TablePlanner(TablePlanner.Options(), site)
        self._batch = _batch(trace, limits)
        self._plans = [self._planner.prepare(self._batch, group) for group in range(trace.groups)]
        for policy, plan in zip(self.policies, self._plans, strict=True):
            policy.prepare(plan)
        self.native = ops.name == "native" and all(
            isinstance(policy, OperatorPolicy) and policy.compiled for policy in self.policies
        )
        self._course = Course(trace.lanes)

    @staticmethod
    def check(contender: Contender, slots: int, trace: Trace) -> Limits:
        """Give the sizes of such a run, or raise ConfigError."""
        limits = _limits(trace, slots)
        contender.component.footprint(contender.options, limits)
        return limits

    def step(self, chunk: Chunk) -> None:
        for span, forgets in self._course.spans(chunk):
            for policy in self.policies:
                for lane, position in forgets:
                    policy.forget([lane], position)
            for start in range(0, len(span), _AT_ONCE):
                self._step(span[start : start + _AT_ONCE])
        self.steps += len(chunk)

    def _step(self, span: Chunk) -> None:
        lanes = np.where(span.request >= 0, np.arange(self.trace.lanes, dtype=np.int32), -1)
        rows = [lanes, span.kv_len, span.q_len, span.stable]
        batch = torch.from_numpy(np.stack(rows).astype(np.int32, copy=False))
        writeable = span.ids if span.ids.flags.writeable else span.ids.copy()
        ids = torch.from_numpy(writeable)
        for group in range(self.trace.groups):
            tally = torch.zeros((len(span), 2), dtype=torch.int32)
            replay = self.by_kernel if self.native else self.by_operators
            replay(group, ids[:, group], batch, tally)
            self.note(group, tally.numpy())

    def by_kernel(self, group: int, ids: Tensor, batch: Tensor, tally: Tensor) -> None:
        """Replay steps of a group in one native call.

        Parameters
        ----------
        ids
            [T, lanes, Q, K] int32.
        batch
            [4, T, lanes] int32: lanes, kv_len, q_len, stable.
        tally
            [T, 2], receives hits and misses per entry.
        """
        from tierkv import _native

        policy, plan = self.policies[group], self._plans[group]
        placement = policy.placement(plan)
        start = thread_time()
        done = _native.replay(
            policy.operator, list(policy.arguments),
            ids, batch, batch[0, 0], plan.batch.block_table, plan.batch.page,
            plan.ids, plan.kind, plan.index, plan.length, plan.miss_id, plan.miss_from,
            plan.miss_count, policy.tables, placement.slot, placement.count,
            policy.counters, tally,
        )  # fmt: skip
        self.seconds += thread_time() - start
        if done != len(ids):
            wrong = f"{self.name} cannot place what step {max(done, 0)} of a chunk selects"
            raise TraceError(say(self.trace.name, wrong, do="this is a bug, report it"))

    def by_operators(self, group: int, ids: Tensor, batch: Tensor, tally: Tensor) -> None:
        """Replay the same by two operators a step."""
        counters, columns = self.counters[group], [Counter.HITS, Counter.MISSES]
        for step in range(len(ids)):
            self.load(batch[:, step])
            before = counters[columns]
            start = thread_time()
            self.place(group, ids[step])
            self.seconds += thread_time() - start
            tally[step] = counters[columns] - before

    def load(self, batch: Tensor) -> None:
        """Begin a step: `batch` [4, lanes] int32 is lanes, kv_len, q_len, stable."""
        own = self._batch
        for target, row in zip((own.lanes, own.kv_len, own.q_len, own.stable), batch, strict=True):
            target.copy_(row)

    def place(self, group: int, ids: Tensor) -> None:
        """Plan and place a group's `ids` [lanes, Q, K] int32."""
        policy = self.policies[group]
        policy.place(self._planner.plan(ids, self._batch, group, policy))

    def counts(self) -> list[dict[str, int]]:
        names = [counter.name.lower() for counter in Counter]
        return [dict(zip(names, row, strict=True)) for row in self.counters.tolist()]

    def clear(self) -> None:
        self.counters.zero_()


def _limits(trace: Trace, slots: int) -> Limits:
    """Give the sizes of a cache for the trace, whose records are as small as can be."""
    layout = KVLayout((Part("record", 1, torch.uint8),))
    groups = [[group] for group in range(trace.groups)]
    pages = -(-trace.positions // MAX_PAGE)
    return Limits(
        spec=ModelSpec.uniform("trace", trace.top_k, groups, layout),
        device=torch.device("cpu"),
        lanes=trace.lanes,
        max_tokens=trace.positions,
        queries=trace.queries,
        page=MAX_PAGE,
        pages=pages * trace.lanes,
        slots=(slots,) * trace.groups,
    )


def _batch(trace: Trace, limits: Limits) -> Batch:
    """Make a batch of all lanes, every position mapped."""

    def buffer(*size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.int32)

    lanes, pages = trace.lanes, limits.lane_pages
    return Batch(
        key=0, first_row=0, queries=trace.queries, page=limits.page, lanes=buffer(lanes),
        kv_len=buffer(lanes), q_len=buffer(lanes), stable=buffer(lanes),
        block_table=torch.arange(pages, dtype=torch.int32).repeat(lanes, 1),
        rows=buffer(lanes, trace.queries),
    )  # fmt: skip
