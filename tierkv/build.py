"""Settle every size, say what it takes, and only then allocate."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import attrs
import torch

from tierkv import config as configuration
from tierkv.blueprint import Blueprint, settle
from tierkv.cache import TieredCache
from tierkv.config import Config
from tierkv.constants import Counter
from tierkv.errors import CapacityError, say
from tierkv.external import External, ExternalTier
from tierkv.interfaces import SupportsView
from tierkv.site import Site
from tierkv.tiers import HostTier, memory

__all__ = ["Overrides", "build", "check_memory", "load", "settle"]

log = logging.getLogger("tierkv")


class Overrides(TypedDict, total=False):
    """Settings of a file that :func:`load` may replace."""

    lanes: int
    """Requests that run at once."""
    max_tokens: int
    """Longest request."""
    queries: int
    """Most query positions a row, 1 + drafts."""
    device: str
    """Where pool, tables and selections lie."""


def load(
    source: str | Path | Mapping[str, Any],
    *,
    model: Any = None,
    blocks: External | None = None,
    **overrides: Unpack[Overrides],
) -> TieredCache:
    """Build a cache from a YAML file, or a mapping of the same form.

    Parameters
    ----------
    model
        A Hugging Face configuration, its mapping, the path of a ``config.json``, or a
        :class:`ModelSpec`; default: the file's ``model``.
    blocks
        An engine's own pages and records, in place of a backing.
    **overrides
        ``lanes``, ``max_tokens``, ``queries``, ``device`` instead of the file's.

    Raises
    ------
    ConfigError
        One line a fault; nothing was allocated.
    CapacityError
        If memory or disk is refused; nothing is kept.
    """
    config = configuration.read(source, model=model, **overrides)
    return build(attrs.evolve(config, blocks=blocks))


@torch.inference_mode(False)  # what is allocated outlives the mode it was made in
def build(config: Config) -> TieredCache:
    """Build a cache from a checked configuration."""
    blueprint = settle(config)
    limits, choices, footprint = blueprint.limits, blueprint.choices, blueprint.footprint
    spec = limits.spec
    blueprint.ops.prepare()
    log.info("tierkv: %s operators, %s", blueprint.ops.name, footprint)
    check_memory(blueprint)
    backing = (
        ExternalTier(config.blocks, limits)
        if config.blocks
        else choices["backing"].component(choices["backing"].options, limits)
    )
    pool = choices["pool"].component(choices["pool"].options, limits)
    try:
        strides = [layout.stride for layout in spec.layouts]
        slots = [limits.slots[group] for group in spec.group_of]
        pool.allocate([limits.lanes * count for count in slots], strides)
        if not config.blocks:
            backing.allocate([limits.rows] * len(strides), strides)
        return _assemble(blueprint, backing, pool)
    except BaseException as error:
        backing.close()
        pool.close()
        if isinstance(error, torch.OutOfMemoryError):
            nbytes = footprint.device + footprint.tables
            wrong = f"{nbytes:,} bytes were refused"
            do = "lower pool.slots, lanes or max_tokens"
            raise CapacityError(say("device", wrong, got=str(limits.device), do=do)) from None
        raise


def check_memory(blueprint: Blueprint) -> None:
    """Raise CapacityError where main memory cannot hold it all.

    The system would grant the memory, and end the process once it is touched.
    """
    wanted, footprint = {}, blueprint.footprint
    on_cpu, backing = blueprint.limits.device.type == "cpu", blueprint.choices["backing"].component
    if on_cpu:
        wanted["pool.slots"] = footprint.pool
        wanted["queries"] = footprint.selections
        wanted["max_tokens"] = footprint.tables
    if issubclass(backing, HostTier) or (on_cpu and issubclass(backing, SupportsView)):
        wanted["backing.capacity"] = footprint.backing + footprint.device_parts * on_cpu
    if sum(wanted.values()) > memory.installed():
        largest = max(wanted, key=lambda setting: wanted[setting])
        wrong = (
            f"{wanted[largest]:,} of {sum(wanted.values()):,} bytes, "
            f"this machine has {memory.installed():,}"
        )
        raise CapacityError(say(largest, wrong, do="lower it, or lanes"))


def _assemble(blueprint: Blueprint, backing: Any, pool: Any) -> TieredCache:
    limits, ops, choices = blueprint.limits, blueprint.ops, blueprint.choices
    groups = len(limits.spec.groups)
    counters = torch.zeros((groups, len(Counter)), dtype=torch.int64, device=limits.device)
    policy, counters_of = choices["policy"], tuple(counters)
    policies = tuple(
        policy.component(policy.options, limits, group, ops, counters_of[group])
        for group in range(groups)
    )
    site = Site(limits, ops, backing, pool, policies, counters, counters_of)
    planner, server = (
        choices[name].component(choices[name].options, site) for name in ("planner", "server")
    )
    installer = choices["installer"].component(choices["installer"].options, site, server)
    return TieredCache(site, planner, server, installer, blueprint.footprint)
