"""The configuration under test, from the command line."""

import pytest

from tierkv.testing.subject import Subject


@pytest.fixture(scope="session")
def subject(request: pytest.FixtureRequest) -> Subject:
    """What ``--tierkv-config`` names; without it the defaults."""
    source = request.config.getoption("--tierkv-config", default=None)
    external = request.config.getoption("--tierkv-external", default=False)
    return Subject(source or {}, external)
