"""Running the C and C++ compilers."""

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

FLAGS = ("-O1", "-g0", "-fPIC", "-Wall")


class CompileError(Exception):
    """A compiler gave up; the message holds its output."""


def compiled(compiler: str, sources: list[Path], target: Path, *flags: str) -> Path:
    """Compile `sources` to `target`; what was there is replaced only by a complete file.

    Raises
    ------
    CompileError
        With the command and the compiler's output.
    """
    partial = target.with_name(f"{target.name}.{os.getpid()}")  # others may build it too
    command = [compiler, *FLAGS, *map(str, sources), "-o", str(partial), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{' '.join(command)}\n{done.stderr}")
    partial.replace(target)
    return target


def digest(paths: Iterable[Path], *more: str) -> str:
    """12 hex digits over the contents of `paths` and the texts `more`."""
    state = hashlib.sha256()
    for path in paths:
        state.update(path.read_bytes())
    for text in more:
        state.update(text.encode())
    return state.hexdigest()[:12]
