"""``tierkv replay``: which policy, and how many slots, a trace wants."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tierkv.cli.output import json_option, progress, write_json, write_table
from tierkv.errors import ConfigError, say

if TYPE_CHECKING:
    from tierkv.replay import Comparison, Measured
    from tierkv.trace import Trace

INTERRUPTED = 130
RECORD_BYTES = 1152
"""Of GLM-5.2 and DeepSeek V3.2 in bf16."""

_path = click.Path(path_type=Path)


@click.command()
@click.argument("file", metavar="TRACE", type=_path)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="A policy to replay; may be given often. Default: all that are registered.",
)
@click.option(
    "--slots",
    metavar="N,N,...",
    help="Slots of a lane and group. Default: 1, 2, 4 and 8 times the top-k.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1,
    help="Decode so many tokens a step, 1 + drafts; the trace must have 1.",
)
@click.option(
    "--accept",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="How likely a draft is accepted.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    help="Steps that are not counted. Default: what the trace says.",
)
@click.option("--by-group", is_flag=True, help="Say it of each layer group too.")
@click.option(
    "--record-bytes",
    type=click.IntRange(1),
    default=RECORD_BYTES,
    show_default=True,
    help="Bytes of a record, for what is moved.",
)
@click.option("--csv", "table", type=_path, help="Write the table to a file too.")
@click.option(
    "--plot",
    "picture",
    type=_path,
    help="Draw hit rate over slots into a .png, .svg or .html file.",
)
@json_option
def replay(file: Path, table: Path | None, picture: Path | None, as_json: bool,
           **given: Any) -> int:  # fmt: skip
    """Replay TRACE under several policies and sizes, and under the bounds.

    belady knows the future: no policy has a higher unique hit rate. unbounded never drops anything.
    Plan and place are the very code that serves: policies whose figures are marked "native" by
    compiled kernels, step after step, the others by their operators, called one by one. Figures
    from "misses" to "us" (of plan and place) are a step's and a group's, for all lanes.
    """
    from tierkv.replay import plot

    for option, path in (("--csv", table), ("--plot", picture)):
        if path and not path.absolute().parent.is_dir():  # hours later would be too late
            raise ConfigError(say(option, "there is no such directory", got=str(path.parent)))
    if picture:
        plot.check(picture)
    trace, comparison = _prepare(file, **{k: given[k] for k in ("policies", "slots", "queries",
                                          "accept", "warmup")})  # fmt: skip
    for line in comparison.refused:
        click.echo(line, err=True)
    measured, whole = _measure(comparison)
    rows = [found.row(given["record_bytes"]) for found in measured]
    groups = [
        row
        for found in measured if given["by_group"]
        for row in found.group_rows(given["record_bytes"])
    ]  # fmt: skip
    if as_json:
        report = {"trace": _about(trace, comparison), "complete": whole, "policies": rows}
        write_json(report | ({"groups": groups} if groups else {}))
    else:
        _write(trace, comparison, rows, groups)
    if table:
        _write_csv(table, groups or rows)
    if picture and measured:
        plot.plot(measured, trace.name, picture)
    if not whole:
        click.echo("interrupted: the table is not complete", err=True)
        return INTERRUPTED
    return 0


def _prepare(
    file: Path, policies: Sequence[str], slots: str | None, queries: int, accept: float,
    warmup: int | None,
) -> tuple["Trace", "Comparison"]:  # fmt: skip
    from tierkv.config import make_registry
    from tierkv.ops import NATIVE, REFERENCE
    from tierkv.replay import BELADY, UNBOUNDED, Comparison, Contender, sizes_of
    from tierkv.trace import open_trace
    from tierkv.trace.speculate import speculate

    trace = open_trace(file)
    if queries > 1:
        trace = speculate(trace, queries, accept)
    registry = make_registry()
    names = [name for name in policies or registry.names("policy") if name != BELADY]
    names += [UNBOUNDED] if UNBOUNDED not in names else []
    contenders = [Contender.parse(name, registry) for name in dict.fromkeys(names)]
    sizes = _numbers(slots) if slots else sizes_of(trace)
    warm = int(trace.meta.get("warmup", 0)) if warmup is None else warmup
    if warm >= trace.steps:
        raise ConfigError(say("--warmup", f"must be below {trace.steps} steps", got=warm))
    ops = NATIVE or REFERENCE
    return trace, Comparison(trace, contenders, sizes, ops, warm, strict=bool(policies))


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) < 2**31 for part in parts):
        raise ConfigError(say("--slots", "must be whole numbers from 1, between commas", got=text))
    return sorted({int(part) for part in parts})


def _measure(comparison: "Comparison") -> tuple[list["Measured"], bool]:
    """Replay until done or until Ctrl-C; what is done by then is kept."""
    measured: list[Measured] = []
    try:
        with progress("replay") as bar:
            told = (lambda done, total: bar("replay", done, total)) if bar else None
            measured.extend(comparison.measure(told))
    except KeyboardInterrupt:
        return measured, False
    return measured, True


def _about(trace: "Trace", comparison: "Comparison") -> dict[str, Any]:
    return {
        "name": trace.name,
        "steps": trace.steps,
        "warmup": comparison.warmup,
        "groups": trace.groups,
        "lanes": trace.lanes,
        "queries": trace.queries,
        "top_k": trace.top_k,
        "meta": trace.meta,
    }


def _write(
    trace: "Trace", comparison: "Comparison", rows: list[dict[str, Any]],
    groups: list[dict[str, Any]],
) -> None:  # fmt: skip
    counted = trace.steps - comparison.warmup
    click.echo(
        f"{trace.name}: {counted:,} steps counted, {trace.groups} groups, {trace.lanes} lanes, "
        f"{trace.queries} x {trace.top_k:,} ids a step"
    )
    write_table([_HEAD, *(_cells(row) for row in rows)])
    if groups:
        click.echo()
        write_table([_GROUP_HEAD, *(_group_cells(row) for row in groups)])


_HEAD = ("policy", "slots", "hit %", "p10", "worst", "unique %", "misses", "installs", "superseded",
         "bypassed", "rows", "KiB", "us", "by")  # fmt: skip
_GROUP_HEAD = ("policy", "slots", "group", "hit %", "p10", "unique %", "misses", "installs")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['policy']}{' (bound)' if row['bound'] else ''}", f"{row['slots']:,}",
        _percent(row["hit_rate"]), _percent(row["hit_rate_p10"]),
        _percent(row["hit_rate_worst_group"]), _percent(row["unique_hit_rate"]),
        f"{row['misses_per_step']:,.1f}", f"{row['installs_per_step']:,.1f}",
        f"{row['superseded_per_step']:,.1f}", f"{row['bypassed_per_step']:,.1f}",
        f"{row['rows_per_step']:,.1f}", f"{row['bytes_per_step'] / 1024:,.1f}",
        f"{row['us_per_step']:,.2f}", "native" if row["native"] else "operators",
    )  # fmt: skip


def _group_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["policy"], f"{row['slots']:,}", str(row["group"]), _percent(row["hit_rate"]),
        _percent(row["hit_rate_p10"]), _percent(row["unique_hit_rate"]),
        f"{row['misses_per_step']:,.1f}", f"{row['installs_per_step']:,.1f}",
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0] if rows else [])
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        wrong = f"cannot be written, {error.strerror}"
        raise ConfigError(say("--csv", wrong, got=str(path))) from None
