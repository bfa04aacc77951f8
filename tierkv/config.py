"""From YAML to a checked configuration. Nothing here allocates."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tierkv import core_plugin, yaml_file
from tierkv.errors import ConfigError
from tierkv.registry import CORE, Registry
from tierkv.structure import Bytes, structure, unknown_keys

DEFAULTS: dict[str, Any] = {
    "backing": {"use": "host"},
    "pool": {"use": "device"},
    "policy": {"use": "set-fifo"},
    "planner": {"use": "table"},
    "server": {"use": "copy"},
    "installer": {"use": "copy"},
}
_KIND = {"backing": "tier", "pool": "tier"} | {
    kind: kind for kind in ("policy", "planner", "server", "installer")
}


@attrs.frozen
class Plugins:
    """Which plugins must and must not be loaded."""

    require: list[str] = attrs.field(factory=list)
    block: list[str] = attrs.field(factory=list)


@attrs.frozen
class Backing:
    """The keys of ``backing`` that are the cache's, beside the tier's own."""

    capacity: Bytes | None = None
    """Bytes for records of all layers; default: every lane at ``max_tokens``."""
    page: int = 128
    """Records a page, a power of two from 16 to 1024."""


@attrs.frozen
class Pool:
    """The keys of ``pool`` that are the cache's."""

    slots: int | list[int] = 8192
    """Resident records of each lane and layer, or one number a layer group."""


@attrs.frozen
class General:
    """The top-level keys that are no component."""

    scheme: str | None = None
    lanes: int = 8
    max_tokens: int = 65_536
    queries: int = 1
    device: str = "cpu"
    debug: bool = False
    ops: str = "auto"


@attrs.frozen
class Choice:
    """A component that was chosen, and its options."""

    name: str
    component: Any
    options: Any


@attrs.frozen
class Config:
    """A configuration whose every name and type has been checked."""

    general: General
    registry: Registry
    model: Any
    """A ModelSpec, a mapping, a path to a config.json, an object with ``to_dict``, or None."""
    backing: Backing
    pool: Pool
    choices: Mapping[str, Choice]
    """``backing``, ``pool``, ``policy``, ``planner``, ``server``, ``installer``."""


def make_registry(block: tuple[str, ...] = ()) -> Registry:
    """Load core and the installed plugins but those in `block`."""
    registry = Registry()
    registry.add_plugin(CORE, core_plugin, CORE)
    registry.load(block)
    return registry


def read(source: str | Path | Mapping[str, Any], **overrides: Any) -> Config:
    """Check a YAML file or a mapping of the same form; `overrides` that are not None win.

    Raises
    ------
    ConfigError
        One line for each fault: dotted key, what is wrong, value, what is allowed.
    """
    raw = dict(source) if isinstance(source, Mapping) else yaml_file.read(source)
    raw |= {key: value for key, value in overrides.items() if value is not None}
    known = [field.name for field in attrs.fields(General)] + ["model", *DEFAULTS, "plugins"]
    bad = sorted(str(key) for key in raw if key not in known)
    if bad:
        raise ConfigError(f"config: {unknown_keys(bad, known)}")
    plugins = structure("plugins", raw.pop("plugins", {}), Plugins)
    registry = make_registry(tuple(plugins.block))
    registry.require(plugins.require)
    return _resolve(raw, registry)


def _resolve(raw: dict[str, Any], registry: Registry) -> Config:
    faults: list[str] = []

    def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except ConfigError as error:
            faults.append(str(error))
            return None

    scheme = raw.get("scheme")
    defaults = (
        attempt(registry.get, "scheme", "scheme", scheme) if isinstance(scheme, str) else None
    )
    merged = _over(DEFAULTS, defaults or {})
    merged = _over(merged, raw)
    model = merged.pop("model", None)
    parts = {name: merged.pop(name) for name in DEFAULTS}
    general = attempt(structure, "", merged, General)
    choices, own = {}, {}
    for name, section in parts.items():
        keys = {"backing": Backing, "pool": Pool}.get(name)
        chosen = attempt(_choose, registry, name, section, keys)
        if chosen is not None:
            choices[name], own[name] = chosen
    if faults:
        raise ConfigError("\n".join(faults))
    return Config(general, registry, model, own["backing"], own["pool"], choices)


def _over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """Lay `top` over `base`; a component or model of another name inherits no options."""
    merged = dict(base)
    for key, given in top.items():
        value = {"use": given} if key in DEFAULTS and isinstance(given, str) else given
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            name = "family" if key == "model" else "use"
            same = value.get(name, below.get(name)) == below.get(name)
            kept = below if same else {k: below[k] for k in below if k in _shared_keys(key)}
            value = {**kept, **value}
        merged[key] = value
    return merged


def _shared_keys(section: str) -> set[str]:
    keys = {"backing": Backing, "pool": Pool}.get(section)
    return {field.name for field in attrs.fields(keys)} if keys else set()


def _choose(registry: Registry, name: str, section: Any, keys: type | None) -> tuple[Choice, Any]:
    if not isinstance(section, Mapping):
        raise ConfigError(f"{name}: expected a mapping or a name, got {section!r}")
    use = section.get("use")
    if not isinstance(use, str):
        raise ConfigError(f"{name}.use: expected text, got {use!r}")
    component = registry.get(f"{name}.use", _KIND[name], use)
    shared = {key: section[key] for key in section if key in _shared_keys(name)}
    rest = {key: section[key] for key in section if key not in shared and key != "use"}
    options = [field.name for field in attrs.fields(component.Options)]
    bad = sorted(key for key in rest if key not in options)
    if bad:
        raise ConfigError(
            f"{name}: {unknown_keys(bad, ['use', *sorted(_shared_keys(name)), *options])}"
        )
    own = structure(name, shared, keys) if keys else None
    return Choice(use, component, structure(name, rest, component.Options)), own
