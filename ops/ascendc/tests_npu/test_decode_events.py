"""Every mark and every wait of the side stream, left out in turn, spoils a decode on the device."""

import sys
from dataclasses import replace

import torch
from decoding import equals_reference, make
from hostsim.npu.device import Order, order
from tierkv_ascendc.side_stream import npu_streams

from tierkv.schedules.side_stream_schedule import SideStreamSchedule

STEPS = 14
FIRST = "_event"
"""Marks of this method are made before the first step: torch makes the device's event then."""


class Event:
    """An event of the device that leaves out what is done at one place of the schedule."""

    sites: set[tuple[str, int]] = set()  # noqa: RUF012
    without: tuple[str, int] | None = None

    def __init__(self):
        self.event = torch.npu.Event()

    def record(self, stream):
        self._at("record") and self.event.record(stream)

    def wait(self, stream):
        self._at("wait") and self.event.wait(stream)

    @classmethod
    def _at(cls, what):
        """Whether it is to be done: named by the line of the schedule's public method."""
        frame = sys._getframe(2)
        if frame.f_code.co_name == FIRST:
            return True
        while frame.f_code.co_name.startswith("_"):
            frame = frame.f_back
        site = f"{frame.f_code.co_name} {what}", frame.f_lineno
        cls.sites.add(site)
        return site != cls.without


def drive(runtime, chosen):
    """Drive a cache whose side stream has these events."""
    with make(queries=1) as cache, order(runtime, chosen):
        site, depth = cache.site, cache.server.depth
        streams = replace(npu_streams(cache.limits.device), event=Event)
        cache.installer._schedule = SideStreamSchedule(site.ops, site.limits, depth, streams)
        try:
            equals_reference(cache, 1, count=STEPS)
        finally:
            torch.npu.synchronize()


def test_every_mark_and_wait_is_needed(kernels, runtime):
    Event.without = None
    for chosen in Order:
        drive(runtime, chosen)
    sites = sorted(Event.sites)
    # The other wait of fence, for a group, is for steps that are open together: `begin` has waited
    # here. tests/schedules leaves it out with two steppers.
    assert [name for name, _ in sites] == [
        "copy record", "copy record", "copy wait", "drain record", "drain wait",
        "fence wait", "place record", "place wait",
    ]  # fmt: skip
    for site in sites:
        Event.without = site
        failed = []
        for chosen in (Order.LATE_SIDE, Order.LATE_MAIN):
            try:
                drive(runtime, chosen)
            except (AssertionError, IndexError, RuntimeError) as error:
                failed.append(error)
                break
        assert failed, f"nobody misses {site}"
    Event.without = None
