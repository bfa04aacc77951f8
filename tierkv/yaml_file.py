"""Reading YAML so that nothing is silently lost or run."""

from pathlib import Path
from typing import Any

import yaml

from tierkv.errors import ConfigError, say, show


class _Loader(yaml.SafeLoader):
    """Safe, and a repeated key is an error."""


class _Refused(yaml.YAMLError):
    """What YAML allows and a configuration does not."""

    def __init__(self, wrong: str, node: yaml.Node) -> None:
        super().__init__(wrong)
        self.wrong, self.problem_mark = wrong, node.start_mark


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _Refused(f"a key must be text, got {show(key)} (put it in quotes)", key_node)
        if key in seen:
            raise _Refused(f"key {show(key)} stands twice (keep one of them)", key_node)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


def _tagged(loader: _Loader, node: yaml.Node) -> Any:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    raise _Refused(f"a tag is not allowed, got {show(tag)} (write a plain value)", node)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_constructor(None, _tagged)


def read(path: str | Path) -> dict[str, Any]:
    """Read a file that holds one mapping.

    Raises
    ------
    ConfigError
        One line, with the line number where there is one.
    """
    try:
        raw = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # a safe subclass
    except OSError as error:
        raise ConfigError(say(str(path), f"cannot be read: {error.strerror}")) from None
    except UnicodeDecodeError:
        raise ConfigError(say(str(path), "is not text in UTF-8", do="see examples/")) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(_fault(path, error)) from None
    if not isinstance(raw, dict):
        found = "nothing" if raw is None else f"one {type(raw).__name__}"
        raise ConfigError(
            say(str(path), f"must hold a mapping, it holds {found}", do="see examples/")
        )
    return raw


def _fault(path: str | Path, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}" if mark else str(path)
    if isinstance(error, _Refused):
        return say(where, error.wrong)
    if isinstance(error, RecursionError):
        return say(where, "is not a configuration, it nests too deeply", do="see examples/")
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    return say(where, f"is not YAML, {problem}", do="see examples/")
