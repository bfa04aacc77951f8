"""``tierkv trace``: make traces, and look at them."""

import sysconfig
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from tierkv.cli.output import json_option, progress, size, write_json, write_table
from tierkv.cli.run import decode_options, run
from tierkv.errors import ConfigError, say

if TYPE_CHECKING:
    from tierkv.trace import Trace

KINDS = ("stack", "drift", "zipf", "strided", "cyclic", "switch")
SOURCE = "argparse.py"

_file = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def trace() -> None:
    """Make traces of what indexers select, and look at them."""


@trace.command()
@click.argument("model", type=click.Choice(KINDS))
@_file
@click.option("--steps", type=int, default=1800, show_default=True)
@click.option("--context", type=int, default=65_536, show_default=True,
              help="Tokens in the first step; each step adds one.")  # fmt: skip
@click.option("--top-k", type=int, default=2048, show_default=True)
@click.option("--groups", type=int, default=1, show_default=True)
@click.option("--lanes", type=int, default=1, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
def synth(model: str, file: Path, seed: int, as_json: bool, **sizes: int) -> int:
    """Write a synthetic trace to FILE.

    stack: by LRU stack distance, as published of GLM-5.2. drift: the top of slowly changing scores,
    the same. zipf: independent draws. strided: stack with a quarter of the ids at multiples of 64.
    cyclic: a scan slightly larger than a pool of 8192. switch: stack, shuffled every 300 steps.
    """
    from tierkv.trace.synth import Shape, synthesize

    made = synthesize(model, Shape(**sizes), seed=seed)
    return _save(made, file, as_json)


@trace.command()
@_file
@click.argument("config", type=click.Path(path_type=Path), required=False)
@decode_options
@json_option
@click.pass_context
def record(context: click.Context, /, file: Path, **given: Any) -> int:
    """Decode the model of CONFIG and write what it selects to FILE; see tierkv run."""
    status: int = context.invoke(run, record=file, **given)
    return status


@trace.command()
@_file
@click.option("--text", type=click.Path(path_type=Path), help="What the model reads.",
              show_default=f"{SOURCE} of the standard library")  # fmt: skip
@click.option("--context", type=click.IntRange(1), default=6000, show_default=True,
              help="Tokens before the first step.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=256, show_default=True)
@click.option("--top-k", type=click.IntRange(1), default=128, show_default=True)
@json_option
def smollm(file: Path, text: Path | None, as_json: bool, **sizes: int) -> int:
    """Write a trace of real attention to FILE: SmolLM2-135M reading a text.

    A group is a layer; it selects the keys of most attention. Takes minutes.
    """
    from tierkv.integrations.smollm import Shape, trace_text

    path = text or Path(sysconfig.get_path("stdlib"), SOURCE)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(say("--text", f"cannot be read, {why}", got=str(path))) from None
    with progress("tokens") as report:
        on_progress = report and partial(report, "tokens")
        made = trace_text(content, Shape(**sizes), name=path.name, on_progress=on_progress)
    return _save(made, file, as_json)


@trace.command()
@_file
@json_option
def info(file: Path, as_json: bool) -> int:
    """Say what is in a trace; all of FILE is read and checked."""
    from tierkv.trace import open_trace

    opened = open_trace(file)
    from tierkv.trace.summary import summarise

    with progress("steps") as report:
        summary = summarise(opened, report and partial(report, "steps"))
    told = {
        **_sizes(opened), "bytes": file.stat().st_size, "requests": summary.requests,
        "live_queries": summary.live_queries, "kv_len": [_least(opened), opened.positions],
        "previous": summary.previous, "by_group": [attrs.asdict(g) for g in summary.groups],
        "meta": opened.meta,
    }  # fmt: skip
    if as_json:
        write_json(told)
    else:
        _write(told)
    return 0


def _save(made: "Trace", file: Path, as_json: bool) -> int:
    made.save(file)
    told = {"file": str(file), **_sizes(made), "bytes": file.stat().st_size, "meta": made.meta}
    if as_json:
        write_json(told)
    else:
        click.echo(
            f"{file}: {made.steps:,} steps of {made.top_k:,} ids, {made.groups} groups, "
            f"{made.lanes} lanes, {size(told['bytes'])}"
        )
    return 0


def _sizes(trace: "Trace") -> dict[str, Any]:
    return {name: getattr(trace, name) for name in ("steps", "groups", "lanes", "queries", "top_k")}


def _least(trace: "Trace") -> int:
    """Give the smallest ``kv_len`` of a running request."""
    return int(trace.kv_len[trace.request >= 0].min(initial=trace.positions))


def _write(told: dict[str, Any]) -> None:
    least, most = told["kv_len"]
    rows = [
        ("steps", f"{told['steps']:,} of {told['queries']} queries, "
         f"{told['live_queries']:,} live queries in all"),
        ("groups", f"{told['groups']}, top-k {told['top_k']:,}"),
        ("lanes", f"{told['lanes']}, {told['requests']} requests of {least:,} to {most:,} tokens"),
        ("size", size(told["bytes"])),
        ("as before", f"{told['previous']:.2%} of the ids were in the query before"),
        *((key, str(value)) for key, value in told["meta"].items()),
    ]  # fmt: skip
    write_table(rows)
    click.echo()
    write_table(
        [
            ("group", "as before", "distinct ids", "ids a query", "window"),
            *(
                (str(number), f"{group['previous']:.2%}", f"{group['distinct']:,}",
                 f"{group['selected']:,.1f}", f"{group['window']:.2%}")
                for number, group in enumerate(told["by_group"])
            ),
        ]
    )  # fmt: skip
