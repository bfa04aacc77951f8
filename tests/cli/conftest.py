import sys
import textwrap

import pytest

from tierkv.tiers.file_tier import FileTier
from tierkv.tiers.view_tier import ViewTier


@pytest.fixture
def nothing_allocated(monkeypatch):
    """Fail as soon as a tier is asked for memory."""

    def allocate(self, rows, strides):
        raise AssertionError(f"{type(self).__name__} was allocated")

    for tier in (ViewTier, FileTier):
        monkeypatch.setattr(tier, "allocate", allocate)


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Put a distribution of one module and its entry point on the path."""

    def install(name, code, version="1.0"):
        module = name.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)  # another test's
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[tierkv]\n{name} = {module}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install
