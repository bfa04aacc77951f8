"""Settle every size, say what it takes, and only then allocate."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import attrs
import torch

from tierkv import config as configuration
from tierkv.cache import TieredCache
from tierkv.config import Choice, Config
from tierkv.constants import MAX_ROWS, Counter
from tierkv.errors import CapacityError, ConfigError, Faults, say, show
from tierkv.external import External, ExternalTier
from tierkv.footprint import Footprint
from tierkv.interfaces import SupportsView
from tierkv.layout import ModelSpec
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.site import Site
from tierkv.tiers import HostTier, memory

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
    limits, footprint = settle(config)
    ops = choose_ops(config, limits)
    ops.prepare()
    log.info("tierkv: %s operators, %s", ops.name, footprint)
    spec, choices = limits.spec, config.choices
    check_memory(config, limits, footprint)
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
        return _assemble(config, limits, footprint, ops, backing, pool)
    except BaseException as error:
        backing.close()
        pool.close()
        if isinstance(error, torch.OutOfMemoryError):
            nbytes = footprint.device + footprint.tables
            wrong = f"{nbytes:,} bytes were refused"
            do = "lower pool.slots, lanes or max_tokens"
            raise CapacityError(say("device", wrong, got=str(limits.device), do=do)) from None
        raise


def check_memory(config: Config, limits: Limits, footprint: Footprint) -> None:
    """Raise CapacityError where main memory cannot hold it all.

    The system would grant the memory, and end the process once it is touched.
    """
    wanted = {}
    on_cpu, backing = limits.device.type == "cpu", config.choices["backing"].component
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
    faults = Faults()
    if installer.component.copies and not server.component.ordered:
        faults.add(
            say(
                "installer.use",
                f"{installer.name} copies from the selection, but server.use "
                f"{server.name} permutes it",
                do="choose another of the two",
            )
        )
    _check_family(choices, faults)
    if not issubclass(choices["pool"].component, SupportsView):
        name = choices["pool"].name
        known = ["device", "host"]
        faults.add(say("pool.use", "kernels cannot address it", got=name, known=known))
    needs = {
        name: faults.attempt(choice.component.footprint, choice.options, limits)
        for name, choice in choices.items()
    }
    faults.check()
    return limits, Footprint.of(limits, selections=needs["server"], tables=needs["policy"])


def _check_family(choices: Mapping[str, Choice], faults: Faults) -> None:
    """Refuse a part of a family among others, naming one of each."""
    parts = [
        (f"{kind}.use", choices[kind]) for kind in ("planner", "server", "installer", "policy")
    ]
    for where, choice in parts:
        for other, member in parts:
            family = member.component.family
            if family and choice.component.family != family:
                wrong = f"does not go with {other} {member.name}"
                do = "take all four of a scheme, or none"
                faults.add(say(where, wrong, got=choice.name, do=do))
                return


def _limits(config: Config) -> Limits:
    general, page = config.general, config.backing.page
    faults = Faults()
    device = faults.attempt(_device, general.device)
    spec = faults.attempt(model_spec, config)
    slots = spec and faults.attempt(_slots, config, len(spec.groups))
    pages = spec and faults.attempt(_pages, config, spec)
    faults.check()
    return Limits(
        spec=spec, device=device, lanes=general.lanes, max_tokens=general.max_tokens,
        queries=general.queries, page=config.blocks.page if config.blocks else page, pages=pages,
        slots=slots, external=config.blocks is not None, debug=general.debug,
    )  # fmt: skip


def _pages(config: Config, spec: ModelSpec) -> int:
    general, backing = config.general, config.backing
    if config.blocks:
        return config.blocks.pages
    lane_pages = -(-general.max_tokens // backing.page)
    pages = lane_pages * general.lanes
    if backing.capacity is not None:
        pages = min(pages, backing.capacity // (backing.page * spec.row_bytes))
    if pages < lane_pages:
        need = lane_pages * backing.page * spec.row_bytes
        raise ConfigError(
            say(
                "backing.capacity",
                f"one request of max_tokens {general.max_tokens:,} needs {need:,} bytes",
                got=backing.capacity,
                do="raise it, or lower max_tokens",
            )
        )
    rows = pages * backing.page
    if rows > MAX_ROWS:
        wrong = f"{rows:,} tokens are more than {MAX_ROWS:,}"
        do = "lower it, lanes or max_tokens"
        raise ConfigError(say("backing.capacity", wrong, got=backing.capacity, do=do))
    return pages


def _slots(config: Config, groups: int) -> tuple[int, ...]:
    """Give P of each group, 0 where the selection buffers are the pool."""
    slots = config.pool.slots
    each = [slots] * groups if isinstance(slots, int) else slots
    if len(each) != groups:
        wrong = f"the model has {groups} layer groups"
        raise ConfigError(say("pool.slots", wrong, got=slots, do="one number a group, or just one"))
    pooled = config.choices["server"].component.pooled
    return tuple(each) if pooled else (0,) * groups


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        accelerator = torch.accelerator.current_accelerator()
        known = ["cpu", accelerator.type] if accelerator else ["cpu"]
        raise ConfigError(say("device", "unknown device", got=name, known=known)) from None
    if device.type == "meta":
        raise ConfigError(say("device", "holds no data", got=name))
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).splitlines()[0]
        raise ConfigError(say("device", f"cannot be used, {why}", got=name)) from None


def model_spec(config: Config) -> ModelSpec:
    """Find out what the configured model's KV looks like."""
    model = config.model
    if model is None:
        do = "set model, choose a scheme, or pass load(model=...)"
        raise ConfigError(say("model", "is missing", do=do))
    if not isinstance(model, ModelSpec):
        model = config.registry.model(model_mapping(model))
    return config.blocks.spec(model) if config.blocks else model


def model_mapping(model: Any) -> dict[str, Any]:
    """Bring a model's configuration into the form of a ``config.json``."""
    if isinstance(model, str | Path):
        try:
            model = json.loads(Path(model).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else f"it is not JSON, {error}"
            do = "give the path of a config.json, or a mapping with family"
            raise ConfigError(
                say("model", f"cannot be read, {why}", got=str(model), do=do)
            ) from None
    if hasattr(model, "to_dict"):
        model = model.to_dict()
    if not isinstance(model, Mapping):
        wrong = f"expected a mapping or the path of a config.json, got {show(model)}"
        raise ConfigError(say("model", wrong))
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
