"""Documentation is executed: Python and console blocks run, YAML blocks are checked."""

import re
import shlex
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import attrs
import pytest
from click.testing import CliRunner

from tierkv import build
from tierkv import config as configuration
from tierkv.cli.main import main
from tierkv.structure import Bytes
from tierkv.testing import PolicyContract

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("plugins/*/README.md")),
]  # fmt: skip
CHEAP = ("tierkv check", "tierkv plugins", "tierkv --")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages):
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text[: match.start()].count("\n") + 2
            if match[1] in languages:
                found.append(Block(page, line, match[1], match[2]))
    return found


def run(block):
    """Run a Python block as a module of its own."""
    module = types.ModuleType("block")
    code = "\n" * (block.line - 1) + block.text  # so that a traceback names the page's line
    exec(compile(code, block.page, "exec"), module.__dict__)
    return module


def test_there_are_blocks_and_only_of_languages_that_are_looked_at():
    assert blocks("python")
    assert blocks("yaml")
    assert blocks("console")
    known = {"python", "yaml", "console", "text", "toml"}
    for page in PAGES:
        opened = re.findall(r"^```(\S*)$", page.read_text(), re.MULTILINE)[::2]
        assert set(opened) <= known, page


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python(block, monkeypatch):
    if "transformers" in block.text:
        pytest.importorskip("transformers")
    monkeypatch.chdir(ROOT)
    run(block)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml(block, tmp_path):
    path = tmp_path / "block.yaml"
    path.write_text(block.text)
    build.settle(configuration.read(path))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.name)
def test_examples(path):
    build.settle(configuration.read(path))


def commands():
    for block in blocks("console"):
        for line in block.text.splitlines():
            if line.startswith("$ ") and line[2:].startswith(CHEAP):
                yield pytest.param(line[2:], id=f"{block}-{line[2:]}")


@pytest.mark.parametrize("line", list(commands()))
def test_console(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, *arguments = shlex.split(line)
    assert CliRunner().invoke(main, arguments).exit_code == 0


def test_console_blocks_name_what_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks("console"):
        for line in block.text.splitlines():
            words = line.removeprefix("$ ").split()
            if words[:1] == ["make"]:
                assert set(words[1:]) <= targets, line
            if words[:1] == ["tierkv"]:
                assert words[1].startswith("-") or words[1] in main.commands, line


def test_links():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


class TestThePolicyOfTheReadme(PolicyContract):
    """The README's third-party policy keeps the contract it promises."""

    block = next(block for block in blocks("python") if "TablePolicy" in block.text)
    make = run(block).Newest


def test_docs_are_named_right_in_code():
    text = "".join(path.read_text() for path in ROOT.glob("tierkv/**/*.py"))
    assert "SEMANTICS" not in text
    for name in re.findall(r"docs/\w+\.md", text):
        assert (ROOT / name).exists(), name


# docs/configuration.md against the classes


TYPES = {
    int: "whole number", bool: "true or false", str: "text", str | None: "text",
    Bytes | None: "bytes", int | list[int]: "whole number or list", list[str]: "list of text",
    int | Literal["all"]: "whole number or `all`",
}  # fmt: skip


def default(value):
    if isinstance(value, attrs.Factory):
        return "empty" if value.factory is list else "the system's temporary directory"
    if value is None:
        return "none"
    return f"`{value}`" if isinstance(value, str) else str(value).lower()


def rows_of(kind):
    return {field.name: (TYPES[field.type], default(field.default)) for field in attrs.fields(kind)}


def documented():
    """Give (section, component or None) -> key -> (type, default)."""
    found, section, names = {}, "", [None]
    for line in (ROOT / "docs" / "configuration.md").read_text().splitlines():
        if match := re.fullmatch(r"## `?([\w ]+)`?", line):
            section, names = match[1], [None]
        elif line.startswith("### `use: "):
            names = re.findall(r"[\w-]+", line.removeprefix("### `use: "))
        elif (match := re.match(r"\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", line)) and match[4]:
            for name in names:
                found.setdefault((section, name), {})[match[1]] = (match[2], match[3])
    return found


def test_every_key_is_documented_with_its_type_and_default():
    registry = configuration.make_registry()
    expected = {
        ("Top level", None): rows_of(configuration.General),
        ("backing", None): rows_of(configuration.Backing),
        ("pool", None): rows_of(configuration.Pool),
        ("plugins", None): rows_of(configuration.Plugins),
    }
    for section, kind in configuration.KINDS.items():
        for name, origin in registry.names(kind).items():
            component = registry.get(section, kind, name)
            options = rows_of(component.Options)
            ours = origin.startswith(("tierkv ", "tierkv-glm52", "tierkv-dsv32"))
            if options and ours and not (section == "pool" and name == "file"):
                expected[section, name] = options
    assert documented() == expected


def test_every_component_is_documented():
    text = (ROOT / "docs" / "configuration.md").read_text()
    registry = configuration.make_registry()
    for section, kind in configuration.KINDS.items():
        part = text[text.index(f"\n## `{section}`") :]
        part = part[: part.index("\n## ", 1)]
        for name in registry.names(kind):
            assert re.search(rf"`(use: )?{name}`", part), f"{section}: {name}"
