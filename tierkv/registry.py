"""Names to components, from core and from plugins."""

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import attrs
import pluggy

from tierkv import hookspecs
from tierkv.errors import ConfigError, Faults, PluginError, TierKVError, say, show
from tierkv.hookspecs import PROJECT
from tierkv.interfaces import Installer, Planner, Policy, Server, Tier
from tierkv.layout import ModelSpec
from tierkv.ops import Ops

API_VERSION = 1
"""A plugin may define ``TIERKV_API``; one that needs another version is refused by name."""

INTERFACES: dict[str, type] = {
    "tier": Tier,
    "policy": Policy,
    "planner": Planner,
    "server": Server,
    "installer": Installer,
}
"""Kinds whose components are classes with that interface."""
KINDS = (*INTERFACES, "ops", "scheme")
CORE = "tierkv"
"""The name under which core registers its own components."""


class Registry:
    """The components of core and of every plugin that loaded."""

    def __init__(self) -> None:
        self._components: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self._origin: dict[tuple[str, str], str] = {}
        self._plugins = pluggy.PluginManager(PROJECT)
        self._plugins.add_hookspecs(hookspecs)
        self.distributions: dict[str, str] = {}
        """Plugin name -> distribution and version, of those that loaded."""
        self.brought: dict[str, list[tuple[str, str]]] = {}
        """Plugin name -> kind and name of each component it registered."""
        self.broken: dict[str, PluginError] = {}
        """Plugin name -> why it did not load."""
        self.blocked: set[str] = set()

    def load(self, block: Iterable[str] = ()) -> None:
        """Load the entry points of group ``tierkv`` one by one; a broken one is kept aside."""
        for entry in sorted(entry_points(group=PROJECT), key=lambda entry: entry.name):
            if entry.name in block:
                self.blocked.add(entry.name)
                continue
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown"
            try:
                self.add_plugin(entry.name, self._import(entry), origin)
            except (Exception, SystemExit) as error:  # sys.exit at import happens
                own = isinstance(error, PluginError)
                why = str(error) if own else f"{type(error).__name__}: {error}"
                self.broken[entry.name] = PluginError(
                    say(f"plugin {entry.name} ({origin})", f"does not load, {why}",
                        do=f"reinstall {origin}, or add {entry.name} to plugins.block")
                )  # fmt: skip

    @staticmethod
    def _import(entry: EntryPoint) -> ModuleType:
        module: ModuleType = entry.load()
        wanted = getattr(module, "TIERKV_API", API_VERSION)
        if wanted != API_VERSION:
            raise PluginError(f"it needs plugin API {wanted}, this is {API_VERSION}")
        return module

    def add_plugin(self, name: str, plugin: object, origin: str) -> None:
        """Register a plugin object and what it brings; nothing of it stays if that fails."""
        if name in self.distributions:  # before anything that a failure would take back
            taken = f"{self.distributions[name]} has a plugin of that name too"
            raise PluginError(f"{taken}, uninstall one of them")
        registrar = Registrar(self, origin)
        try:
            self._plugins.register(plugin, name=name)  # a wrong signature is found here,
            self._plugins.check_pending()  # an unknown tierkv_ hook here
            others = [known for _, known in self._plugins.list_name_plugin() if known is not plugin]
            self._plugins.subset_hook_caller("tierkv_register", others)(registry=registrar)
        except BaseException:
            if self._plugins.has_plugin(name):
                self._plugins.unregister(name=name)
            for kind, known in registrar.added:
                del self._components[kind][known], self._origin[kind, known]
            raise
        self.distributions[name], self.brought[name] = origin, registrar.added

    def add(self, kind: str, name: str, component: Any, origin: str = CORE) -> None:
        """Register one component under a kebab-case name."""
        if kind not in KINDS:
            raise PluginError(say(f"register {name}", "unknown kind", got=kind, known=KINDS))
        wrong = _unfit(kind, component)
        if wrong:
            raise PluginError(say(f"{kind} {name} of {origin}", wrong))
        if name in self._components[kind]:
            raise PluginError(
                say(
                    f"{kind} {name}",
                    f"is registered by {self._origin[kind, name]} and by {origin}",
                    do="block one of them in plugins.block",
                )
            )
        self._components[kind][name] = component
        self._origin[kind, name] = origin

    def get(self, where: str, kind: str, name: str, known: Iterable[str] = ()) -> Any:
        """Give a component; ConfigError if there is none, with the registered names and `known`."""
        components = self._components[kind]
        if name not in components:
            names = [*known, *sorted(components)]
            raise ConfigError(say(where, f"unknown {kind}", got=name, known=names, do=self._hint()))
        return components[name]

    def components(self, kind: str) -> Mapping[str, Any]:
        """Components of a kind by name, in the order in which they were registered."""
        return self._components[kind]

    def names(self, kind: str) -> dict[str, str]:
        """Registered names of a kind -> the distribution that brought it."""
        return {name: self._origin[kind, name] for name in sorted(self._components[kind])}

    def require(self, names: Iterable[str]) -> None:
        """Raise ConfigError, a line for each required plugin that did not load."""
        faults = Faults()
        for name in names:
            if name in self.broken:
                faults.add(f"plugins.require: {self.broken[name]}")
            elif name in self.blocked:
                faults.add(say("plugins.require", "is in plugins.block too", got=name))
            elif name not in self.distributions:
                known = sorted(self.distributions)
                do = f"pip install tierkv-{name}"
                faults.add(say("plugins.require", "is not installed", got=name, known=known, do=do))
        faults.check()

    def model(self, config: Mapping[str, Any]) -> ModelSpec:
        """Ask the plugins for a model's specification."""
        family = config.get("model_type")
        if not isinstance(family, str):
            raise ConfigError(say("model.family", f"expected text, got {show(family)}"))
        for hook in reversed(self._plugins.hook.tierkv_model.get_hookimpls()):
            try:
                spec: Any = hook.function(model_config=config)
            except TierKVError:
                raise
            except Exception as error:
                origin = self.distributions[hook.plugin_name]
                why = f"plugin {hook.plugin_name} ({origin}) failed on it, {error!r}"
                do = f"report it to {origin}"
                raise PluginError(say("model", why, do=do)) from error
            if isinstance(spec, ModelSpec):
                return spec
        do = self._hint() or "install a plugin that implements tierkv_model"
        raise ConfigError(say("model.family", "no plugin knows it", got=family, do=do))

    def reads_models(self, plugin: str) -> bool:
        """Whether a plugin implements ``tierkv_model``."""
        hooks = self._plugins.hook.tierkv_model.get_hookimpls()
        return any(hook.plugin_name == plugin for hook in hooks)

    def _hint(self) -> str:
        hints = [str(error) for error in self.broken.values()]
        hints += [f"plugin {name} is in plugins.block" for name in sorted(self.blocked)]
        return "; ".join(hints)


