"""Plain data to attrs classes, strictly, with the path of what is wrong."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast, get_origin

import attrs
import cattrs
from cattrs.cols import list_structure_factory
from cattrs.errors import ForbiddenExtraKeysError
from cattrs.v import format_exception, transform_error

from tierkv.errors import ConfigError, Faults, show

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
            raise TypeError(f"expected {word}, got {show(value)}")
        return value

    converter.register_structure_hook(kind, hook)


def _bytes(value: Any, _: Any) -> Bytes:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *(\w*)", str(value))
    if isinstance(value, bool | float) or not match or match[2] not in _UNITS:
        raise TypeError(f"expected bytes like 64GiB or a whole number, got {show(value)}")
    return Bytes(
        float(match[1]) * _UNITS[match[2]] if "." in match[1] else int(match[1]) * _UNITS[match[2]]
    )


def _one_or_many(value: Any, _: Any) -> int | list[int]:
    if isinstance(value, list):
        return _CONVERTER.structure(value, list[int])
    if type(value) is not int:
        raise TypeError(f"expected a whole number or a list of them, got {show(value)}")
    return value


def _is_list(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is list


def _list(kind: Any, converter: Any) -> Any:
    # cattrs itself would take the letters of a text for a list of texts.
    inner = list_structure_factory(kind, converter)

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError(f"expected a list, got {show(value)}")
        return inner(value, kind)

    return hook


def _number_or_all(value: Any, _: Any) -> int | str:
    if value != "all" and type(value) is not int:
        raise TypeError(f"expected a whole number or all, got {show(value)}")
    return cast("int | str", value)


def _make() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    _strict(converter, int, "a whole number")
    _strict(converter, str, "text")
    _strict(converter, bool, "true or false")
    converter.register_structure_hook(Bytes, _bytes)
    converter.register_structure_hook_func(lambda kind: kind == int | list[int], _one_or_many)
    lists: Any = _list
    converter.register_structure_hook_factory(_is_list, lists)
    converter.register_structure_hook_func(
        lambda kind: kind == int | Literal["all"], _number_or_all
    )
    return converter


_CONVERTER = _make()


def unknown_keys(where: str, raw: Mapping[Any, Any], known: Sequence[str]) -> list[str]:
    """Say of each key that is not known which was probably meant; a line each."""
    lines = []
    for key in raw:
        if key not in known:
            name = key if isinstance(key, str) and key.isprintable() else show(key)
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            lines.append(f"{where}: unknown key {name}; known {', '.join(known)}{hint}")
    return lines


def _say(error: BaseException, kind: Any) -> str:
    if isinstance(error, ForbiddenExtraKeysError):  # of a class within an options class
        known = keys_of(error.cl)
        return f"unknown key {', '.join(sorted(error.extra_fields))}; known {', '.join(known)}"
    if isinstance(error, ConfigError):  # from an options class; it names its own field
        return f".{error}"
    if isinstance(error, TypeError | ValueError):
        return str(error)
    return str(format_exception(error, kind))


def _lines(where: str, text: str) -> Iterator[str]:
    match = re.fullmatch(r"(?s)(.*) @ \$\.?(.*)", text)
    what, path = (match[1], match[2]) if match else (text, "")
    path = ".".join(filter(None, (where, path)))
    if not what.startswith("."):
        yield f"{path or 'config'}: {what}"
        return
    for line in what[1:].splitlines():
        yield f"{path}.{line}".lstrip(".")


def keys_of(kind: Any) -> list[str]:
    """Give the keys that make a `kind`, an attrs class."""
    return [field.name for field in attrs.fields(kind)]


def structure(where: str, raw: Any, kind: type[T]) -> T:
    """Make a `kind`, an attrs class, of the mapping `raw`.

    Raises
    ------
    ConfigError
        One line for each fault, starting with its dotted path under `where`.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where}: expected a mapping, got {show(raw)}")
    faults = Faults()
    known = keys_of(kind)
    for line in unknown_keys(where or "config", raw, known):
        faults.add(line)
    made: Any = None
    try:
        made = _CONVERTER.structure({key: raw[key] for key in raw if key in known}, kind)
    except Exception as error:
        for text in transform_error(error, format_exception=_say):
            for line in _lines(where, text):
                faults.add(line)
    faults.check()
    return cast("T", made)
