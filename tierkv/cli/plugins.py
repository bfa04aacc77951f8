"""``tierkv plugins``: what is installed, what each brings, and what is broken."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tierkv.cli.output import json_option, write_json, write_table

if TYPE_CHECKING:
    from tierkv.registry import Registry


@click.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@json_option
def plugins(config: Path | None, as_json: bool) -> int:
    """List plugins and what they register.

    With CONFIG, without those that its section plugins blocks. Exits with 1 if one is broken.
    """
    from tierkv import config as configuration

    blocked = configuration.blocked(config) if config else ()
    registry = configuration.make_registry(blocked)
    report = _report(registry)
    if as_json:
        write_json(report)
    else:
        _write(report)
    return 1 if registry.broken else 0


def _report(registry: "Registry") -> dict[str, Any]:
    loaded = []
    for name, origin in registry.distributions.items():
        distribution, _, version = origin.partition(" ")
        brought = [{"kind": kind, "name": component} for kind, component in registry.brought[name]]
        loaded.append(
            {
                "name": name,
                "distribution": distribution,
                "version": version,
                "registers": brought,
                "models": registry.reads_models(name),
            }
        )
    return {
        "plugins": loaded,
        "broken": [{"name": name, "reason": str(error)} for name, error in registry.broken.items()],
        "blocked": sorted(registry.blocked),
    }


def _write(report: dict[str, Any]) -> None:
    rows = [("plugin", "distribution", "registers")]
    for plugin in report["plugins"]:
        kinds: dict[str, list[str]] = {}
        for component in plugin["registers"]:
            kinds.setdefault(component["kind"], []).append(component["name"])
        if plugin["models"]:
            kinds["models"] = []
        origin = f"{plugin['distribution']} {plugin['version']}"
        for kind, names in kinds.items() or [("nothing", [])]:
            rows.append((plugin["name"], origin, " ".join([kind, *names])))
    last = ("", "")
    for number, row in enumerate(rows):
        rows[number] = ("", "", row[2]) if row[:2] == last else row
        last = row[:2]
    write_table(rows)
    for name in report["blocked"]:
        click.echo(f"blocked: {name}")
    for broken in report["broken"]:
        click.echo(f"broken: {broken['reason']}")
