"""The suite over tiers, schedules and an engine's own pages.

Each file is one scheme, so that processes can share them.
"""

import pytest

from tierkv.testing.subject import Subject

TIERS = ("host", "file")


def matrix(scheme, schedules):
    """Name -> configuration, and whether an engine pages by itself."""
    known = {
        f"{tier}-{schedule}": (
            scheme | {"backing": {"use": tier}, "installer": {"schedule": schedule}}, False
        )
        for tier in TIERS
        for schedule in schedules
    }  # fmt: skip
    return known | {"external": (scheme, True)}


def pytest_generate_tests(metafunc):
    if "subject" in metafunc.fixturenames:
        names = matrix(metafunc.module.SCHEME, metafunc.module.SCHEDULES)
        metafunc.parametrize("subject", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def subject(request):
    config, external = matrix(request.module.SCHEME, request.module.SCHEDULES)[request.param]
    made = Subject(config, external)
    made.name = request.param
    return made
