"""Drafts, batches and lanes: cases 5 to 7, 10 to 12, 18 and 21."""

import gc
import sys
from dataclasses import replace

import pytest

from tierkv.errors import StateError
from tierkv.testing.conformance.cases import SHAPE, case, query
from tierkv.testing.model import Row
from tierkv.testing.subject import Subject
from tierkv.testing.workload import PADDING


class TestDrafts:
    """Speculative decoding."""

    @case(5)
    def test_case_05_queries_that_miss_the_same_id(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 40)
            driver.step([Row(lane, 44, 4, 40)], [[query(3, 7, 42), *[query(7, 3, 40, 9)] * 3]])
            driver.check()
            if driver.tabled:
                counted = driver.cache.stats().groups[0]
                assert (counted.misses, counted.unique_misses) == (11, 3)
            driver.step([Row(lane, 48, 4, 44)], [[query(9, 3, 7)] * 4])
            driver.check()

    @pytest.mark.parametrize("accepted", [0, 1, 2, 3])
    @case(5)
    def test_case_05_rejected_drafts_are_written_again(
        self, subject: Subject, accepted: int
    ) -> None:
        with subject.open(SHAPE) as driver:
            lane, ids = driver.admit("request", 40), query(0, 40, 41, 42, 43, 39)
            driver.step([Row(lane, 44, 4, 40)], [[ids] * 4])
            kv_len = 45 + accepted
            driver.step([Row(lane, kv_len, 4, kv_len - 4)], [[ids] * 4])
            driver.check()
            for at in range(kv_len + 1, kv_len + 6):
                driver.step([Row(lane, at, 1, at - 1)], [[query(44, 43, 42, 41, 40, 0)]])
                driver.check()

    @case(6)
    def test_case_06_ragged_query_counts(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lanes = [driver.admit(name, 40) for name in range(4)]
            for round in range(4):
                counts = [(round + lane) % 4 + 1 for lane in range(4)]
                lengths = [max(driver.requests[name].length) for name in range(4)]
                rows = [Row(lanes[n], lengths[n] + counts[n], counts[n], lengths[n]) for n in lanes]
                ids = [[query(3 * n, n, 40, 41, 9, 20 + q) for q in range(4)] for n in range(4)]
                driver.step(rows, ids)
                driver.check()
                for name in range(4):
                    for layer in range(3):
                        driver.read(name, layer, 0, max(driver.requests[name].length))

    @pytest.mark.parametrize("accepted", [0, 1, 2, 3])
    @case(7)
    def test_case_07_a_draft_group_stepped_token_by_token(
        self, subject: Subject, accepted: int
    ) -> None:
        with subject.open(SHAPE) as driver:
            lane, ids = driver.admit("request", 40), query(40, 41, 42, 39, 3, 38)
            for kv_len in (41, 42, 43):
                driver.step([Row(lane, kv_len, 1, 40)], {1: [[ids]]})
                driver.check()
            for kv_len in range(41 + accepted, 47):
                driver.step([Row(lane, kv_len, 1, kv_len - 1)], {1: [[ids]]})
                driver.check()

    @case(21)
    def test_case_21_a_selection_is_used_again_where_that_is_exact(self, subject: Subject) -> None:
        with subject.open(replace(SHAPE, groups=((0,), (1,)))) as driver:
            lanes, ids = [driver.admit(name, 40) for name in range(2)], [[query(1, 2, 3)]] * 2
            driver.reusing = driver.told = True  # bounds may not show that it is exact
            driver.step([Row(lane, 41, 1, 40) for lane in lanes], ids)
            for at in (42, 43):
                driver.step([Row(lane, at, 1, 40) for lane in lanes], ids)
            assert driver.reused == 4, "nothing has changed, yet a selection was refused"
            driver.step([Row(lane, 43, 1, 42) for lane in lanes], ids)
            driver.check()

    @pytest.mark.parametrize("what", ["rewrite", "truncate", "swap", "failure", "again"])
    @case(21)
    def test_case_21_reuse_is_refused_after_a_change(self, subject: Subject, what: str) -> None:
        with subject.open(replace(SHAPE, groups=((0,),))) as driver:
            lanes, ids = [driver.admit(name, 40) for name in range(2)], [[query(1, 2, 43)] * 4] * 2
            rows = [Row(lane, 44, 4, 40) for lane in lanes]
            driver.step(rows, ids)
            rows = [Row(lane, 45, 1, 44) for lane in lanes]
            if what == "rewrite":
                driver.step([Row(lane, 44, 4, 40) for lane in lanes], [[query(4)] * 4] * 2)
                rows = [Row(lane, 44, 4, 40) for lane in lanes]
            elif what == "truncate":
                driver.truncate(0, 43)
                driver.prefill(0, [43], 44)
            elif what == "swap":
                rows = rows[::-1]
            elif what == "failure":
                driver.step(rows, [[query(4)] * 4] * 2, (0, "append"))
            else:
                driver.release(0)
                driver.admit(0, 44)
            before, driver.reusing = driver.reused, True
            driver.step(rows, ids)
            assert driver.reused == before or what == "failure", f"used again after {what}"
            driver.check()

    @pytest.mark.parametrize("between", ["warm", "warm other", "wider", "failure"])
    @case(21)
    def test_case_21_what_is_served_in_between(self, subject: Subject, between: str) -> None:
        """It may use the selection's buffers; refused or equal, nothing else."""
        if subject.external and between.startswith("warm"):
            pytest.skip("records are the engine's")
        with subject.open(replace(SHAPE, groups=((0,), (1,)))) as driver:
            lanes = [driver.admit(name, 40) for name in range(3)]
            rows, ids = [Row(lanes[0], 41, 1, 40)], [[query(1, 2, 3)]]
            driver.step(rows, ids)
            pair = [Row(lane, 41, 1, 40) for lane in lanes[1:]]
            driver.step(pair, [[query(4, 5)]] * 2)
            at = 41
            if between == "wider":
                driver.step([Row(lane, 42, 1, 41) for lane in lanes], [[query(9, 10)]] * 3)
                at = 42
            elif between == "failure":
                driver.tier.armed = "read"
                driver.step([Row(lanes[0], 42, 1, 41)], [[query(7, 8, 9)]], (1, "select"))
            else:
                driver.warm(0 if between == "warm" else 1, 1, [query(7, 8, 9)])
            driver.tier.armed, driver.reusing = "", True
            driver.step([Row(lanes[0], at + 1, 1, at)], ids)
            driver.step([Row(lane, at + 1, 1, at) for lane in lanes[1:]], [[query(4, 5)]] * 2)
            driver.check()


class TestLanes:
    """Who is where."""

    @case(10)
    def test_case_10_a_lane_used_again(self, subject: Subject) -> None:
        """The two names collide under CRC-32."""
        with subject.open(SHAPE) as driver:
            lane = driver.admit("plumless", 40)
            driver.step([Row(lane, 41, 1, 40)], [[query(3, 1, 4, 15, 9, 2)]])
            driver.release("plumless")
            again = driver.admit("buckeroo", 40)
            driver.step([Row(again, 41, 1, 40)], [[query(3, 1, 4, 15, 9, 2)]])
            driver.check()

    @case(10)
    def test_case_10_requests_are_their_ids_not_a_hash(self, subject: Subject) -> None:
        assert hash(-1) == hash(-2)
        with subject.open(SHAPE) as driver:
            lanes = [driver.admit(name, 20) for name in (-1, -2, "plumless", "buckeroo")]
            assert len(set(lanes)) == 4, "two requests share a lane"
            for lane in lanes:
                driver.step([Row(lane, 21, 1, 20)], [[query(3, 1, 4, 15, 9, 2)]])
            driver.check()
            driver.release(-1)
            driver.read(-2, 0, 0, 20)
            with pytest.raises(StateError, match="-1"):
                driver.cache.release(-1)
            driver.check()

    @case(11)
    def test_case_11_rows_in_another_order_hit_the_same(self, subject: Subject) -> None:
        counted = []
        for orders in ([[0, 1, 2]] * 4, [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]]):
            with subject.open(SHAPE) as driver:
                lanes = [driver.admit(name, 40) for name in range(3)]
                for at, order in enumerate(orders, 41):
                    rows = [Row(lanes[n], at, 1, at - 1) for n in order]
                    driver.step(rows, [[query(*range(n, n + 18, 3))] for n in order])
                    driver.check()
                groups = driver.cache.stats().groups
                counted.append([(group.hits, group.misses) for group in groups])
        assert counted[0] == counted[1], "the order of rows has changed hits"

    @case(12)
    def test_case_12_padding_leaves_no_trace(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            lanes = [driver.admit(name, 40) for name in range(2)]
            rows = [PADDING, Row(lanes[1], 42, 2, 40), PADDING, Row(lanes[0], 41, 1, 40)]
            ids = [[query(7, 8, 9, 10, 11, 12)] * 4 for _ in rows]
            driver.step(rows, ids)
            driver.check()
            before = driver.cache.stats()
            driver.step([PADDING] * 4, ids)
            driver.check()
            after = driver.cache.stats()
            assert after.pages_used == before.pages_used, "padding took a page"
            for then, now in zip(before.groups, after.groups, strict=True):
                assert replace(now, steps=then.steps) == then, "padding was counted"

    @case(18)
    def test_case_18_ten_thousand_requests_leave_nothing(self, subject: Subject) -> None:
        with subject.open(replace(SHAPE, groups=((0,),))) as driver:
            cache, reserve = driver.cache, 0 if subject.external else 40

            def serve(count: int) -> None:
                for number in range(count):
                    if number % 100 == 0:
                        lane = driver.admit(number, 20)
                        driver.step([Row(lane, 21, 1, 20)], [[query(1, 2, 3)]])
                        driver.release(number)
                    cache.admit(("request", number), reserve)
                    cache.release(("request", number))

            serve(300)
            gc.collect()
            objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
            serve(9_700)
            gc.collect()
            assert len(gc.get_objects()) - objects < 300, "objects are left"
            assert sys.getallocatedblocks() - blocks < 2_000, "memory is left"
            assert (cache.stats().lanes_used, cache.stats().pages_used) == (0, 0)
            assert sorted(driver.admit(number, 40) for number in range(4)) == [0, 1, 2, 3]
            driver.check()
