"""A policy to compare: a registered name and options."""

from dataclasses import dataclass
from typing import Any

import yaml

from tierkv.errors import ConfigError, say
from tierkv.registry import Registry
from tierkv.structure import structure

BELADY = "belady"
UNBOUNDED = "unbounded"


@dataclass(frozen=True)
class Contender:
    """A policy's class and options."""

    name: str
    """As asked for."""
    component: Any
    options: Any

    @classmethod
    def parse(cls, text: str, registry: Registry) -> "Contender":
        """Read ``name`` or ``name:option=value,option=value``, values as in YAML.

        Raises
        ------
        ConfigError
        """
        use, _, given = text.partition(":")
        component = registry.get("policy", "policy", use)
        pairs = dict(pair.partition("=")[::2] for pair in given.split(",") if pair)
        try:
            values = {key: yaml.safe_load(value) for key, value in pairs.items()}
        except yaml.YAMLError:
            raise ConfigError(say(f"policy {use}", "options are not YAML", got=given)) from None
        return cls(text, component, structure(f"policy {use}", values, component.Options))
