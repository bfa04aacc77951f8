"""Write the C++ header of tierkv's shared constants: ``generate_constants.py SOURCE HEADER``.

``MAX_PAGE = 1024`` becomes ``kMaxPage``, the member ``HIT`` of ``Kind`` becomes ``kKindHit``, and
``kKindCount`` is the number of members. Names that start with an underscore and values that are
not whole numbers are left out. The source is loaded by path: nothing else of tierkv is imported.
"""

import importlib.util
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from types import ModuleType

INT_MAX = 2**31 - 1


def load(source: Path) -> ModuleType:
    """Execute `source` as a module of its own."""
    spec = importlib.util.spec_from_file_location("constants", source)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{source}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def camel(*names: str) -> str:
    """``camel("Kind", "LAST_HIT")`` is ``kKindLastHit``."""
    words = [word for name in names for word in name.split("_")]
    return "k" + "".join(
        word[:1].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in words
    )


def constants(module: ModuleType) -> Iterator[tuple[str, int]]:
    """C++ names and values, in the order of the source."""
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            yield camel(name), value
        elif isinstance(value, type) and issubclass(value, IntEnum) and value is not IntEnum:
            yield from (
                (camel(name, member), int(number)) for member, number in value.__members__.items()
            )
            yield camel(name, "COUNT"), len(value)


def header(source: Path) -> str:
    """Text of the header."""
    lines = [
        f"// Generated from {source.name} by {Path(__file__).name}; do not edit.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tierkv {",
        "",
    ]
    for name, value in constants(load(source)):
        kind = "int" if abs(value) <= INT_MAX else "std::int64_t"
        lines.append(f"constexpr {kind} {name} = {value};")
    return "\n".join([*lines, "", "}  // namespace tierkv", ""])


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(header(source))
