"""``tierkv doctor``: whether the machine has what tierkv wants."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import click

from tierkv.cli.checks import CHECKS
from tierkv.cli.output import json_option, write_json
from tierkv.finding import Finding, Status

_COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "red"}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Look at installation and machine; say what to mend.

    Exits with 1 if something fails, not for a warning.
    """
    told: dict[str, Finding | None] = {}
    for check in CHECKS:
        told[check.__name__.replace("_", " ")] = _run(check, "torch" in _failed(told))
    if "torch" not in _failed(told):
        told |= {f"operators {name}": _run(ops.doctor) for name, ops in _operators().items()}
    findings = [(name, finding) for name, finding in told.items() if finding]
    good = not _failed(told)
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


def _run(check: Callable[[], Finding | None], lacks_torch: bool = False) -> Finding | None:
    try:
        return check()
    except Exception as error:  # what is broken here may break in any way
        if lacks_torch:  # a second import says nothing but that it is one
            return Finding(Status.FAIL, "needs torch", "see there")
        found = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Finding(Status.FAIL, found, "see the other lines")


def _failed(told: Mapping[str, Finding | None]) -> list[str]:
    return [name for name, finding in told.items() if finding and finding.status is Status.FAIL]


def _operators() -> Mapping[str, Any]:
    from tierkv.config import make_registry

    return make_registry().components("ops")
