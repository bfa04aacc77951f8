"""Hit rate over slots, as a picture."""

from collections.abc import Sequence
from html import escape
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from tierkv.errors import ConfigError, LibraryError, say
from tierkv.replay.measured import Measured

SUFFIXES = (".png", ".html")
_MARKS = "os^vDPX*<>ph"
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: sans-serif; max-width: 60em; margin: auto">
<h1>{title}</h1>
{picture}
</body></html>
"""


def check(path: Path) -> None:
    """Raise, before anything is replayed, if no picture can be drawn there.

    Raises
    ------
    ConfigError
        For a name that does not say which format.
    LibraryError
        Without matplotlib.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(say("--plot", "unknown format", got=path.name, known=SUFFIXES))
    _library("figure")


def plot(measured: Sequence[Measured], title: str, path: Path) -> None:
    """Draw one line a policy, bounds dashed; lines differ by their marks too, for print."""
    figure = _library("figure").Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    sizes = sorted({found.slots for found in measured if not _flat(found)})
    for number, name in enumerate(dict.fromkeys(found.policy for found in measured)):
        line = sorted((f for f in measured if f.policy == name), key=lambda f: f.slots)
        style = {"linestyle": "--", "color": "0.4"} if line[0].bound else {}
        if _flat(line[0]):
            axes.axhline(100 * line[0].rate(), label=name, linestyle=":", color="0.4")
            continue
        axes.plot([f.slots for f in line], [100 * f.rate() for f in line], label=name,
                  marker=_MARKS[number % len(_MARKS)], fillstyle="none", **style)  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("slots")
    axes.set_ylabel("hit rate, % of entries")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize="small")
    _save(figure, title, path)


def _flat(found: Measured) -> bool:
    """Whether it is the bound that does not depend on the size."""
    return found.bound and found.policy != "belady"


def _save(figure: Any, title: str, path: Path) -> None:
    try:
        if path.suffix == ".png":
            figure.savefig(path, dpi=100)
            return
        svg = StringIO()
        figure.savefig(svg, format="svg")
        picture = svg.getvalue()
        picture = picture[picture.index("<svg") :]  # without the XML declaration
        path.write_text(_PAGE.format(title=escape(title), picture=picture), encoding="utf-8")
    except OSError as error:
        wrong = f"cannot be written, {error.strerror}"
        raise ConfigError(say("--plot", wrong, got=str(path))) from None


def _library(module: str) -> Any:
    try:
        return import_module(f"matplotlib.{module}")
    except ImportError as error:
        wrong = f"matplotlib does not import, {error}"
        raise LibraryError(say("--plot", wrong, do="pip install 'tierkv[plots]'")) from None
