"""Reading YAML so that nothing is silently lost or run."""

from pathlib import Path
from typing import Any

import yaml

from tierkv.errors import ConfigError, say


class _Loader(yaml.SafeLoader):
    """Safe, and a repeated key is an error."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is not text", key_node.start_mark
            )
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} stands twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read(path: str | Path) -> dict[str, Any]:
    """Read a file that holds one mapping.

    Raises
    ------
    ConfigError
        One line, with the line number where there is one.
    """
    try:
        raw = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # a safe subclass
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(say(str(path), f"cannot be read: {error}")) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise ConfigError(say(where, f"is not a plain YAML mapping, {problem}")) from None
    if not isinstance(raw, dict):
        found = "an empty file" if raw is None else type(raw).__name__
        raise ConfigError(
            say(str(path), f"must hold a mapping, it holds {found}", do="see examples/")
        )
    return raw
