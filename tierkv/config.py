"""From YAML to a checked configuration. Nothing here allocates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tierkv import __version__, core_plugin, yaml_file
from tierkv.constants import MAX_PAGE, MAX_ROWS, MIN_PAGE
from tierkv.errors import ConfigError, Faults, say, show
from tierkv.external import External
from tierkv.interfaces import NoOptions
from tierkv.registry import CORE, Registry
from tierkv.structure import Bytes, keys_of, structure, unknown_keys

DEFAULTS: dict[str, Any] = {
    "backing": {"use": "host"},
    "pool": {"use": "device"},
    "policy": {"use": "set-fifo"},
    "planner": {"use": "table"},
    "server": {"use": "copy"},
    "installer": {"use": "copy"},
    "ops": {"use": "auto"},
}
KINDS = {"backing": "tier", "pool": "tier"} | {
    kind: kind for kind in ("policy", "planner", "server", "installer", "ops")
}
AUTO = "auto"
"""Beside the registered ``ops``: the device decides."""
DOCTOR = "see tierkv doctor"


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

    def __attrs_post_init__(self) -> None:
        if not MIN_PAGE <= self.page <= MAX_PAGE or self.page & (self.page - 1):
            wrong = f"must be a power of two from {MIN_PAGE} to {MAX_PAGE}"
            raise ConfigError(say("page", wrong, got=self.page))


@attrs.frozen
class Pool:
    """The keys of ``pool`` that are the cache's."""

    slots: int | list[int] = 8192
    """Resident records of each lane and layer, or one number a layer group."""

    def __attrs_post_init__(self) -> None:
        slots = self.slots if isinstance(self.slots, list) else [self.slots]
        _within(slots=slots)


@attrs.frozen
class General:
    """The top-level keys that are no component."""

    scheme: str | None = None
    """A plugin's bundle of defaults for everything else."""
    lanes: int = 8
    """Requests that run at once."""
    max_tokens: int = 65_536
    """Longest request, prompt and answer together."""
    queries: int = 1
    """Most query positions a row and step: 1 + drafts."""
    device: str = "cpu"
    """Where pool, tables and selections lie; torch's name of it."""
    debug: bool = False
    """Check on every step what is otherwise the caller's word; slow."""

    def __attrs_post_init__(self) -> None:
        _within(lanes=[self.lanes], max_tokens=[self.max_tokens], queries=[self.queries])


def _within(**numbers: list[int]) -> None:
    """Raise ConfigError, a line for each number that is not from 1 to what an int32 can count."""
    faults = Faults()
    for key, values in numbers.items():
        for value in values:
            if not 1 <= value <= MAX_ROWS:
                faults.add(say(key, f"must be 1 to {MAX_ROWS:,}", got=value))
    faults.check()


@attrs.frozen
class Choice:
    """A component that was chosen, and its options."""

    name: str
    component: Any
    options: Any

    def among(self, variants: Mapping[str, Any]) -> "Choice":
        """Give the same with the component that stands in for it, if there is one."""
        return attrs.evolve(self, component=variants.get(self.name, self.component))


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
    ops: Choice
    """Operators; the component is None for ``auto``."""
    blocks: External | None = None
    """An engine's own pages and records instead of ``backing``."""


def make_registry(block: tuple[str, ...] = ()) -> Registry:
    """Load core and the installed plugins but those in `block`."""
    registry = Registry()
    registry.add_plugin(CORE, core_plugin, f"{CORE} {__version__}")
    registry.load(block)
    return registry


def blocked(path: str | Path) -> tuple[str, ...]:
    """Give the plugins that a YAML file blocks; nothing else of it is checked."""
    section = yaml_file.read(path).get("plugins", {})
    return tuple(structure("plugins", section, Plugins).block)


def read(source: str | Path | Mapping[str, Any], **overrides: Any) -> Config:
    """Check a YAML file or a mapping of the same form; `overrides` that are not None win.

    Raises
    ------
    ConfigError
        One line for each fault: dotted key, what is wrong, value, what is allowed.
    """
    raw = dict(source) if isinstance(source, Mapping) else yaml_file.read(source)
    raw |= {key: value for key, value in overrides.items() if value is not None}
    faults = Faults()
    plugins = faults.attempt(structure, "plugins", raw.pop("plugins", {}), Plugins) or Plugins()
    registry = make_registry(tuple(plugins.block))
    faults.attempt(registry.require, plugins.require)
    known = [*keys_of(General), "model", *DEFAULTS, "plugins"]
    for line in unknown_keys("config", raw, known):
        faults.add(line)
    return _resolve({key: raw[key] for key in raw if key in known}, registry, faults)


def _resolve(raw: dict[str, Any], registry: Registry, faults: Faults) -> Config:
    scheme = raw.get("scheme")
    defaults = (
        faults.attempt(registry.get, "scheme", "scheme", scheme)
        if isinstance(scheme, str)
        else None
    )
    merged = _over(DEFAULTS, defaults or {})
    merged = _over(merged, raw)
    model = merged.pop("model", None)
    parts = {name: merged.pop(name) for name in DEFAULTS}
    general = faults.attempt(structure, "", merged, General)
    choices, own = {}, {}
    for name, section in parts.items():
        keys = {"backing": Backing, "pool": Pool}.get(name)
        chosen = faults.attempt(_choose, registry, name, section, keys)
        if chosen is not None:
            choices[name], own[name] = chosen
    faults.check()
    choices["policy"] = choices["policy"].among(choices["planner"].component.variants)
    ops = choices.pop("ops")
    return Config(general, registry, model, own["backing"], own["pool"], choices, ops)


def _component(registry: Registry, name: str, use: str) -> Any:
    """Give what a section names; None for operators that the device will decide on."""
    if name != "ops":
        return registry.get(f"{name}.use", KINDS[name], use)
    if use == AUTO:
        return None
    if use == "native" and use not in registry.components("ops"):
        known = [AUTO, *registry.names("ops")]
        raise ConfigError(say("ops.use", "is not built here", got=use, known=known, do=DOCTOR))
    return registry.get("ops.use", "ops", use, [AUTO])


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
    return set(keys_of(keys)) if keys else set()


def _choose(registry: Registry, name: str, section: Any, keys: type | None) -> tuple[Choice, Any]:
    names = registry.names(KINDS[name])
    if not isinstance(section, Mapping):
        wrong = f"expected a mapping or a name, got {show(section)}"
        raise ConfigError(say(name, wrong, known=names))
    use = section.get("use")
    if not isinstance(use, str):
        wrong = f"expected text, got {show(use)}"
        raise ConfigError(say(f"{name}.use", wrong, known=names))
    component = _component(registry, name, use)
    kind = component.Options if component else NoOptions
    shared = sorted(_shared_keys(name))
    options = keys_of(kind)
    faults = Faults()
    for line in unknown_keys(name, section, ["use", *shared, *options]):
        faults.add(line)
    given = {key: section[key] for key in section if key in shared}
    own = faults.attempt(structure, name, given, keys) if keys else None
    given = {key: section[key] for key in section if key in options}
    chosen = faults.attempt(structure, name, given, kind)
    faults.check()
    return Choice(use, component, chosen), own
