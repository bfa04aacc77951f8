"""One stream beside the caller's."""

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.schedules.schedule import Schedule
from tierkv.schedules.streams import Streams, torch_streams
from tierkv.types import Placement, Plan


class SideStreamSchedule(Schedule):
    """Places and copies on one stream of the cache's own, while attention runs on the current one.

    The host waits for nothing and makes nothing in a step: events were made before, one a group
    and two a layer, so that none marks two places of a step. An event is waited for only while
    what it marks is pending. So a step that is captured into a graph waits for nothing outside of
    it, and leaves nothing behind once it is drained, see :meth:`tierkv.step.Step.join`.

    Every tensor that the work names belongs to the cache, which synchronises the device before it
    gives one back. What an operator allocates for itself there, torch keeps for this stream.
    """

    def __init__(
        self, ops: Ops, limits: Limits, depth: int, streams: Streams | None = None
    ) -> None:
        streams = streams or torch_streams(limits.device)
        groups, layers = limits.spec.groups, range(len(limits.spec.layouts))
        self._install, self._depth = ops.install, depth
        self._owners = {group.owner: number for number, group in enumerate(groups)}
        self._current, self._on, self._side = streams.current, streams.on, streams.stream()
        self._planned = [self._event(streams) for _ in groups]
        self._served = [self._event(streams) for _ in layers]
        self._copied = [self._event(streams) for _ in layers]
        self._drained = self._event(streams)
        self._last: dict[Hashable, Any] = {}
        """Buffer or group -> the event behind its last copy, while nobody has waited for it."""
        self._pending = False

    def _event(self, streams: Streams) -> Any:
        event = streams.event()
        event.record(self._side)  # torch makes the device's own at the first record
        return event

    def place(self, policy: Policy, plan: Plan) -> Placement:
        planned = self._planned[plan.group]
        self._mark(planned)
        with self._on(self._side):
            planned.wait(self._side)  # it reads the plan, and writes what planning read
            return policy.place(plan)

    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        plan, served, copied = placement.plan, self._served[layer], self._copied[layer]
        self._mark(served)
        with self._on(self._side):
            served.wait(self._side)  # it reads what serve wrote, and writes what serve read
            self._install(
                plan.batch.lanes, plan.miss_from, plan.miss_count, placement.slot, rows, pool
            )
            copied.record(self._side)
        self._last["buffer", layer % self._depth] = self._last["group", plan.group] = copied

    def fence(self, layer: int) -> None:
        # Copies come in one order. So the last one out of this layer's buffer is the layer's own
        # last, whose pool will be read, or comes behind it; and the last one of a group comes
        # behind its placement, whose tables will be read, and behind all readers of its plan.
        self._wait("buffer", layer % self._depth)
        if layer in self._owners:
            self._wait("group", self._owners[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        if self._pending:
            with self._on(self._side):
                self._drained.record(self._side)  # behind a placement without a copy, too
            self._drained.wait(self._current())  # the batch and the tables are about to be written
        self._pending = False
        self._last.clear()

    def _mark(self, event: Any) -> None:
        """Mark what was launched so far; the side stream is about to wait for it.

        It does so within its own context: there a compiler looks for what protects its work.
        """
        self._pending = True
        event.record(self._current())

    def _wait(self, kind: str, number: int) -> None:
        event = self._last.pop((kind, number), None)
        if event is not None:
            event.wait(self._current())
