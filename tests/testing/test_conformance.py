"""The conformance suite over schemes, tiers, schedules and an engine's own pages."""

import subprocess
import sys
from pathlib import Path

import pytest

from tierkv.testing.conformance.cases import CASES, case
from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.conformance.test_failures import TestFailures
from tierkv.testing.conformance.test_misuse import TestMisuse
from tierkv.testing.conformance.test_pages import TestPages
from tierkv.testing.conformance.test_requests import TestDrafts, TestLanes
from tierkv.testing.conformance.test_selections import TestSelections
from tierkv.testing.subject import Subject

__all__ = ["TestDrafts", "TestFailures", "TestLanes", "TestMisuse", "TestPages", "TestSelections"]

ROOT = Path(__file__).parents[2]
SCHEMES = {
    "plain": {"policy": "fifo"},  # lets hits of a step leave in it, which tells most
    "indexshare": {"scheme": "glm52-indexshare"},
    "gather": {"scheme": "dsv32-gather"},
}
CONFIGS = {
    f"{scheme}-{tier}-{schedule}": {
        **config,
        "backing": {"use": tier},
        # The fused gather has nothing to install, hence no schedule.
        **({} if scheme == "gather" else {"installer": {"schedule": schedule}}),
    }
    for scheme, config in SCHEMES.items()
    for tier in ("host", "file")
    for schedule in ("inline", "worker")
    if (scheme, schedule) != ("gather", "worker")
}
MATRIX = {name: (config, False) for name, config in CONFIGS.items()}
MATRIX |= {f"{scheme}-external": (config, True) for scheme, config in SCHEMES.items()}
EXAMPLES = {"plain-host-inline": 2_000}
"""Of the state machine; 200 elsewhere."""


@pytest.fixture(scope="module", params=MATRIX)
def subject(request):
    config, external = MATRIX[request.param]
    made = Subject(config, external)
    made.name = request.param
    return made


def test_the_state_machine_finds_nothing(subject):
    run_machine(subject, EXAMPLES.get(subject.name, 200))


def test_a_failure_says_its_case_in_words():
    @case(12)
    def fails():
        raise AssertionError("row 1")

    with pytest.raises(AssertionError) as raised:
        fails()
    assert raised.value.__notes__ == [f"docs/semantics.md, case 12: {CASES[12]}"]


def test_the_document_lists_the_same_cases():
    text = (ROOT / "docs/semantics.md").read_text()
    for number, words in CASES.items():
        assert f"\n{number}. {words}\n" in text


def test_the_command_runs_a_configuration_file(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("scheme: glm52-indexshare\npool: {slots: 1024}\npolicy: {use: clock}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs",
         "tierkv.testing.conformance", "--tierkv-config", str(file),
         "--tierkv-examples", "3", "-q", "-k", "case_03 or case_20 or machine"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
