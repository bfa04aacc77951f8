"""Every registered component under its contract: a new name is tested without being listed."""

from typing import ClassVar

import pytest

from tierkv.config import make_registry
from tierkv.testing import PolicyContract, SchemeContract, TierContract

REGISTRY = make_registry()
CONTRACTS = {
    "tier": TierContract,
    "policy": PolicyContract,
    "planner": SchemeContract,
    "server": SchemeContract,
    "installer": SchemeContract,
}
HOOKS = {
    ("policy", "unbounded"): {"slots": 96},
    ("policy", "clock"): {"options": {"ways": 8}},
    ("policy", "set-lru"): {"options": {"ways": 4}},
}
"""What a component needs to be told beside its class."""


def partners(component: type) -> dict[str, type]:
    """Give the parts that a part of a family needs."""
    kinds = ("planner", "server", "installer")
    parts = [(kind, REGISTRY.get(kind, kind, n)) for kind in kinds for n in REGISTRY.names(kind)]
    found = {kind: part for kind, part in parts if part.family == component.family}
    (policy,) = found["planner"].variants.values()
    return {**found, "policy": policy}


def contract(kind: str, name: str) -> type:
    component = REGISTRY.get(kind, kind, name)
    what = "make" if kind in ("tier", "policy") else kind
    words = f"{kind}-{name}".title().replace("-", "")
    needed = partners(component) if component.family else {}
    hooks = HOOKS.get((kind, name), {})
    return type(f"Test{words}", (CONTRACTS[kind],), {**needed, what: component, **hooks})


for _kind in CONTRACTS:
    for _name in REGISTRY.names(_kind):
        _class = contract(_kind, _name)
        globals()[_class.__name__] = _class


class TestSetFifoOfManySets(PolicyContract):
    make = REGISTRY.get("policy", "policy", "set-fifo")
    options: ClassVar = {"ways": 4}


class TestSetFifoByLowBits(PolicyContract):
    make = REGISTRY.get("policy", "policy", "set-fifo")
    options: ClassVar = {"ways": 2, "hash": "low-bits"}
    slots = 6


class TestLruOfFewSlots(PolicyContract):
    make = REGISTRY.get("policy", "policy", "lru")
    slots = 5


class TestPrivateSelections(SchemeContract):
    server = REGISTRY.get("server", "server", "copy")
    options: ClassVar = {"server": {"depth": 0}}


class TestOneSelection(SchemeContract):
    server = REGISTRY.get("server", "server", "copy")
    options: ClassVar = {"server": {"depth": 1}}


class TestWorker(SchemeContract):
    installer = REGISTRY.get("installer", "installer", "copy")
    options: ClassVar = {"installer": {"schedule": "worker"}}


@pytest.mark.parametrize("kind", CONTRACTS)
def test_every_registered_name_is_under_contract(kind):
    what = "make" if kind in ("tier", "policy") else kind
    tested = {vars(case).get(what) for case in CONTRACTS[kind].__subclasses__()}
    names = REGISTRY.names(kind)
    assert names
    untested = [name for name in names if REGISTRY.get(kind, kind, name) not in tested]
    assert not untested, f"{kind} {untested} has no {CONTRACTS[kind].__name__}"
