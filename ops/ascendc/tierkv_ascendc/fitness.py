"""What the kernels can be asked for; their tilings refuse the same, but only in the first step."""

from collections.abc import Mapping
from typing import Any

from tierkv.errors import ConfigError, Faults, say
from tierkv.limits import Limits
from tierkv.policies import Clock, OperatorPolicy, TablePolicy
from tierkv_ascendc import limits as most
from tierkv_ascendc.operators import OPERATORS

WHERE = "on npu by AscendC"
POLICIES = ("clock", "fifo", "set-fifo")
"""Registered names of those that a kernel places by."""


def check_sizes(limits: Limits) -> None:
    """Raise ConfigError, a line for each size that no kernel takes."""
    top_k, queries = limits.spec.top_k, limits.queries
    strides = [layout.stride for layout in limits.spec.layouts]
    sizes = {
        "model, top-k": (top_k, most.MAX_TOP_K),
        "queries": (queries, most.MAX_QUERIES),
        "queries times top-k": (queries * top_k, most.MAX_ENTRIES),
        "pool.slots": (max(limits.slots), most.MAX_SLOTS),
        "max_tokens": (limits.max_tokens, most.MAX_POSITIONS),
        "model, bytes of a record": (max(strides), most.MAX_ROW_BYTES),
    }
    faults = Faults()
    for where, (size, largest) in sizes.items():
        if size > largest:
            faults.add(say(where, f"at most {largest:,} {WHERE}", got=size))
    faults.check()


def check_policy(name: str, policy: Any, options: Any, limits: Limits) -> None:
    """Raise ConfigError if no kernel places by the policy of that registered name.

    A policy that is no :class:`~tierkv.policies.TablePolicy` is a scheme's, and calls what it
    needs.
    """
    placed = issubclass(policy, OperatorPolicy) and f"place_{policy.operator}" in OPERATORS
    if issubclass(policy, TablePolicy) and not placed:
        do = "choose one of them; reference operators do all policies, on device cpu"
        wrong = f"has no kernel {WHERE}"
        raise ConfigError(say("policy.use", wrong, got=name, known=POLICIES, do=do))
    if issubclass(policy, Clock):
        for ways in {options.of(slots) for slots in limits.slots}:
            if ways > most.MAX_WAYS:
                wrong = f"at most {most.MAX_WAYS} {WHERE}"
                raise ConfigError(say("policy.ways", wrong, got=options.ways))


def check_components(choices: Mapping[str, Any], limits: Limits) -> None:
    """Raise ConfigError if a chosen component asks for what the device does not have."""
    policy = choices["policy"]
    check_policy(policy.name, policy.component, policy.options, limits)
