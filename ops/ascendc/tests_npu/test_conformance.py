"""The conformance suite of tierkv on the device, with streams as late as they may be."""

import pytest
from hostsim.npu.device import Order, order

from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.conformance.test_failures import TestFailures
from tierkv.testing.conformance.test_misuse import TestMisuse
from tierkv.testing.conformance.test_pages import TestPages
from tierkv.testing.conformance.test_requests import TestDrafts, TestLanes
from tierkv.testing.conformance.test_selections import TestSelections
from tierkv.testing.subject import Subject

__all__ = ["TestDrafts", "TestFailures", "TestLanes", "TestMisuse", "TestPages", "TestSelections"]

GLM, INLINE = {"scheme": "glm52-indexshare"}, {"schedule": "inline"}
SUBJECTS = {
    "side-stream": (GLM | {"installer": {"schedule": "side-stream"}}, False),
    "external": (GLM | {"installer": INLINE}, True),
    "gather": ({"scheme": "dsv32-gather"}, False),
    "file": (GLM | {"ops": "reference", "installer": INLINE, "backing": {"use": "file"}}, False),
}


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request):
    config, external = SUBJECTS[request.param]
    request.getfixturevalue("kernels")
    return Subject({"ops": "ascendc", "device": "npu:0"} | config, external)


@pytest.fixture(autouse=True)
def late(runtime):
    with order(runtime, Order.LATE):
        yield


def test_the_state_machine_finds_nothing(subject):
    """Every other step has lengths that stay on the device."""
    run_machine(subject, 10)
