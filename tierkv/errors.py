"""Every error tierkv raises, and the one form they are written in."""

import difflib
import reprlib
from collections.abc import Callable, Iterable
from typing import Any


class TierKVError(Exception):
    """Base of all errors raised by tierkv."""


class ConfigError(TierKVError, ValueError):
    """A configuration cannot be built. Raised before anything is allocated."""


class PluginError(TierKVError):
    """A plugin is missing, broken, or in conflict with another."""


class CapacityError(TierKVError):
    """Lanes, pages, tokens or memory do not suffice. Nothing was changed."""


class StateError(TierKVError):
    """A call came out of order, or names what does not exist. Nothing was changed."""


class ShapeError(TierKVError, ValueError):
    """A tensor has the wrong shape, dtype or device."""


class LibraryError(TierKVError, ImportError):
    """An optional library is missing, or of a release that is not supported."""


class TraceError(TierKVError):
    """A trace cannot be read, is damaged, or is none."""


class TierError(TierKVError, OSError):
    """A tier failed to read or write; the message names the rows."""


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxtuple, _SHORT.maxdict = 2, 64, 64, 8
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 160
_LONGEST = 400


def show(value: object) -> str:
    """Write a value for a message: like ``repr``, but never long and on one line."""
    text = " ".join(_SHORT.repr(value).split("\n"))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def say(
    where: str, wrong: str, *, got: object = None, known: Iterable[str] = (), do: str = ""
) -> str:
    """Write an error message: ``where: what is wrong, got X; known Y (what to do)``.

    It is one line. A near match of `got` among `known` becomes a "did you mean".
    """
    names = [str(name) for name in known]
    text = f"{where}: {wrong}"
    if got is not None:
        text += f", got {show(got)}"
    if names:
        text += f"; known {', '.join(names)}"
    near = difflib.get_close_matches(got if isinstance(got, str) else show(got), names, 1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if do:
        hints.append(do)
    text += f" ({'; '.join(hints)})" if hints else ""
    return " ".join(text.splitlines())


class Faults:
    """Collects the faults of a configuration, so that all are told at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Keep one fault, written by :func:`say`."""
        self._lines.append(line)

    def attempt(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Give what `call` gives; keep its ConfigError and give None if it raises one."""
        try:
            return call(*arguments)
        except ConfigError as error:
            self._lines.append(str(error))
            return None

    def check(self) -> None:
        """Raise one ConfigError, a line a fault, if there was any."""
        if self._lines:
            raise ConfigError("\n".join(dict.fromkeys(self._lines)))
