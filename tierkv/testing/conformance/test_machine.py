"""Any order of calls: the state machine."""

import pytest

from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.subject import Subject


class TestMachine:
    """Every rule of the machine must leave cache and model equal."""

    def test_any_order_of_calls(self, subject: Subject, request: pytest.FixtureRequest) -> None:
        run_machine(subject, request.config.getoption("--tierkv-examples", default=None) or 200)
