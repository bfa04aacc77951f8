"""docs/ascend-cost.md says what the core model counts."""

from pathlib import Path

import cost_sheet
import cost_steps
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "ascend-cost.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


def test_figures_are_the_scripts(sim, page):
    """Of one pool; those of placement and install."""
    for name in ("dsa_append", "dsa_commit", "dsa_install"):
        sim(name)
    step = cost_steps.pool_step("clock", 8192, cost_steps.selections())
    pool = cost_sheet.label("clock", 8192)
    _, commit, _, install = step.calls
    counted = [cost_sheet.Counted.make(call, pool) for call in (commit, install)]
    append = cost_sheet.Counted.make(cost_steps.append_call(), "any")
    rows = [cost_sheet.Group(*counted).row(), append.work(), append.bytes()]
    for each in counted:
        rows += [each.work(), each.bytes(), each.parts(step.copied)]
    assert [row for row in rows if row not in page] == []


def test_the_text_is_the_scripts(page):
    for name in ("INTRO", "WORK", "BYTES", "REASONS", "GROUP", "PARTS"):
        assert getattr(cost_sheet, name) in page, name
    assert "Nothing here was run on an NPU, and no time was measured" in page


@pytest.mark.long
def test_the_page_is_the_scripts(sim, page):
    sim("dsa_plan")
    assert cost_sheet.document(cost_steps.selections()) == page
