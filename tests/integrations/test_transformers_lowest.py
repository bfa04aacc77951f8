"""The lowest supported release of transformers, laid over the installed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierkv.integrations.releases import LOWEST

COVER = Path(__file__).with_name("test_transformers_cover.py")
RELEASE = ".".join(map(str, LOWEST))
OVERLAYS = list(Path(__file__).parents[2].glob(f"overlays/transformers-{RELEASE}.*"))


@pytest.mark.skipif(not OVERLAYS, reason="make test lays it out")
def test_lowest_release():
    command = [sys.executable, "-m", "pytest", "-m", "lowest", "-p", "no:cacheprovider", COVER]
    environment = os.environ | {"PYTHONPATH": str(OVERLAYS[0])}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"transformers: {RELEASE}" in run.stdout
    assert "6 passed" in run.stdout
