"""A policy of another distribution takes part without a change to tierkv."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tierkv.trace import Shape, synthesize

ROOT = Path(__file__).parents[2]
CODE = '''
import torch

from tierkv import TablePolicy, hookimpl


class Mru(TablePolicy):
    """Keep what came first; the last slot takes whoever comes."""

    def choose(self, lane, misses, hits):
        free = torch.nonzero(self.id_at[lane] < 0).flatten()[: len(misses)]
        slots = torch.full_like(misses, self.slots - 1)
        slots[: len(free)] = free
        return slots


@hookimpl
def tierkv_register(registry):
    registry.add("policy", "mru", Mru)
'''


@pytest.fixture
def package(tmp_path):
    """Make the folder of an installed distribution, as pip would."""
    (tmp_path / "tierkv_mru.py").write_text(CODE)
    info = tmp_path / "tierkv_mru-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tierkv-mru\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tierkv]\nmru = tierkv_mru\n")
    return tmp_path


def test_it_is_replayed(package, invoke, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, "tierkv_mru", raising=False)
    trace = tmp_path / "trace.npz"
    synthesize("stack", Shape(steps=30, context=1024, top_k=64)).save(trace)
    found = json.loads(invoke("replay", trace, "--slots", "128", "--json").output)["policies"]
    (mine,) = [row for row in found if row["policy"] == "mru"]
    assert not mine["native"]
    assert 0 < mine["hit_rate"] < 1


def test_it_is_benchmarked(package):
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "benchmarks/test_policies.py", "-k", "mru"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
