"""Calls out of order: case 15."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tierkv.errors import ShapeError, StateError
from tierkv.testing.conformance.cases import SHAPE, case, query
from tierkv.testing.driver import Driver
from tierkv.testing.invariants import residents
from tierkv.testing.model import Row
from tierkv.testing.open_step import OpenStep
from tierkv.testing.subject import Subject


class TestMisuse:
    """Calls out of order."""

    @contextmanager
    def opened(self, subject: Subject) -> Iterator[Callable[..., None]]:
        """Open a step of groups [0] and [1, 2]; give what makes calls on it that must fail."""
        with subject.open(SHAPE) as driver:
            lane = driver.admit("request", 40)
            if driver.engine:
                driver.engine.grow(lane, 41)
            row = Row(lane, 41, 1, 40)
            opened = driver.begin(driver.cache.stepper_for(1, 1), [row])

            def refuse(message: str, call: str, *arguments: Any) -> None:
                if call == "given":
                    driver.append(opened, arguments[0])
                    return
                with pytest.raises((StateError, ShapeError), match=message):
                    getattr(opened.step, call)(*arguments)

            with opened.step:
                yield refuse
                self._finish(driver, opened)
            assert driver.engine or driver.cache.length("request") == 41

    def _finish(self, driver: Driver, opened: OpenStep) -> None:
        """Whatever was refused, the step goes on."""
        ids, step = driver.positions([[query(0, 1)]]), opened.step
        for layer in range(3):
            if step.missing[layer]:
                driver.append(opened, layer)
            if not step.selected[layer]:
                step.select(layer, ids if layer < 2 else None)

    @case(15)
    def test_case_15_each_is_refused_by_name(self, subject: Subject) -> None:
        ids = torch.tensor([[query(0, 1)]], dtype=torch.int32)
        with self.opened(subject) as refuse:
            refuse("layer 0: .*append", "select", 0, ids)
            refuse("", "given", 0)
            refuse("layer 0: .*needs ids.*pass ids", "select", 0)
            refuse("layer 0: ids must be int32", "select", 0, ids.long())
            refuse("", "given", 2)
            refuse("layer 2: .*select layer 1", "select", 2)
            refuse("layer 7: the model has layers 0 to 2", "select", 7)
            refuse("layer -1: the model has layers 0 to 2", "select", -1)
            refuse("layer 2: ", "reuse", 2)
        with self.opened(subject) as refuse:
            refuse("", "given", 0)
            refuse("layer 0: a part was given already", "append", 0,
                   torch.zeros((1, 1, 64), dtype=torch.uint8))  # fmt: skip

    @pytest.mark.parametrize("left_out", [1, 2])
    @case(15)
    def test_case_15_part_of_a_group_left_out(self, subject: Subject, left_out: int) -> None:
        with subject.open(SHAPE) as driver:
            row = Row(driver.admit("request", 40), 41, 1, 40)
            opened = driver.begin(driver.cache.stepper_for(1, 1), [row])
            with pytest.raises(StateError, match=rf"layer {left_out}: .*every layer"), opened.step:
                self._part(driver, opened, 3 - left_out)
            driver.mirror.recount()
            assert residents(driver.cache.site.policies[1])[row.lane] == {}
            driver.step([row], [[query(1, 2, 3)]])

    def _part(self, driver: Driver, opened: OpenStep, layer: int) -> None:
        driver.append(opened, layer)
        if layer == 1:
            opened.step.select(1, driver.positions([[query(0, 1)]]))

    @case(15)
    def test_case_15_a_lane_in_an_open_step_is_left_alone(self, subject: Subject) -> None:
        with subject.open(SHAPE) as driver:
            row = Row(driver.admit("request", 40), 41, 1, 40)
            cache = driver.cache
            with driver.begin(cache.stepper_for(1, 1), [row]).step:
                for call in (
                    lambda: cache.release("request"),
                    lambda: cache.truncate("request", 10),
                    lambda: cache.admit("request"),
                ):
                    with pytest.raises(StateError, match="'request'"):
                        call()
            driver.step([row], [[query(1, 2, 3)]])
            driver.check()
