"""``tierkv run``: the same model decoded with its stock cache and with tierkv."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from tierkv.cli.output import json_option, progress, size, write_json, write_table
from tierkv.errors import ConfigError, say

if TYPE_CHECKING:
    from tierkv.integrations.transformers.compare import Around, Comparison
    from tierkv.trace import Trace

DEFAULT = {"scheme": "glm52-indexshare"}
CONTEXT, TOKENS = 4096, 32
F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen
class Options:
    """What :func:`decode_options` gives."""

    context: int | None
    tokens: int | None
    batch: int
    force: Path | None


def decode_options(command: F) -> F:
    """Add what says how long to decode, and from what."""
    for option in (
        click.option("--force", type=click.Path(path_type=Path), metavar="TRACE",
                     help="Let the indexers select what a trace says."),
        click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Rows."),
        click.option("--tokens", type=click.IntRange(1), help="Tokens to decode.",
                     show_default=f"{TOKENS}, or what the trace has"),
        click.option("--context", type=click.IntRange(1), help="Prompt tokens of each row.",
                     show_default=f"{CONTEXT}, or where the trace starts"),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--record", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a trace of what is selected.")  # fmt: skip
@decode_options
@json_option
def run(config: Path | None, record: Path | None, as_json: bool, **given: Any) -> int:
    """Decode a model with and without tierkv.

    The model of CONFIG, with random weights, decodes with its stock cache and with tierkv in turn.
    Without CONFIG: a small model of GLM-5.2's shape and the scheme glm52-indexshare. Exits with 1
    if the tokens differ.
    """
    from tierkv import build
    from tierkv import config as configuration
    from tierkv.trace import open_trace

    options = Options(**given)
    trace = open_trace(options.force) if options.force else None
    context, tokens = _length(options, trace)
    sizes = {"lanes": options.batch, "max_tokens": context + tokens}
    checked = configuration.read(config or DEFAULT, **sizes)
    if trace:
        from tierkv.integrations.transformers.force import with_top_k

        checked = with_top_k(checked, trace)
    build.settle(checked)  # before a model is built
    from tierkv.integrations.transformers.compare import compare

    with progress("prefill", "decode") as report:
        outcome = compare(
            checked, context=context, tokens=tokens, batch=options.batch,
            around=_around(trace, record), on_progress=report,
        )  # fmt: skip
    if as_json:
        write_json(attrs.asdict(outcome))
    else:
        _write(outcome)
    return 0 if outcome.tokens_equal else 1


def _length(options: Options, trace: "Trace | None") -> tuple[int, int]:
    """Give prompt and tokens to decode; a trace knows some positions only."""
    if trace is None:
        return options.context or CONTEXT, options.tokens or TOKENS
    from tierkv.integrations.transformers.force import span

    known = span(trace, options.batch)
    context = options.context or known.start
    tokens = options.tokens or min(TOKENS, known.stop - context)
    if context < known.start or tokens < 1 or context + tokens > known.stop:
        wrong = f"{trace.name} knows positions {known.start:,} to {known.stop - 1:,}"
        do = "leave --context and --tokens out, or lower them"
        raise ConfigError(say("force", wrong, got=(context, tokens), do=do))
    return context, tokens


def _around(trace: "Trace | None", record: Path | None) -> "Around":
    """Give what compare enters while it decodes."""

    @contextmanager
    def around(model: Any, cache: Any) -> Iterator[None]:
        with ExitStack() as stack:
            if trace:
                from tierkv.integrations.transformers.force import force

                stack.enter_context(force(model, trace))
            if record:
                from tierkv.trace.recorder import Recorder

                stack.enter_context(Recorder(cache, record))
            yield

    return around


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
