"""The scheme's planner, server and installer under contract, and its defaults."""

from typing import ClassVar

import pytest
from glm52_indexshare.components import (
    MAX_SLOTS,
    IndexShareInstaller,
    IndexSharePlanner,
    IndexShareServer,
)
from glm52_indexshare.scheme import SCHEME

import tierkv
from tierkv.config import make_registry, read
from tierkv.testing import SchemeContract
from tierkv.testing.assemble import Shape

ORIGIN = "tierkv-glm52-indexshare"


class TestIndexShare(SchemeContract):
    planner = IndexSharePlanner
    server = IndexShareServer
    installer = IndexShareInstaller


class TestIndexShareOnTheWorker(SchemeContract):
    planner = IndexSharePlanner
    server = IndexShareServer
    installer = IndexShareInstaller
    options: ClassVar = {"installer": {"schedule": "worker"}}


def test_everything_it_registers_is_under_contract():
    registry = make_registry()
    names = {
        kind: [name for name, origin in registry.names(kind).items() if origin.startswith(ORIGIN)]
        for kind in ("tier", "policy", "planner", "server", "installer", "scheme")
    }
    assert names == {
        "tier": [], "policy": [], "planner": ["indexshare"], "server": ["indexshare"],
        "installer": ["indexshare"], "scheme": ["glm52-indexshare"],
    }  # fmt: skip


def test_the_scheme_is_set_fifo_of_16_ways_and_8192_slots():
    config = read({"scheme": "glm52-indexshare"})
    chosen = {name: choice.name for name, choice in config.choices.items()}
    assert chosen == {
        "backing": "host", "pool": "device", "policy": "set-fifo", "planner": "indexshare",
        "server": "indexshare", "installer": "indexshare",
    }  # fmt: skip
    assert config.choices["policy"].options.ways == 16
    assert config.pool.slots == 8192


def test_16384_slots_are_one_line():
    config = read({"scheme": "glm52-indexshare", "pool": {"slots": 16384}})
    assert config.pool.slots == 16384
    assert config.choices["policy"].options.ways == 16


def test_its_own_model_has_groups_of_four():
    config = read({"scheme": "glm52-indexshare"})
    spec = config.registry.model({**SCHEME["model"], "model_type": SCHEME["model"]["family"]})
    assert [group.owner for group in spec.groups] == [0, 1, 2, 6, 10]
    assert spec.top_k == 256


def test_more_slots_than_int16_are_refused_with_a_remedy():
    spec = Shape().spec
    source = {"scheme": "glm52-indexshare", "pool": {"slots": MAX_SLOTS + 1}, "policy": "fifo"}
    with pytest.raises(tierkv.ConfigError, match=r"pool\.slots.*32767.*got 32768.*planner: table"):
        tierkv.load(source, model=spec, lanes=1, max_tokens=96)
