"""Plain data to attrs classes, strictly, with the path of what is wrong."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.v import format_exception, transform_error

from tierkv.errors import ConfigError

T = TypeVar("T")
_UNITS = {"": 1, "B": 1} | {
    f"{letter}{middle}B": base ** (power + 1)
    for power, letter in enumerate("KMGT")
    for middle, base in (("i", 1024), ("", 1000))
}


class Bytes(int):
    """A number of bytes, written as a whole number or like 64GiB."""


def _strict(converter: cattrs.Converter, kind: type, word: str) -> None:
    # cattrs itself would take "12", 1.9 and True for a whole number.
    def hook(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {word}, got {value!r}")
        return value

    converter.register_structure_hook(kind, hook)


def _bytes(value: Any, _: Any) -> Bytes:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *(\w*)", str(value))
    if isinstance(value, bool | float) or not match or match[2] not in _UNITS:
        raise TypeError(f"expected bytes like 64GiB or a whole number, got {value!r}")
    return Bytes(
        float(match[1]) * _UNITS[match[2]] if "." in match[1] else int(match[1]) * _UNITS[match[2]]
    )


def _one_or_many(value: Any, _: Any) -> int | list[int]:
    if isinstance(value, list):
        return [_CONVERTER.structure(item, int) for item in value]
    return _CONVERTER.structure(value, int)


def _make() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    _strict(converter, int, "a whole number")
    _strict(converter, str, "text")
    _strict(converter, bool, "true or false")
    converter.register_structure_hook(Bytes, _bytes)
    converter.register_structure_hook_func(lambda kind: kind == int | list[int], _one_or_many)
    return converter


_CONVERTER = _make()


def unknown_keys(bad: list[str], known: list[str]) -> str:
    """Say which keys are unknown, and which was probably meant."""
    near = difflib.get_close_matches(bad[0], known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown key {', '.join(bad)}; known {', '.join(known)}{hint}"


def _say(error: BaseException, kind: Any) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.name for field in attrs.fields(error.cl)]
        return unknown_keys(sorted(map(str, error.extra_fields)), known)
    if isinstance(error, ConfigError):  # from an options class; it names its own field
        return f".{error}"
    if isinstance(error, TypeError | ValueError):
        return str(error)
    return str(format_exception(error, kind))


def structure(where: str, raw: Mapping[str, Any], kind: type[T]) -> T:
    """Make a `kind` of `raw`.

    Raises
    ------
    ConfigError
        One line for each fault, starting with its dotted path under `where`.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where}: expected a mapping, got {raw!r}")
    try:
        return _CONVERTER.structure(raw, kind)
    except Exception as error:
        lines = []
        for text in transform_error(error, format_exception=_say):
            match = re.fullmatch(r"(?s)(.*) @ \$\.?(.*)", text)
            what, path = (match[1], match[2]) if match else (text, "")
            path = ".".join(filter(None, (where, path)))
            own = what.startswith(".")
            lines.append((path + what).lstrip(".") if own else f"{path or 'config'}: {what}")
        raise ConfigError("\n".join(lines)) from None
