"""The scheme's planner, server and installer under contract, and its defaults."""

import pytest
from dsv32_gather.gather_installer import GatherInstaller
from dsv32_gather.gather_planner import GatherPlanner
from dsv32_gather.gather_policy import GatherPolicy
from dsv32_gather.gather_server import GatherServer

import tierkv
from tierkv.config import make_registry, read
from tierkv.testing import SchemeContract
from tierkv.testing.assemble import Shape

ORIGIN = "tierkv-dsv32-gather"


class TestGather(SchemeContract):
    planner = GatherPlanner
    server = GatherServer
    installer = GatherInstaller


def test_everything_it_registers_is_under_contract():
    registry = make_registry()
    names = {
        kind: [name for name, origin in registry.names(kind).items() if origin.startswith(ORIGIN)]
        for kind in ("tier", "policy", "planner", "server", "installer", "scheme")
    }
    assert names == {
        "tier": [], "policy": [], "planner": ["gather"], "server": ["gather"],
        "installer": ["gather"], "scheme": ["dsv32-gather"],
    }  # fmt: skip


def test_the_scheme_keeps_the_last_selection_in_private_buffers():
    config = read({"scheme": "dsv32-gather"})
    chosen = {name: choice.name for name, choice in config.choices.items()}
    assert chosen == {
        "backing": "host", "pool": "device", "policy": "last-step", "planner": "gather",
        "server": "gather", "installer": "gather",
    }  # fmt: skip
    assert config.choices["server"].options.depth == 0


def test_a_pool_that_cannot_hold_a_selection_is_refused():
    shape = Shape()
    source = {"scheme": "dsv32-gather", "pool": {"slots": shape.top_k - 1}}
    with pytest.raises(tierkv.ConfigError, match=rf"pool\.slots.*top_k {shape.top_k}, got 5"):
        tierkv.load(source, model=shape.spec, lanes=1, max_tokens=96)
