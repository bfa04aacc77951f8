"""``tierkv doctor``: whether the machine has what tierkv wants."""

from collections.abc import Callable
from dataclasses import asdict

import click

from tierkv.cli.checks import CHECKS, Finding, Status
from tierkv.cli.output import json_option, write_json

_COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Look at installation and machine; say what to mend.

    Exits with 1 if something fails, not for a warning.
    """
    findings = [(check.__name__.replace("_", " "), _run(check)) for check in CHECKS]
    good = all(finding.status is not Status.FAIL for _, finding in findings)
    if as_json:
        checks = [{"check": name, **asdict(finding)} for name, finding in findings]
        write_json({"good": good, "checks": checks})
    else:
        width = max(len(name) for name, _ in findings)
        for name, finding in findings:
            status = click.style(f"{finding.status:4}", fg=_COLOURS[finding.status])
            click.echo(f"{status}  {name:{width}}  {finding.found}")
            if finding.do:
                click.echo(f"{'':{width + 8}}{finding.do}")
    return 0 if good else 1


def _run(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # what is broken here may break in any way
        found = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Finding(Status.FAIL, found, "see the other lines")
