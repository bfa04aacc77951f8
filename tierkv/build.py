"""Settle every size, say what it takes, and only then allocate."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tierkv import config as configuration
from tierkv.cache import TieredCache
from tierkv.config import Config
from tierkv.constants import MAX_PAGE, MAX_ROWS, MIN_PAGE, Counter
from tierkv.errors import ConfigError, say
from tierkv.footprint import Footprint
from tierkv.interfaces import SupportsView
from tierkv.layout import ModelSpec
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.site import Site

log = logging.getLogger("tierkv")


def load(
    source: str | Path | Mapping[str, Any],
    *,
    model: Any = None,
    lanes: int | None = None,
    max_tokens: int | None = None,
    queries: int | None = None,
    device: str | None = None,
) -> TieredCache:
    """Build a cache from a YAML file, or a mapping of the same form.

    Parameters
    ----------
    model
        A Hugging Face configuration, its mapping, the path of a ``config.json``, or a
        :class:`ModelSpec`; default: the file's ``model``.
    lanes
        Requests that run at once.
    max_tokens
        Longest request.
    queries
        Most query positions a row, 1 + drafts.
    device
        Where pool, tables and selections lie.

    Raises
    ------
    ConfigError
        One line a fault; nothing was allocated.
    CapacityError
        If memory or disk is refused; nothing is kept.
    """
    return build(
        configuration.read(
            source, model=model, lanes=lanes, max_tokens=max_tokens, queries=queries, device=device
        )
    )


def build(config: Config) -> TieredCache:
    """Build a cache from a checked configuration."""
    limits, footprint = settle(config)
    ops = choose_ops(config, limits)
    log.info("tierkv: %s operators, %s", ops.name, footprint)
    spec, choices = limits.spec, config.choices
    backing = choices["backing"].component(choices["backing"].options, limits)
    pool = choices["pool"].component(choices["pool"].options, limits)
    try:
        strides = [layout.stride for layout in spec.layouts]
        slots = [limits.slots[group] for group in spec.group_of]
        pool.allocate([limits.lanes * count for count in slots], strides)
        backing.allocate([limits.rows] * len(strides), strides)
        return _assemble(config, limits, footprint, ops, backing, pool)
    except BaseException:
        backing.close()
        pool.close()
        raise


def _assemble(
    config: Config, limits: Limits, footprint: Footprint, ops: Ops, backing: Any, pool: Any
) -> TieredCache:
    groups, choices = len(limits.spec.groups), config.choices
    counters = torch.zeros((groups, len(Counter)), dtype=torch.int64, device=limits.device)
    policy = choices["policy"]
    policies = tuple(
        policy.component(policy.options, limits, group, ops, counters[group])
        for group in range(groups)
    )
    site = Site(limits, ops, backing, pool, policies, counters)
    planner, server = (
        choices[name].component(choices[name].options, site) for name in ("planner", "server")
    )
    installer = choices["installer"].component(choices["installer"].options, site, server)
    return TieredCache(site, planner, server, installer, footprint)


def settle(config: Config) -> tuple[Limits, Footprint]:
    """Settle all sizes and check that the components fit them and each other."""
    limits = _limits(config)
    choices = config.choices
    server, installer = choices["server"], choices["installer"]
    if installer.component.copies and not server.component.ordered:
        raise ConfigError(
            say(
                "installer.use",
                f"{installer.name} copies from the selection, but server.use "
                f"{server.name} permutes it",
                do="choose another of the two",
            )
        )
    if not issubclass(choices["pool"].component, SupportsView):
        raise ConfigError(
            say(
                "pool.use",
                "kernels cannot address it",
                got=choices["pool"].name,
                known=["device", "host"],
            )
        )
    needs = {name: c.component.footprint(c.options, limits) for name, c in choices.items()}
    return limits, Footprint.of(limits, selections=needs["server"], tables=needs["policy"])


def _limits(config: Config) -> Limits:
    general, page = config.general, config.backing.page
    spec = model_spec(config)
    for name in ("lanes", "max_tokens", "queries"):
        if getattr(general, name) < 1:
            raise ConfigError(say(name, "must be at least 1", got=getattr(general, name)))
    if not MIN_PAGE <= page <= MAX_PAGE or page & (page - 1):
        raise ConfigError(
            say("backing.page", f"must be a power of two from {MIN_PAGE} to {MAX_PAGE}", got=page)
        )
    lane_pages = -(-general.max_tokens // page)
    pages = lane_pages * general.lanes
    if config.backing.capacity is not None:
        pages = min(pages, config.backing.capacity // (page * spec.row_bytes))
    if pages < lane_pages:
        need = lane_pages * page * spec.row_bytes
        raise ConfigError(
            say(
                "backing.capacity",
                f"one request of max_tokens {general.max_tokens:,} needs {need:,} bytes",
                got=config.backing.capacity,
                do="raise it, or lower max_tokens",
            )
        )
    if pages * page > MAX_ROWS:
        raise ConfigError(say("backing.capacity", f"at most {MAX_ROWS:,} rows", got=pages * page))
    return Limits(
        spec=spec, device=_device(general.device), lanes=general.lanes,
        max_tokens=general.max_tokens, queries=general.queries, page=page, pages=pages,
        slots=_slots(config, len(spec.groups)), debug=general.debug,
    )  # fmt: skip


def _slots(config: Config, groups: int) -> tuple[int, ...]:
    slots = config.pool.slots
    each = [slots] * groups if isinstance(slots, int) else slots
    if len(each) != groups:
        raise ConfigError(
            say(
                "pool.slots",
                f"the model has {groups} layer groups",
                got=slots,
                do="one number a group",
            )
        )
    if min(each) < 1:
        raise ConfigError(say("pool.slots", "must be at least 1", got=min(each)))
    return tuple(each)


def _device(name: str) -> torch.device:
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(say("device", f"cannot be used, {why}", got=name)) from None


def model_spec(config: Config) -> ModelSpec:
    """Find out what the configured model's KV looks like."""
    model = config.model
    if isinstance(model, ModelSpec):
        return model
    if model is None:
        raise ConfigError(
            say("model", "is missing", do="pass load(model=...), set model:, or choose a scheme")
        )
    return config.registry.model(model_mapping(model))


def model_mapping(model: Any) -> dict[str, Any]:
    """Bring a model's configuration into the form of a ``config.json``."""
    if isinstance(model, str | Path):
        try:
            model = json.loads(Path(model).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(say("model", f"cannot be read: {error}", got=str(model))) from None
    if hasattr(model, "to_dict"):
        model = model.to_dict()
    if not isinstance(model, Mapping):
        raise ConfigError(say("model", "expected a configuration, a mapping or a path", got=model))
    mapping = dict(model)
    if "family" in mapping:
        mapping["model_type"] = mapping.pop("family")
    return mapping


def choose_ops(config: Config, limits: Limits) -> Ops:
    """Choose the operators' backend, once."""
    known = config.registry.names("ops")
    name = config.general.ops
    if name == "auto":
        name = "native" if "native" in known and limits.device.type == "cpu" else "reference"
    ops: Ops = config.registry.get("ops", "ops", name)
    return ops
