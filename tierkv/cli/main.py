"""The command ``tierkv``. A command's module imports torch only once it runs."""

import sys
from typing import Any, NoReturn

import click

from tierkv import __version__
from tierkv.cli.check import check
from tierkv.cli.doctor import doctor
from tierkv.cli.migrate import migrate
from tierkv.cli.plugins import plugins
from tierkv.cli.replay import replay
from tierkv.cli.run import run
from tierkv.cli.trace import trace
from tierkv.errors import TierKVError

INTERRUPTED = 130


class Commands(click.Group):
    """Commands that give their exit status; a fault is a line on stderr, never a traceback."""

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        """Run a command and exit: 0 good, 1 it found something wrong, 2 bad usage or input."""
        extra["standalone_mode"] = False
        try:
            status = super().main(*arguments, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            status = error.exit_code
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = context.command_path if context else "tierkv"
            message = " ".join(error.format_message().split())
            click.echo(f"{path}: {message} ({path} --help)", err=True)
            status = error.exit_code
        except TierKVError as error:
            for line in str(error).splitlines():
                click.echo(line, err=True)
            status = click.UsageError.exit_code
        except click.Abort:
            click.echo("tierkv: interrupted", err=True)
            status = INTERRUPTED
        sys.exit(status)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Tiered KV cache for sparse-attention language models."""


for command in (run, check, trace, replay, plugins, doctor, migrate):
    main.add_command(command)
