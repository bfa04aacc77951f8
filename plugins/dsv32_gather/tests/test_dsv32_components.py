"""The scheme's planner, server and installer under contract, and its defaults."""

from typing import ClassVar

import pytest
from dsv32_gather.gather_installer import GatherInstaller
from dsv32_gather.gather_planner import GatherPlanner
from dsv32_gather.gather_policy import GatherPolicy
from dsv32_gather.gather_server import GatherServer

import tierkv
from tierkv.config import make_registry, read
from tierkv.testing import SchemeContract
from tierkv.testing.assemble import Shape
from tierkv.testing.model_gather import GatherHarness

ORIGIN = "tierkv-dsv32-gather"
SIZES = {"lanes": 4, "max_tokens": 96, "queries": 3}


class TestGather(SchemeContract):
    planner = GatherPlanner
    server = GatherServer
    installer = GatherInstaller
    policy = GatherPolicy

    def watch(self, cache, make):
        return GatherHarness(cache)


class TestGatherOnAWorker(TestGather):
    """There is nothing to hand over, but the configuration may say so."""

    options: ClassVar = {"installer": {"schedule": "worker"}}


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


def test_the_scheme_keeps_the_last_selection_where_it_was_served():
    config = read({"scheme": "dsv32-gather"})
    chosen = {name: choice.name for name, choice in config.choices.items()}
    assert chosen == {
        "backing": "host", "pool": "device", "policy": "last-step", "planner": "gather",
        "server": "gather", "installer": "gather",
    }  # fmt: skip
    assert config.choices["policy"].component is GatherPolicy


def test_the_buffers_are_all_that_it_takes_on_the_device():
    shape = Shape()
    places = shape.lanes * shape.queries * shape.top_k
    with tierkv.load({"scheme": "dsv32-gather"}, model=shape.spec, **SIZES) as cache:
        buffers = [part for layer in cache.server.buffers for part in layer]
        assert [buffer.numel() for buffer in buffers] == [places * 64] * 3
        assert cache.stats().device_bytes == 3 * places * 64 + 3 * 4 * shape.lanes * shape.queries
        assert all(cache.site.pool.view(layer).numel() == 0 for layer in range(3))
        assert cache.stats().table_bytes == 2 * 4 * (places + shape.lanes)
        assert "pool=0" in str(cache.footprint)


@pytest.mark.parametrize(
    ("part", "known"),
    [
        ({"policy": "lru"}, r"policy\.use: .*planner\.use gather, got 'lru'"),
        ({"planner": "table"}, r"planner\.use: .*server\.use gather, got 'table'"),
        ({"server": "copy"}, r"server\.use: .*planner\.use gather, got 'copy'"),
        ({"installer": "copy"}, r"installer\.use: .*planner\.use gather, got 'copy'"),
    ],
)
def test_a_part_of_another_scheme_is_refused(part, known):
    with pytest.raises(tierkv.ConfigError, match=known):
        tierkv.load({"scheme": "dsv32-gather", **part}, model=Shape().spec, **SIZES)
