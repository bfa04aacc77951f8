"""Write the header of the constants that kernels, tilings and Python share.

``python generate_constants.py HEADER``; sources are ``tierkv/constants.py`` and
``tierkv_ascendc/limits.py``, turned into C++ by the functions of ``ops/cpu/generate_constants.py``.
"""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
SOURCES = (PROJECT / "tierkv" / "constants.py", HERE / "tierkv_ascendc" / "limits.py")


def load(path: Path) -> ModuleType:
    """Import a file that belongs to no installation here."""
    name = f"tierkv_generate_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def header() -> str:
    """Text of ``tierkv_constants.h``."""
    cpu = load(PROJECT / "ops" / "cpu" / "generate_constants.py")
    lines = [
        f"// Generated from {' and '.join(path.name for path in SOURCES)}; do not edit.",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
        "namespace tierkv {",
        "",
    ]
    for source in SOURCES:
        for name, value in cpu.constants(cpu.load(source)):
            kind = "int" if abs(value) <= cpu.INT_MAX else "std::int64_t"
            lines.append(f"constexpr {kind} {name} = {value};")
    return "\n".join([*lines, "", "}  // namespace tierkv", ""])


def write(target: Path) -> None:
    """Write the header where it is missing or old."""
    write_text(target, header())


def write_text(target: Path, text: str) -> None:
    """Write a file where it is missing or differs, in one step."""
    if target.exists() and target.read_text() == text:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(target)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
