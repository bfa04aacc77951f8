"""When placements and copies run: ``inline``, on a ``worker``, or on a ``side-stream``."""

import logging
import os

import torch

from tierkv.errors import ConfigError, say
from tierkv.policies.operator_policy import OperatorPolicy
from tierkv.schedules.executor_schedule import ExecutorSchedule
from tierkv.schedules.inline_schedule import InlineSchedule
from tierkv.schedules.schedule import Schedule
from tierkv.schedules.side_stream_schedule import SideStreamSchedule
from tierkv.schedules.worker_schedule import WorkerSchedule
from tierkv.site import Site

__all__ = ["NAMES", "InlineSchedule", "Schedule", "check_device", "make_schedule"]

NAMES = ("inline", "worker", "side-stream")

log = logging.getLogger("tierkv")


def check_device(name: str, device: torch.device) -> None:
    """Raise ConfigError if the schedule `name` is not for caches on `device`."""
    other = "side-stream" if device.type == "cpu" else "worker"
    if name == other:
        why = "needs a device with streams" if other == "side-stream" else "is a thread for cpu"
        known = [known for known in NAMES if known != other]
        wrong = f"{other} {why}, device is {device.type}"
        raise ConfigError(say("installer.schedule", wrong, known=known))


def make_schedule(name: str, site: Site, depth: int) -> Schedule:
    """Make the schedule `name` for a server with `depth` selection buffers.

    ``worker`` is a C++ thread where operators and policies are compiled, else one in Python. With
    one CPU there is nothing to win, and it becomes ``inline``. ``side-stream`` is the operators'
    own, or torch's streams.
    """
    ops, limits = site.ops, site.limits
    if name == "side-stream":
        return ops.make_side_stream(site, depth) or SideStreamSchedule(ops, limits, depth)
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
