"""What is selected and served: cases 1 to 4, 8, 9, 16 and 17."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tierkv.errors import CapacityError, ConfigError
from tierkv.layout import KVLayout, Part
from tierkv.testing.assemble import Shape
from tierkv.testing.conformance.cases import SHAPE, case, query
from tierkv.testing.driver import Driver
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.subject import Subject

WIDE = KVLayout((Part("wide", 2**18, torch.float32),))
"""1 MiB a record."""


def steps(driver: Driver, lane: int, start: int, selections: Sequence[list[int]]) -> None:
    """Step one lane a token at a time."""
    for at, ids in enumerate(selections, start + 1):
        driver.step([Row(lane, at, 1, at - 1)], [[ids]])
        driver.check()


class TestSelections:
    """One request, selections of every kind."""

    @pytest.mark.parametrize("top_k", [1, 31, 32, 33, 63, 64, 65, 128, 2048])
    @case(1)
    def test_case_01_lengths_around_top_k_and_pool(self, subject: Subject, top_k: int) -> None:
        shape = Shape(
            lanes=1, queries=4, top_k=top_k, max_tokens=top_k + 192, page=64, slots=top_k,
            pages=-(-(top_k + 192) // 64), groups=((0, 1),),
        )  # fmt: skip
        with subject.open(shape) as driver:
            slots = driver.cache.limits.slots[0]
            for kv_len in sorted({0, 1, top_k - 1, top_k, top_k + 1, slots, slots + 1}):
                if kv_len + 1 > shape.max_tokens:
                    continue
                lane = driver.admit("request", max(kv_len - 1, 0))
                ids = [[list(range(top_k))[::-1]]]
                driver.step([Row(lane, kv_len, 1, max(kv_len - 1, 0))], ids)
                driver.step([Row(lane, kv_len + 1, 1, kv_len)], ids)
                driver.check()
                driver.release("request")

    @case(1)
    def test_case_01_fewer_tokens_than_queries(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request")
            driver.step([Row(lane, 2, 4, 0)], [[query(0, 1, 2, 3)] * 4])
            driver.step([Row(lane, 4, 2, 2)], [[query(3, 2, 1, 0)] * 4])
            driver.check()

    @case(2)
    def test_case_02_all_misses_then_other_selections(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 80)
            steps(driver, lane, 80, [[6 * n + k for k in range(6)] for n in range(12)])

    @case(2)
    def test_case_02_the_same_selection_is_a_fixed_point(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 80)
            steps(driver, lane, 80, [query(9, 2, 33, 41, 7)])
            for at in range(81, 86):
                before = [residents(policy) for policy in driver.cache.site.policies]
                counted = driver.cache.stats().groups
                steps(driver, lane, at, [query(9, 2, 33, 41, 7)])
                for then, now in zip(counted, driver.cache.stats().groups, strict=True):
                    if now.misses == then.misses:
                        assert now.fetched == then.fetched, "all hits, but records were fetched"
                        assert now.installs == then.installs, "all hits, but one was installed"
                        assert [residents(p) for p in driver.cache.site.policies] == before

    @case(3)
    def test_case_03_minus_one_anywhere(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 40)
            steps(driver, lane, 40, [
                [-1, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, -1], [1, -1, 2, -1, 3, 4], [-1] * 6,
                [5, 7, -1, -1, -1, -1], [5, 7, -1, -1, -1, -1], [-1, 11, -1, -1, -1, -1],
                [-1, -1, 11, -1, 12, -1], [-7, 2**31 - 1, -(2**31), 95, 50, 3],
            ])  # fmt: skip

    @case(3)
    def test_case_03_padding_behind_residents_is_no_miss(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 40)
            steps(driver, lane, 40, [query(5, 7)])
            resident = set(residents(driver.cache.site.policies[0])[lane].values())
            before = driver.cache.stats().groups[0].misses
            steps(driver, lane, 41, [query(5, 7)])
            if driver.tabled and resident >= {5, 7}:
                assert driver.cache.stats().groups[0].misses == before, "-1 counted as a miss"

    @case(4)
    def test_case_04_an_id_that_stands_twice(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 40)
            steps(driver, lane, 40, [query(5, 5, 7, 9), query(9, 5, 9, 5, 9, 5), query(3, 3, 3)])
            counted = driver.cache.stats().groups[0]
            assert counted.installs <= counted.unique_misses

    @pytest.mark.parametrize("power", range(7))
    @case(8)
    def test_case_08_strides_of_two_to_the_n(self, subject: Subject, power: int) -> None:
        shape = replace(SHAPE, top_k=32, max_tokens=2048, page=64, lanes=1, pages=32, slots=32)
        with subject.open(shape) as driver:
            lane = driver.admit("request", 2040)
            for shift in (0, 0, 1, 0):
                ids = [(n + shift) << power for n in range(32)]
                steps(driver, lane, max(driver.requests["request"].length), [ids])

    @case(9)
    def test_case_09_followers_are_served_before_hits_are_overwritten(
        self, subject: Subject
    ) -> None:
        shape = replace(SHAPE, slots=6, groups=((0, 1, 2, 3),))
        with subject.open(shape) as driver:
            lane = driver.admit("request", 60)
            firsts = (0, 3, 1, 5, 0, 2, 1)
            steps(driver, lane, 60, [list(range(first, first + 6)) for first in firsts])

    @pytest.mark.parametrize("slots", [1, 2, 6])
    @case(16)
    def test_case_16_a_pool_smaller_than_a_step(self, subject: Subject, slots: int) -> None:
        with subject.open(replace(SHAPE, slots=slots)) as driver:
            lane = driver.admit("request", 60)
            for step in range(5):
                ids = [[[n + step, 2 * n, 59 - n, 5, n, 7 * n] for n in range(4)]]
                driver.step([Row(lane, 64 + 4 * step, 4, 60 + 4 * step)], ids)
                driver.check()

    @case(16)
    def test_case_16_no_slots_are_refused(self, subject: Subject) -> None:
        with pytest.raises(ConfigError, match=r"slots"):
            subject.build(replace(SHAPE, slots=0))

    @case(17)
    def test_case_17_byte_offsets_past_two_gibibytes(self, subject: Subject) -> None:
        """The first lane holds the pages before them and writes none."""
        shape = Shape(
            lanes=2, queries=1, top_k=2, max_tokens=2176, page=128, pages=18, slots=2,
            groups=((0,),), layout=WIDE,
        )  # fmt: skip
        if subject.external:
            pytest.skip("the engine's memory is its own")
        try:
            opened = subject.driver(shape, watched=False)
        except (CapacityError, ConfigError) as refused:
            pytest.skip(f"no room for it here: {refused}")
        with opened.cache as cache:
            opened.admit("far", reserve=2176)
            lane = opened.admit("request", 6)
            first = int(cache.paging.rows(lane, 0, 1)[0])
            assert first * WIDE.stride > 2**31
            for at in (7, 8, 9):
                opened.step([Row(lane, at, 1, at - 1)], [[[1, 4]]])
