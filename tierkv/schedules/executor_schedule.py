"""A worker thread in Python."""

from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.schedules.schedule import Schedule
from tierkv.types import Placement, Plan


class ExecutorSchedule(Schedule):
    """What the native worker does, for reference operators and for policies written in Python.

    It gives the same order and the same bytes; handing a job over costs about 80 microseconds.
    """

    background = True

    def __init__(self, ops: Ops, limits: Limits, depth: int) -> None:
        self._install = ops.install
        self._depth = depth
        self._owners = {group.owner: number for number, group in enumerate(limits.spec.groups)}
        self._thread = ThreadPoolExecutor(1, "tierkv-worker")
        self._last: dict[Hashable, Future[None]] = {}
        self._placing: Policy | None = None

    def place(self, policy: Policy, plan: Plan) -> Placement:
        self._placing = policy
        return policy.placement(plan)

    def copy(
        self, placement: Placement, layer: int, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        policy, self._placing = self._placing, None
        job = self._thread.submit(self._run, policy, placement, rows, pool)
        self._last["buffer", layer % self._depth] = job
        self._last["group", placement.plan.group] = job

    def _run(
        self, policy: Policy | None, placement: Placement, rows: list[Tensor], pool: list[Tensor]
    ) -> None:
        plan = placement.plan
        if policy is not None:
            policy.place(plan)
        self._install(plan.batch.lanes, plan.miss_from, plan.miss_count, placement.slot, rows, pool)

    def fence(self, layer: int) -> None:
        self._finish("buffer", layer % self._depth)
        if layer in self._owners:
            self._finish("group", self._owners[layer])

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        self._placing = None
        jobs = list(self._last.values())
        self._last.clear()
        wait(jobs)  # all of them, before the first that failed speaks
        for job in jobs:
            job.result()

    def _finish(self, kind: str, number: int) -> None:
        job = self._last.pop((kind, number), None)
        if job is not None:
            job.result()
