"""Requests that share pages: case 20."""

from dataclasses import replace

import pytest
import torch

from tierkv.errors import CapacityError
from tierkv.testing.audit import PageAudit
from tierkv.testing.conformance.cases import SHAPE, case, query
from tierkv.testing.model import Row
from tierkv.testing.subject import Subject

SHARED = 3_000
"""Tokens of a long common prefix."""


def paged(subject: Subject) -> None:
    """Skip what an engine's own pages do not have."""
    if subject.external:
        pytest.skip("pages are the engine's")


class TestPages:
    """Sharing."""

    @case(20)
    def test_case_20_a_shared_page_is_copied_before_it_is_written(self, subject: Subject) -> None:
        paged(subject)
        with subject.open(SHAPE) as driver:
            audit, prompt = PageAudit(driver.cache), list(range(100, 140))
            driver.admit_prompt("one", prompt)
            driver.prefill("one", [0, 0], 40)
            assert driver.admit_prompt("two", prompt) == 32, "whole pages before the last token"
            driver.prefill("two", [32, 32], 40)
            lanes = [driver.requests[name].lane for name in ("one", "two")]
            audit.check()
            driver.truncate("one", 20)
            driver.prefill("one", [20, 20], 30)
            rows = [Row(lanes[0], 31, 1, 30), Row(lanes[1], 41, 1, 40)]
            for _ in range(2):
                driver.step(rows, [[query(3, 19, 20, 21, 29)]] * 2)
                driver.check()
                audit.check()
                rows = [Row(row.lane, row.kv_len + 1, 1, row.kv_len) for row in rows]
            for name, end in (("one", 31), ("two", 41)):
                for layer in range(3):
                    driver.read(name, layer, 0, end)

    @pytest.mark.parametrize("writer", ["source", "copy"])
    @case(20)
    def test_case_20_a_fork_goes_its_own_way(self, subject: Subject, writer: str) -> None:
        paged(subject)
        with subject.open(SHAPE) as driver:
            audit = PageAudit(driver.cache)
            lane = driver.admit("source", 40)
            driver.step([Row(lane, 41, 1, 40)], [[query(1, 2, 3, 39)]])
            other = driver.fork("source", "copy")
            lanes = {"source": lane, "copy": other}
            for at in (42, 43):
                driver.step([Row(lanes[writer], at, 1, at - 1)], [[query(1, 2, 40, 41)]])
                audit.check()
            counts = {name: 1 if name == writer else 3 for name in lanes}
            rows = [Row(lanes[name], 44, count, 44 - count) for name, count in counts.items()]
            driver.step(rows, [[query(40, 41, 42, 1)] * 4] * 2)
            driver.check()
            driver.release(writer)
            left = next(name for name in lanes if name != writer)
            driver.read(left, 0, 0, 44)
            driver.step([Row(lanes[left], 45, 1, 44)], [[query(40, 41, 42, 43, 1)]])
            driver.check()
            audit.check()

    @pytest.mark.parametrize("first", ["one", "two"])
    @case(20)
    def test_case_20_a_long_prefix_is_held_once(self, subject: Subject, first: str) -> None:
        paged(subject)
        shape = replace(SHAPE, lanes=2, max_tokens=3_200, pages=2 * 50, page=64, groups=((0, 1),))
        with subject.open(shape) as driver:
            prompt = [n % 97 for n in range(SHARED)]
            assert driver.admit_prompt("one", [*prompt, 1, 2, 3]) == 0
            driver.prefill("one", [0], SHARED + 3)
            used = driver.cache.stats().pages_used
            shared = SHARED // 64 * 64
            assert driver.admit_prompt("two", [*prompt, 4, 5]) == shared
            assert driver.cache.stats().pages_used == used, "a shared page was taken again"
            driver.prefill("two", [shared], SHARED + 2)
            assert driver.cache.stats().pages_used == used + 1
            rows = [Row(driver.requests[name].lane, SHARED + at, 1, SHARED + at - 1)
                    for name, at in (("one", 4), ("two", 3))]  # fmt: skip
            driver.step(rows, [[query(1, 63, 64, 2_900, 2_999, 3_000)]] * 2)
            driver.check()
            driver.release(first)
            left = "two" if first == "one" else "one"
            assert driver.cache.stats().pages_used == used
            row = rows[0 if left == "one" else 1]
            row = Row(row.lane, row.kv_len + 1, 1, row.kv_len)
            driver.step([row], [[query(1, 63, 64, 2_900, 2_999, 3_000)]])
            driver.read(left, 1, 0, SHARED)
            driver.check()

    @case(20)
    def test_case_20_salts_do_not_share(self, subject: Subject) -> None:
        paged(subject)
        with subject.open(SHAPE) as driver:
            prompt = list(range(40))
            driver.admit_prompt("one", prompt, "tenant")
            driver.prefill("one", [0, 0], 40)
            assert driver.admit_prompt("two", prompt, "other") == 0
            assert driver.admit_prompt("three", prompt) == 0
            assert driver.admit_prompt("four", prompt, "tenant") == 32
            driver.prefill("four", [32, 32], 40)
            driver.read("four", 2, 0, 40)

    @case(20)
    def test_case_20_what_does_not_fit_changes_nothing(self, subject: Subject) -> None:
        paged(subject)
        with subject.open(replace(SHAPE, pages=7)) as driver:
            lanes = [driver.admit(name, 48) for name in range(2)]
            before = driver.cache.stats()
            for call in (
                lambda: driver.cache.step(lanes, [49, 49]),
                lambda: driver.cache.admit("more", reserve=40),
                lambda: driver.cache.prefill(0, 0, torch.zeros((40, 64), dtype=torch.uint8), 48)
                if not driver.spec.layouts[0].device else driver.cache.admit("more", reserve=97),
            ):  # fmt: skip
                with pytest.raises(CapacityError):
                    call()
                assert driver.cache.stats() == before, "a refused call has changed something"
            driver.check()
            driver.release(1)
            driver.step([Row(lanes[0], 49, 1, 48)], [[query(48, 1, 2, 3)]])
            driver.check()
