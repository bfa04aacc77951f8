"""Every error tierkv raises, and the one form they are written in."""

import difflib
from collections.abc import Iterable


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


class TierError(TierKVError, OSError):
    """A tier failed to read or write; the message names the rows."""


def say(
    where: str, wrong: str, *, got: object = None, known: Iterable[str] = (), do: str = ""
) -> str:
    """Write an error message: ``where: what is wrong, got X; known Y (what to do)``.

    A near match of `got` among `known` becomes a "did you mean".
    """
    names = [str(name) for name in known]
    text = f"{where}: {wrong}"
    if got is not None:
        text += f", got {got!r}"
    if names:
        text += f"; known {', '.join(names)}"
    near = difflib.get_close_matches(str(got), names, 1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if do:
        hints.append(do)
    return text + (f" ({'; '.join(hints)})" if hints else "")
