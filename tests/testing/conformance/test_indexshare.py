"""The conformance suite on the shared indexer."""

from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.conformance.test_failures import TestFailures
from tierkv.testing.conformance.test_misuse import TestMisuse
from tierkv.testing.conformance.test_pages import TestPages
from tierkv.testing.conformance.test_requests import TestDrafts, TestLanes
from tierkv.testing.conformance.test_selections import TestSelections

__all__ = ["TestDrafts", "TestFailures", "TestLanes", "TestMisuse", "TestPages", "TestSelections"]

SCHEME = {"scheme": "glm52-indexshare"}
SCHEDULES = ("inline", "worker")


def test_the_state_machine_finds_nothing(subject):
    run_machine(subject, 200)
