"""Streams and events; a missing wait shows in a late order and only there."""

import pytest
import torch
from hostsim.npu.device import Order, order

NPU = "npu:0"


def _overlap(runtime, chosen, *, main_waits=True, side_waits=True):
    """Twice `x` computed beside the main stream: (result, `x` afterwards)."""
    main, side = torch.npu.current_stream(), torch.npu.Stream()
    x, out = torch.ones(4, device=NPU), torch.zeros(4, device=NPU)
    twice = torch.zeros(4, device=NPU)
    with order(runtime, chosen):
        x.fill_(3)
        if side_waits:
            side.wait_stream(main)
        with torch.npu.stream(side):
            torch.mul(x, 2, out=twice)
        if main_waits:
            main.wait_stream(side)
        out.copy_(twice)
        x.fill_(7)
    return out[0].item()


@pytest.mark.parametrize("chosen", list(Order))
def test_waits_make_every_order_right(runtime, chosen):
    assert _overlap(runtime, chosen) == 6


@pytest.mark.parametrize("chosen", [Order.LATE_SIDE, Order.LATE])
def test_main_stream_without_its_wait(runtime, chosen):
    assert _overlap(runtime, chosen, main_waits=False) != 6


def test_side_stream_without_its_wait(runtime):
    assert _overlap(runtime, Order.LATE_MAIN, side_waits=False) == 2


def test_eager_order_shows_nothing(runtime):
    assert _overlap(runtime, Order.EAGER, main_waits=False, side_waits=False) == 6


def test_side_work_is_late(runtime):
    side = torch.npu.Stream()
    with order(runtime, Order.LATE_SIDE):
        with torch.npu.stream(side):
            x = torch.ones(4, device=NPU)
            event = side.record_event()
        assert not event.query()
        assert not side.query()
        assert runtime.hostnpu_pending() > 0
        event.synchronize()
        assert event.query()
        assert side.query()
        assert x.tolist() == [1, 1, 1, 1]


def test_who_polls_makes_progress(runtime):
    side = torch.npu.Stream()
    with order(runtime, Order.LATE_SIDE):
        with torch.npu.stream(side):
            torch.ones(4, device=NPU)
            event = side.record_event()
        polls = 0
        while not event.query():
            polls += 1
        assert 100 < polls < 10000


def test_a_wait_takes_the_mark_of_its_time(runtime):
    """What is recorded after a wait does not count for it."""
    side, x = torch.npu.Stream(), torch.zeros(1, device=NPU)
    event = torch.npu.Event()
    with order(runtime, Order.LATE_SIDE):
        with torch.npu.stream(side):
            x.fill_(1)
            event.record()
        torch.npu.current_stream().wait_event(event)
        with torch.npu.stream(side):
            x.fill_(2)
            event.record()
        seen = x.clone()
        assert seen.item() == 1
    assert x.item() == 2


def test_events_measure_time(runtime):
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.rand(200, 200, device=NPU) @ torch.rand(200, 200, device=NPU)
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 10000


def test_copies_from_pinned_memory_are_queued(runtime):
    side, host = torch.npu.Stream(), torch.full((4,), 5.0).pin_memory()
    with order(runtime, Order.LATE_SIDE):
        with torch.npu.stream(side):
            there = host.to(NPU, non_blocking=True)
        host.fill_(6)  # too early: the copy has not read it
        torch.npu.current_stream().wait_stream(side)
        assert there.tolist() == [6, 6, 6, 6]


def test_record_stream_keeps_memory(runtime):
    """A block that a side stream still uses is not given to the next tensor."""
    side = torch.npu.Stream()
    for recorded in (True, False):
        x = torch.ones(1 << 20, device=NPU)
        with order(runtime, Order.LATE_SIDE):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                total = x.sum()
            if recorded:
                x.record_stream(side)
            address = x.data_ptr()
            del x
            other = torch.zeros(1 << 20, device=NPU)
            assert (other.data_ptr() == address) != recorded
        assert total.item() == (1 << 20 if recorded else 0)
