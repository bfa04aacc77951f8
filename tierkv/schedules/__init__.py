"""When placements and copies run: ``inline`` or on a ``worker``."""

import logging
import os

from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.schedules.executor_schedule import ExecutorSchedule
from tierkv.schedules.inline_schedule import InlineSchedule
from tierkv.schedules.schedule import Schedule
from tierkv.schedules.worker_schedule import WorkerSchedule
from tierkv.site import Site

__all__ = ["NAMES", "InlineSchedule", "Schedule", "make_schedule"]

NAMES = ("inline", "worker")

log = logging.getLogger("tierkv")


def make_schedule(name: str, site: Site, depth: int) -> Schedule:
    """Make the schedule `name` for a server with `depth` selection buffers.

    ``worker`` is a C++ thread where operators and policies are compiled, else one in Python. With
    one CPU there is nothing to win, and it becomes ``inline``.
    """
    ops, limits = site.ops, site.limits
    if name == "worker" and len(os.sched_getaffinity(0)) < 2:
        log.warning("tierkv: installer.schedule worker becomes inline, there is only one CPU")
        name = "inline"
    if name == "inline":
        return InlineSchedule(ops)
    compiled = (isinstance(p, OperatorPolicy) and p.compiled for p in site.policies)
    if ops.start_worker is None or not all(compiled):
        return ExecutorSchedule(ops, limits, depth)
    ops.start_worker()
    return WorkerSchedule(ops, limits, depth)
