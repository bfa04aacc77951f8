"""``tierkv migrate``: from the switches of the published CANN sample to a configuration."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import click

from tierkv.cli.output import json_option, write_json
from tierkv.errors import ConfigError, Faults, say, show

BLOCKS, MODES, DRAFTS = (128, 256), ("eager", "npugraph_ex", "ge_graph"), 3


@attrs.frozen
class Switches:
    """What of the sample's file says how the KV is kept; the values are its defaults."""

    enable_offload: bool = False
    """All KV in main memory."""
    shared_indexer_offload: bool = False
    """Layers that share a selection share its planning, too."""
    enlarge_pool_size: bool = False
    """16K resident records of each request instead of 8K."""
    next_n: int = 0
    """Drafts a step."""
    pa_block_size: int = 128
    """Records a page."""
    exe_mode: str = "eager"
    """How the model runs."""
    enable_mtp_gather_reuse: bool = True
    """Draft steps with a frozen top-k use their selection again."""

    def __attrs_post_init__(self) -> None:
        faults = Faults()
        if not 0 <= self.next_n <= DRAFTS:
            faults.add(say("next_n", f"must be 0 to {DRAFTS}", got=self.next_n))
        if self.pa_block_size not in BLOCKS:
            size = self.pa_block_size
            faults.add(say("pa_block_size", "unknown size", got=size, known=map(str, BLOCKS)))
        if self.exe_mode not in MODES:
            faults.add(say("exe_mode", "unknown mode", got=self.exe_mode, known=MODES))
        faults.check()


@attrs.frozen
class Line:
    """A key of the configuration and where it comes from."""

    key: str
    value: Any
    switches: tuple[str, ...]
    """Names of the switches that it translates."""
    why: str


@attrs.frozen
class Sample:
    """A file of the sample, as far as it is understood."""

    switches: Switches
    found: Mapping[str, str]
    """Switch -> where it stands, dotted."""
    unknown: list[str]
    """Dotted keys that say nothing about the KV's place."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="PATH",
              help="Write there instead of to stdout.")  # fmt: skip
@json_option
def migrate(file: Path, output: Path | None, as_json: bool) -> int:
    """Translate FILE, a YAML of the CANN recipes' offload sample.

    Its switches may stand at top level or in any section. What results is a tierkv configuration
    with a comment for each line. It needs the plugin tierkv-ascendc, as the sample needs Ascend.
    """
    sample = _read(file)
    lines, notes = _translate(sample.switches)
    text = _yaml(file, sample, lines, notes)
    if output:
        _write(output, text)
    if as_json:
        told = [attrs.asdict(line) | {"from": _origins(sample, line.switches)} for line in lines]
        config = {line.key: line.value for line in lines}
        write_json({"config": config, "lines": told, "notes": notes, "unknown": sample.unknown})
    elif not output:
        click.echo(text, nl=False)
    return 0


def _read(file: Path) -> Sample:
    from tierkv import yaml_file
    from tierkv.structure import keys_of, structure

    names, faults = keys_of(Switches), Faults()
    values: dict[str, Any] = {}
    found: dict[str, str] = {}
    unknown = []
    for path, value in _leaves(yaml_file.read(file), "", names, set()):
        section, _, name = path.rpartition(".")
        if name not in names:
            unknown.append(path)
        elif name in values and values[name] != value:
            wrong = f"stands in {found[name]} too, as {show(values[name])}"
            faults.add(say(path, wrong, got=value, do="keep one of them"))
        else:
            faults.attempt(structure, section, {name: value}, Switches)
            values[name], found[name] = value, path
    if not found:
        raise ConfigError(say(str(file), "has none of the sample's switches", known=names))
    faults.check()
    return Sample(Switches(**values), found, unknown)


def _leaves(value: Any, path: str, names: list[str], seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Give dotted path and value of each of `names`, and of whatever is no section."""
    section = isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
    )
    if not section or path.rpartition(".")[2] in names:
        yield path, value
    elif id(value) not in seen:  # an alias stands for what was there before
        seen.add(id(value))
        dot = f"{path}." if path else ""
        inner = (
            [(f"{dot}{_plain(key)}", item) for key, item in value.items()]
            if isinstance(value, Mapping)
            else [(f"{path}[{number}]", item) for number, item in enumerate(value)]
        )
        for name, item in inner:
            yield from _leaves(item, name, names, seen)


