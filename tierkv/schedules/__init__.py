"""When placements and copies run: ``inline`` or on a ``worker``."""

import logging
import os
from collections.abc import Sequence

from tierkv.interfaces.policy import Policy
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.schedules.executor_schedule import ExecutorSchedule
from tierkv.schedules.inline_schedule import InlineSchedule
from tierkv.schedules.schedule import Schedule
from tierkv.schedules.worker_schedule import WorkerSchedule

__all__ = ["NAMES", "Schedule", "make_schedule"]

NAMES = ("inline", "worker")

log = logging.getLogger("tierkv")


def make_schedule(
    name: str, ops: Ops, limits: Limits, policies: Sequence[Policy], depth: int
) -> Schedule:
    """Make the schedule `name` for a server with `depth` selection buffers.

    ``worker`` is a C++ thread where operators and policies are compiled, else one in Python. With
    one CPU there is nothing to win, and it becomes ``inline``.
    """
    if name == "worker" and len(os.sched_getaffinity(0)) < 2:
        log.warning("tierkv: installer.schedule worker becomes inline, there is only one CPU")
        name = "inline"
    if name == "inline":
        return InlineSchedule(ops)
    if ops.start_worker and all(
        isinstance(policy, OperatorPolicy) and policy.compiled for policy in policies
    ):
        ops.start_worker()
        return WorkerSchedule(ops, limits, depth)
    return ExecutorSchedule(ops, limits, depth)
