"""A configuration whose sizes are settled and whose parts fit. Nothing here allocates."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch

from tierkv.config import AUTO, Choice, Config
from tierkv.constants import MAX_ROWS
from tierkv.errors import ConfigError, Faults, say, show
from tierkv.footprint import Footprint
from tierkv.interfaces import SupportsView
from tierkv.layout import ModelSpec
from tierkv.limits import Limits
from tierkv.ops import Ops
from tierkv.structure import structure


@attrs.frozen
class Blueprint:
    """What a cache will be built from."""

    choices: Mapping[str, Choice]
    """As configured, but with the tiers that stand in for others with these operators."""
    limits: Limits
    ops: Ops
    footprint: Footprint


def settle(config: Config) -> Blueprint:
    """Settle all sizes and the operators; check that the parts fit them and each other."""
    limits = _limits(config)
    faults = Faults()
    ops = faults.attempt(choose_ops, config, limits)
    choices = dict(config.choices)
    if ops is not None:
        choices |= {name: choices[name].among(ops.variants) for name in ("backing", "pool")}
        faults.attempt(ops.check, choices, limits)
    server, installer = choices["server"], choices["installer"]
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
    footprint = Footprint.of(limits, selections=needs["server"], tables=needs["policy"])
    return Blueprint(choices, limits, ops, footprint)


def choose_ops(config: Config, limits: Limits) -> Ops:
    """Give the operators; ``auto`` takes the first registered for the device, else ``reference``.

    Raises
    ------
    ConfigError
        If they do not run on the device, or cannot work here.
    """
    kind, chosen = limits.device.type, config.ops
    components = config.registry.components("ops")
    if chosen.component is None:
        name = next((name for name in components if kind in components[name].devices), "reference")
        component = components[name]
        chosen = Choice(name, component, structure("ops", {}, component.Options))
    devices = chosen.component.devices
    if devices and kind not in devices:
        fit = [name for name, known in components.items() if kind in (known.devices or (kind,))]
        wrong = f"runs on {', '.join(devices)}, but device is {kind}"
        raise ConfigError(say("ops.use", wrong, got=chosen.name, known=[AUTO, *fit]))
    if isinstance(chosen.component, Ops):
        return chosen.component
    made: Ops = chosen.component(chosen.options, limits)
    return made


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
    device = faults.attempt(_device, config)
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


def _device(config: Config) -> torch.device:
    name = config.general.device
    try:
        device = torch.device(name)
    except RuntimeError:
        accelerator = torch.accelerator.current_accelerator()
        known = ["cpu", accelerator.type] if accelerator else ["cpu"]
        backends = config.registry.components("ops").values()
        serving = [ops for ops in backends if name.split(":")[0] in ops.devices]
        wanting = [found.do for found in (ops.doctor() for ops in serving) if found and found.do]
        do = "; ".join([*wanting, "import its extension of torch first"]) if serving else ""
        raise ConfigError(say("device", "unknown device", got=name, known=known, do=do)) from None
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
