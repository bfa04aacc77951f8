"""``tierkv check``: whether a configuration is good, and what it will take."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tierkv.cli.output import json_option, size, write_json, write_table
from tierkv.errors import CapacityError

if TYPE_CHECKING:
    from tierkv.blueprint import Blueprint


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@json_option
def check(config: Path, as_json: bool) -> int:
    """Check CONFIG and say what it will take.

    Everything is validated as if the cache were built, but nothing is allocated.
    """
    from tierkv import build
    from tierkv import config as configuration

    checked = configuration.read(config)
    blueprint = build.settle(checked)
    report = _report(checked.general.scheme, blueprint) | {
        "config": str(config),
        "ops": blueprint.ops.name,
        "here": _here(blueprint),
    }
    if as_json:
        write_json(report)
    else:
        _write(report)
    return 0


def _here(blueprint: "Blueprint") -> str:
    """Say why it cannot be built on this machine; empty if it can."""
    from tierkv import build

    try:
        build.check_memory(blueprint)
    except CapacityError as error:
        return str(error)
    return ""


def _report(scheme: str | None, blueprint: "Blueprint") -> dict[str, Any]:
    limits, footprint, spec = blueprint.limits, blueprint.footprint, blueprint.limits.spec
    return {
        "scheme": scheme,
        "model": {
            "name": spec.name,
            "layers": len(spec.layouts),
            "groups": len(spec.groups),
            "top_k": spec.top_k,
            "record_bytes": sorted({layout.stride for layout in spec.layouts}),
        },
        "components": {name: choice.name for name, choice in blueprint.choices.items()},
        "device": str(limits.device),
        "lanes": limits.lanes,
        "max_tokens": limits.max_tokens,
        "queries": limits.queries,
        "page": limits.page,
        "tokens": footprint.tokens,
        "slots": list(limits.slots),
        "bytes": {
            "pool": footprint.pool,
            "selections": footprint.selections,
            "device_parts": footprint.device_parts,
            "tables": footprint.tables,
            "device": footprint.device + footprint.tables,
            "backing": footprint.backing,
        },
    }


def _write(report: dict[str, Any]) -> None:
    model, nbytes, slots = report["model"], report["bytes"], report["slots"]
    low, high = min(slots), max(slots)
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    share = min(sum(slots) / len(slots) / report["max_tokens"], 1)
    device, backing = report["device"], report["components"]["backing"]
    write_table(
        [
            ("model", f"{model['name']}, {model['layers']} layers in {model['groups']} groups, "
             f"top-k {model['top_k']:,}"),
            ("parts", ", ".join(f"{part} {name}" for part, name in report["components"].items())),
            ("operators", report["ops"]),
            ("requests", f"{report['lanes']:,} at once, each of at most {report['max_tokens']:,} "
             f"tokens and {report['queries']} queries a step"),
            ("tokens", f"{report['tokens']:,} in all, in pages of {report['page']}"),
            ("pool", f"{size(nbytes['pool'])} on {device}: {each} slots a request and layer, "
             f"{share:.0%} of the longest request"),
            ("selections", f"{size(nbytes['selections'])} on {device}"),
            ("device parts", f"{size(nbytes['device_parts'])} on {device}"),
            ("tables", f"{size(nbytes['tables'])} on {device}"),
            ("device in all", size(nbytes["device"])),
            ("backing", f"{size(nbytes['backing'])} in tier {backing}"),
        ]
    )  # fmt: skip
    click.echo(f"{report['config']}: good")
    if report["here"]:
        click.echo(f"but not on this machine: {report['here']}")