def _plain(text: str) -> str:
    """Write a text on one line, whatever is in it."""
    return text if text.isprintable() else show(text)


def _translate(switches: Switches) -> tuple[list[Line], list[str]]:
    """Give the configuration, line by line, and what has no line."""
    shared, mode = switches.shared_indexer_offload, switches.exe_mode
    scheme = "glm52-indexshare" if shared else "dsv32-gather"
    planned = "once for all layers that share a selection" if shared else "in each layer by itself"
    where = (
        ("host", "every record lies in main memory") if switches.enable_offload
        else ("device", "every record stays on the device: host is what saves its memory")
    )  # fmt: skip
    lines = [
        Line("scheme", scheme, ("shared_indexer_offload",), f"it plans {planned}"),
        Line("queries", 1 + switches.next_n, ("next_n",), "positions a step: 1 + drafts"),
        Line("backing", {"use": where[0], "page": switches.pa_block_size},
             ("enable_offload", "pa_block_size"), f"{where[1]}, in pages of so many"),
    ]  # fmt: skip
    notes = []
    if shared:
        slots = 16_384 if switches.enlarge_pool_size else 8_192
        lines += [
            Line("pool", {"slots": slots}, ("enlarge_pool_size",),
                 "records of each request and layer that stay on the device"),
            Line("installer", {"schedule": "side-stream"}, (),
                 "what was missed is installed beside attention; inline does it at once"),
        ]  # fmt: skip
    elif switches.enlarge_pool_size:
        notes.append("enlarge_pool_size: without shared_indexer_offload there is no pool")
    lines += [
        Line("device", "npu", ("exe_mode",), "torch's name of the device"),
        Line("ops", {"use": "ascendc", "mode": mode}, ("exe_mode",),
             "operators for this way to run the model: pip install tierkv-ascendc"),
        Line("plugins", {"require": [scheme, "ascendc"]}, (), "what it needs to be installed"),
    ]  # fmt: skip
    reuse = "call step.reuse(layer)" if switches.enable_mtp_gather_reuse else "call step.select"
    notes.append(f"enable_mtp_gather_reuse: no setting, in draft steps {reuse}")
    notes.append("model: pass the model's own configuration, tierkv.load(..., model=config)")
    return lines, notes


def _origins(sample: Sample, switches: tuple[str, ...]) -> list[str]:
    """Say what was found of some switches, or taken for granted."""
    return [
        f"{sample.found.get(name, name)}: {getattr(sample.switches, name)}"
        + ("" if name in sample.found else " by default")
        for name in switches
    ]


def _yaml(file: Path, sample: Sample, lines: list[Line], notes: list[str]) -> str:
    text = [f"# {_plain(file.name)}, translated by tierkv migrate"]
    for line in lines:
        origins = "; ".join(_origins(sample, line.switches))
        text += ["", f"# {origins}" if origins else "", f"# {line.why}", _entry(line)]
    text += ["", *(f"# {note}" for note in notes)]
    if sample.unknown:
        text += ["", "# not understood, left out:", *(f"#   {key}" for key in sample.unknown)]
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def _entry(line: Line) -> str:
    import yaml

    flow = yaml.safe_dump([line.value], default_flow_style=True, sort_keys=False)
    return f"{line.key}: {flow.strip()[1:-1]}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        wrong = f"cannot be written, {error.strerror}"
        raise ConfigError(say("--output", wrong, got=str(path))) from None
