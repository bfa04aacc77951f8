"""What the conformance suite says, and its command; the schemes are in ``conformance/``."""

import subprocess
import sys
from pathlib import Path

import pytest

from tierkv.testing.conformance.cases import CASES, case

ROOT = Path(__file__).parents[2]


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
