"""What goes wrong, and what must not come of it: cases 13, 14 and 19."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tierkv.errors import CapacityError, ConfigError, TierError
from tierkv.interfaces import SupportsView
from tierkv.testing.assemble import device_parts
from tierkv.testing.conformance.cases import SHAPE, case, query
from tierkv.testing.delays import Delayed
from tierkv.testing.driver import Driver
from tierkv.testing.flaky_tier import InjectedFault
from tierkv.testing.harness import Interrupted
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.subject import Subject
from tierkv.testing.traffic import Traffic

POINTS = [
    "store.append", "planner.plan", "server.serve", "installer.fence", "installer.commit",
    "installer.install", "site.backing.write", "site.backing.read",
]  # fmt: skip


class Attention(Exception):  # noqa: N818 - nobody's error
    """What a model raises in the middle of its step."""


@contextmanager
def failing(driver: Driver, point: str, after: int, late: bool) -> Iterator[Callable[[], bool]]:
    """Let call number `after` of a component raise, before or after it did its work."""
    *path, method = point.split(".")
    component: Any = driver.cache
    for name in path:
        component = getattr(component, name)
    call, calls = getattr(component, method), 0

    def fail(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after + 1 and not late:
            raise Interrupted
        result = call(*arguments)
        if calls == after + 1:
            raise Interrupted
        return result

    setattr(component, method, fail)
    try:
        yield lambda: calls > after
    finally:
        setattr(component, method, call)


def unmodelled(subject: Subject) -> Driver:
    """Make a driver whose model takes the tables as they are: who knows what a failure kept."""
    driver = subject.driver(SHAPE)
    driver.mirror.residency = [[] for _ in driver.spec.groups]
    return driver


class TestFailures:
    """Steps, tiers and memory that fail."""

    @pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("point", POINTS)
    @case(13)
    def test_case_13_a_step_that_raises_anywhere(
        self, subject: Subject, point: str, late: bool
    ) -> None:
        for after in range(4):
            driver = unmodelled(subject)
            with driver.cache as cache:
                lanes = [driver.admit(name, 44) for name in range(3)]
                ids = [[query(*range(lane, lane + 30, 5))] * 4 for lane in lanes]
                driver.step([Row(lane, 45, 1, 44) for lane in lanes], ids)
                driver.check()
                before = [residents(policy)[lanes[2]] for policy in cache.site.policies]
                again = [Row(lane, 47, 2, 44) for lane in lanes[:2]]
                other = [[query(40, 30, 20, 10, 44, 45)] * 4] * 2
                with failing(driver, point, after, late) as reached:
                    whole = driver.step(again, other)
                    assert not (whole and reached()), f"{point} raised, but the step did not"
                driver.mirror.recount()
                driver.check()
                warm = [residents(policy)[lanes[2]] for policy in cache.site.policies]
                assert warm == before, "a lane outside the step has lost its residency"
                cache.installer.drain()
                driver.step([*again, Row(lanes[2], 46, 1, 45)], [*other, ids[2]])
                driver.check()

    @pytest.mark.parametrize("layer", range(3))
    @case(13)
    def test_case_13_an_exception_in_attention(self, subject: Subject, layer: int) -> None:
        with subject.open(SHAPE) as driver:
            lanes = [driver.admit(name, 40) for name in range(2)]
            rows, ids = [Row(lane, 41, 1, 40) for lane in lanes], [[query(1, 2, 3)]] * 2
            driver.step(rows, ids)
            rows = [Row(lane, 42, 1, 41) for lane in lanes]

            def attention() -> None:
                raise Attention

            driver.during = attention
            with pytest.raises(Attention):
                driver.step(rows[:1], {0: ids[:1]} if layer == 0 else {1: ids[:1]})
            driver.mirror.recount()
            for group in (0,) if layer == 0 else (1,):
                driver.mirror.forget(group, lanes[0])
            driver.check()
            driver.step(rows[:1], ids[:1], (layer, "select"))
            driver.check()
            driver.step(rows, ids)
            driver.check()

    @pytest.mark.parametrize("seed", range(3))
    @case(14)
    def test_case_14_delays_change_nothing(self, subject: Subject, seed: int) -> None:
        with subject.open(SHAPE, watched=False) as driver:
            driver.watched = driver.tabled and not driver.mirror.residency[0]
            Delayed(driver.cache, seed)
            traffic = Traffic(driver, subject.shape(SHAPE), seed)
            traffic.run(40)
            driver.watched = True
            driver.check()

    @case(19)
    def test_case_19_no_room(self, subject: Subject) -> None:
        for shape in (replace(SHAPE, pages=2**36, lanes=2**30), replace(SHAPE, slots=2**24)):
            with pytest.raises((CapacityError, ConfigError), match=r"lanes|capacity|slots|tokens"):
                subject.build(replace(shape, max_tokens=2**26)).close()

    @case(19)
    def test_case_19_a_prefill_that_cannot_be_written(self, subject: Subject) -> None:
        if subject.external:
            pytest.skip("the engine writes")
        with subject.open(SHAPE) as driver:
            lanes = [driver.admit(name, 40) for name in range(2)]
            rows, ids = [Row(lane, 41, 1, 40) for lane in lanes], [[query(1, 2, 39)]] * 2
            driver.step(rows, ids)
            layout, driver.tier.armed = driver.spec.layouts[0], "write"
            records = torch.zeros((20, layout.stride), dtype=torch.uint8)
            parts = {**layout.views(records), **device_parts(layout, records)}
            with pytest.raises(TierError, match=r"write of layer 0"):
                self._prefill(driver, parts)
            assert driver.cache.length(0) <= 41, "what was not written is counted"
            driver.prefill(0, [40, 41], 60)
            driver.step([Row(lanes[1], 42, 1, 41), Row(lanes[0], 61, 1, 60)], ids)
            driver.check()

    def _prefill(self, driver: Driver, parts: dict[str, Tensor]) -> None:
        driver.cache.prefill(0, 0, parts, start=40)
        driver.cache.settle()

    @pytest.mark.parametrize("layer", range(3))
    @case(19)
    def test_case_19_part_of_a_batch_cannot_be_read(self, subject: Subject, layer: int) -> None:
        driver = unmodelled(subject)
        with driver.cache as cache:
            if isinstance(cache.site.backing, SupportsView):
                pytest.skip("kernels address this tier themselves: it has no reads to fail")
            lanes = [driver.admit(name, 40) for name in range(3)]
            driver.step([Row(n, 41, 1, 40) for n in lanes], [[query(1, 2, 3, 4)]] * 3)
            warm = [residents(policy)[lanes[2]] for policy in cache.site.policies]
            bad = int(cache.paging.rows(lanes[1], 33, 34)[0])
            read = cache.site.backing.read

            def fail(at: int, rows: Tensor, out: Tensor) -> Any:
                if at == layer and bad in rows.tolist():
                    raise InjectedFault(f"layer {at}, rows [{bad}] cannot be read")
                return read(at, rows, out)

            cache.site.backing.read = fail  # type: ignore[assignment, method-assign]
            rows = [Row(lane, 42, 1, 41) for lane in lanes[:2]]
            ids = [[query(7, 8, 9, 10)], [query(31, 32, 33, 34)]]
            assert not driver.step(rows, ids), "a read failed, but the step did not"
            driver.check()
            for group in range(2 if layer else 1):
                tables = residents(cache.site.policies[group])
                assert tables[lanes[0]] == tables[lanes[1]] == {}, "something was installed"
            assert [residents(policy)[lanes[2]] for policy in cache.site.policies] == warm
            cache.site.backing.read = read  # type: ignore[method-assign]
            driver.step([*rows, Row(lanes[2], 42, 1, 41)], [*ids, [query(1, 2, 3, 4)]])
            driver.check()

    @case(19)
    def test_case_19_a_page_that_cannot_be_copied(self, subject: Subject) -> None:
        if subject.external:
            pytest.skip("the engine copies")
        for verb in ("read", "write"):
            with subject.open(SHAPE) as driver:
                lane = driver.admit("source", 40)
                driver.fork("source", "copy")
                before, driver.tier.armed = driver.cache.stats().pages_used, verb
                with pytest.raises(TierError, match=f"{verb} of layer 0"):
                    driver.cache.step([lane], [41])
                assert driver.cache.stats().pages_used == before, "a failed copy has kept pages"
                driver.step([Row(lane, 41, 1, 40)], [[query(1, 2, 33, 39)]])
                for name in ("source", "copy"):
                    driver.read(name, 0, 0, 40)
                driver.check()

    @case(19)
    def test_case_19_a_warm_start_that_fails(self, subject: Subject) -> None:
        driver = unmodelled(subject)
        with driver.cache as cache:
            if isinstance(cache.site.backing, SupportsView):
                pytest.skip("kernels address this tier themselves: it has no reads to fail")
            lane = driver.admit("request", 40)
            with failing(driver, "site.backing.read", 1, late=False), pytest.raises(Interrupted):
                cache.warm("request", 1, driver.positions([query(1, 2, 3)]))
            driver.check()
            driver.step([Row(lane, 41, 1, 40)], [[query(1, 2, 3, 4)]])
            driver.check()
