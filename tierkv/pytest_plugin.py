"""Options of the conformance suite: ``pytest --pyargs tierkv.testing.conformance``."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--tierkv-config`` and its like."""
    group = parser.getgroup("tierkv")
    group.addoption(
        "--tierkv-config", metavar="FILE", help="YAML file whose components are put to the test"
    )
    group.addoption(
        "--tierkv-external", action="store_true",
        help="an engine pages by itself, in place of the backing",
    )  # fmt: skip
    group.addoption(
        "--tierkv-examples", type=int, default=200, metavar="N",
        help="examples of 50 calls that the state machine runs (default: 200)",
    )  # fmt: skip