def _unfit(kind: str, component: Any) -> str:
    """Say why `component` cannot be one of its kind; empty if it can."""
    if kind == "scheme":
        fits = isinstance(component, Mapping)
        return "" if fits else f"must be of type Mapping, got {show(component)}"
    if kind == "ops":
        return _unfit_ops(component)
    wanted = INTERFACES[kind]
    if not isinstance(component, type) or not issubclass(component, wanted):
        return f"must be a class derived from tierkv.{wanted.__name__}, got {show(component)}"
    lacks = sorted(getattr(component, "__abstractmethods__", ()))
    return f"{component.__name__} does not implement {', '.join(lacks)}" if lacks else ""


def _unfit_ops(component: Any) -> str:
    if isinstance(component, Ops):
        return ""
    if not isinstance(component, type) or not issubclass(component, Ops) or component is Ops:
        return f"must be of type Ops or a class derived from it, got {show(component)}"
    fits = attrs.has(component.Options)
    return "" if fits else f"{component.__name__}.Options must be an attrs class"


class Registrar:
    """What ``tierkv_register`` receives: adds components in one distribution's name."""

    def __init__(self, registry: Registry, origin: str) -> None:
        self._registry, self._origin = registry, origin
        self.added: list[tuple[str, str]] = []

    def add(self, kind: str, name: str, component: Any) -> None:
        """Register `component` of a kind under a kebab-case name.

        Kinds ``tier``, ``policy``, ``planner``, ``server``, ``installer`` take a class with the
        interface of that name, ``ops`` an :class:`~tierkv.ops.Ops` or a class derived from it,
        ``scheme`` a mapping like a configuration, whose values are defaults.
        """
        self._registry.add(kind, name, component, self._origin)
        self.added.append((kind, name))
