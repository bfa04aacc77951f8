"""``tierkv run``: the same model decoded with its stock cache and with tierkv."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from tierkv.cli.output import json_option, size, write_json, write_table

if TYPE_CHECKING:
    from tierkv.integrations.transformers.compare import Comparison, Progress

DEFAULT = {"scheme": "glm52-indexshare"}


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--context", type=click.IntRange(1), default=4096, show_default=True,
              help="Prompt tokens of each row.")  # fmt: skip
@click.option("--tokens", type=click.IntRange(1), default=32, show_default=True,
              help="Tokens to decode.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Rows.")
@json_option
def run(config: Path | None, context: int, tokens: int, batch: int, as_json: bool) -> int:
    """Decode a model with and without tierkv.

    The model of CONFIG, with random weights, decodes with its stock cache and with tierkv in turn.
    Without CONFIG: a small model of GLM-5.2's shape and the scheme glm52-indexshare. Exits with 1
    if the tokens differ.
    """
    from tierkv import build
    from tierkv import config as configuration

    checked = configuration.read(config or DEFAULT, lanes=batch, max_tokens=context + tokens)
    build.settle(checked)  # before a model is built
    from tierkv.integrations.transformers.compare import compare

    with _progress() as progress:
        outcome = compare(
            checked, context=context, tokens=tokens, batch=batch, on_progress=progress
        )
    if as_json:
        write_json(attrs.asdict(outcome))
    else:
        _write(outcome)
    return 0 if outcome.tokens_equal else 1


@contextmanager
def _progress() -> Iterator["Progress | None"]:
    """Draw a bar on a terminal; give None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        tasks = {phase: bars.add_task(phase, total=None) for phase in ("prefill", "decode")}
        yield lambda phase, done, total: bars.update(tasks[phase], completed=done, total=total)


def _write(outcome: "Comparison") -> None:
    click.echo(f"context {outcome.context:,}, batch {outcome.batch}, {outcome.steps} steps\n")
    write_table(
        [
            ("group", "layers", "hit rate", "misses a step", "records fetched a step and layer"),
            *(
                (str(number), _span(group["layers"]), f"{group['hit_rate']:.1%}",
                 f"{group['misses_per_step']:,.1f}", f"{group['fetched_per_step']:,.1f}")
                for number, group in enumerate(outcome.groups)
            ),
            ("all", "", f"{outcome.hit_rate:.1%}", f"{outcome.misses_per_step:,.1f}",
             f"{size(outcome.bytes_fetched_per_step)} in all layers"),
        ]
    )  # fmt: skip
    click.echo()
    write_table(
        [
            ("", "stock", "tierkv"),
            ("device KV", size(outcome.stock_kv_bytes), size(outcome.device_kv_bytes)),
            ("backing KV", "-", size(outcome.backing_kv_bytes)),
            ("decode step", f"{outcome.stock_ms_per_step:.1f} ms", f"{outcome.ms_per_step:.1f} ms"),
        ]
    )
    click.echo(f"\nlargest logit difference: {outcome.max_logit_diff:.1e}")
    click.echo(f"tokens equal: {'yes' if outcome.tokens_equal else 'no'}")


def _span(layers: list[int]) -> str:
    return f"{layers[0]}" if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"
