"""How commands write: aligned text for people, JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_STEP = 1024


def json_option(command: F) -> F:
    """Add ``--json``, given to the command as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")(command)


@contextmanager
def progress(*phases: str) -> Iterator[Callable[[str, int, int], None] | None]:
    """Draw bars on a terminal, told of a phase, what is done and of how much; None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks = {phase: bars.add_task(phase, total=None) for phase in phases}
        yield lambda phase, done, total: bars.update(tasks[phase], completed=done, total=total)


def write_json(value: Any) -> None:
    """Write one JSON document."""
    click.echo(json.dumps(value, indent=2))


def write_table(rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns; the last column is as wide as it wants to be."""
    rows = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


def size(nbytes: float) -> str:
    """Write a number of bytes for people: ``1.5 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if nbytes < _STEP:
            return f"{nbytes:,.0f} {unit}" if unit == "bytes" else f"{nbytes:.1f} {unit}"
        nbytes /= _STEP
    return f"{nbytes:,.1f} TiB"
