"""Reads a trace file, as a stream and without pickles."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from tierkv.errors import TraceError, say
from tierkv.trace.chunk import Ints
from tierkv.trace.layout import FORMAT, IDS, ROWS, VERSION, make_head, parse_meta
from tierkv.trace.trace import Trace

_SCALAR_BYTES = 1 << 20
"""Bytes that ``format``, ``version`` or ``meta`` may take."""


def open_trace(path: str | Path) -> Trace:
    """Open a trace file; ids are read later, as :meth:`Trace.chunks` is iterated.

    Raises
    ------
    TraceError
        If the file cannot be read, is damaged, cut short, of another format, or newer.
    """
    name = str(path)
    with _open(name) as archive:
        names = {item.removesuffix(".npy") for item in archive.namelist() if item.endswith(".npy")}
        _check_format(name, archive, names)
        ids = _ids_members(name, names)
        shapes = [_shape(name, archive, item) for item in ids]
        for item, shape in zip(ids, shapes, strict=True):
            if shape[1:] != shapes[0][1:] or len(shape) != 5:
                wrong = f"must be [steps, groups, lanes, queries, top-k] like {ids[0]}"
                raise TraceError(say(f"{name}, {item}", wrong, got=list(shape)))
        whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        rows = {item: _rows(name, archive, item, whole) for item in ROWS if item in names}
        meta = _text(name, archive, "meta") if "meta" in names else "{}"
    head = make_head(name, whole, rows, parse_meta(name, meta))

    def read(most: int) -> Iterator[Ints]:
        with _open(name) as archive:
            for item in ids:
                yield from _stream(name, archive, item, most)

    return Trace(head, read)


@contextmanager
def _open(name: str) -> Iterator[zipfile.ZipFile]:
    """Open the archive; what goes wrong inside the block is the file's fault."""
    try:
        with zipfile.ZipFile(name) as archive:
            yield archive
    except zipfile.BadZipFile as error:
        wrong = f"is no trace, damaged or cut short ({str(error).rstrip('.')})"
        raise TraceError(say(name, wrong)) from None
    except OSError as error:
        raise TraceError(say(name, f"cannot be read, {error.strerror or error}")) from None
    except (EOFError, ValueError, KeyError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise TraceError(say(name, f"is damaged, {error}")) from None


def _check_format(name: str, archive: zipfile.ZipFile, names: set[str]) -> None:
    if "format" not in names or _text(name, archive, "format") != FORMAT:
        do = "see docs/traces.md"
        raise TraceError(say(name, f"is no {FORMAT}, array format does not say so", do=do))
    if "version" not in names:
        raise TraceError(say(f"{name}, version", "is missing"))
    version = _scalar(name, archive, "version")
    if not np.issubdtype(version.dtype, np.integer):
        raise TraceError(say(f"{name}, version", "must be a whole number", got=str(version)))
    if int(version) != VERSION:
        do = "upgrade tierkv" if int(version) > VERSION else ""
        raise TraceError(say(f"{name}, version", f"must be {VERSION}", got=int(version), do=do))


def _ids_members(name: str, names: set[str]) -> list[str]:
    """Give the arrays of ids in order: ``ids`` alone, or ``ids_0000`` and on without a gap."""
    found = sorted((item for item in names if IDS.fullmatch(item)), key=lambda n: (len(n), n))
    expected = ["ids"] if "ids" in names else [f"ids_{chunk:04}" for chunk in range(len(found))]
    if not found or found != expected:
        wrong = "must be one array ids, or ids_0000, ids_0001 and so on"
        raise TraceError(say(f"{name}, ids", wrong, got=found))
    return found


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _shape(name: str, archive: zipfile.ZipFile, item: str) -> tuple[int, ...]:
    """Give the shape of an array of ids, from its header alone."""
    with archive.open(f"{item}.npy") as file:
        shape, fortran, dtype = _header(file)
        nbytes = archive.getinfo(f"{item}.npy").file_size - file.tell()
    if dtype.newbyteorder("=") != np.int32 or fortran:
        got = f"{dtype}, {'Fortran' if fortran else 'C'} order"
        raise TraceError(say(f"{name}, {item}", "must be int32 in C order", got=got))
    if nbytes != 4 * np.prod(shape, dtype=object):
        wrong = f"is damaged, {list(shape)} int32 do not fit {nbytes} bytes"
        raise TraceError(say(f"{name}, {item}", wrong))
    return shape


def _rows(
    name: str, archive: zipfile.ZipFile, item: str, whole: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Read an array [steps, lanes], unless its size is another."""
    most = 4 * whole[0] * whole[2] + _SCALAR_BYTES
    return _array(name, archive, item, most)


def _scalar(name: str, archive: zipfile.ZipFile, item: str) -> np.ndarray[Any, Any]:
    array = _array(name, archive, item, _SCALAR_BYTES)
    if array.shape != ():
        raise TraceError(say(f"{name}, {item}", "must be one value", got=list(array.shape)))
    return array


def _text(name: str, archive: zipfile.ZipFile, item: str) -> str:
    value = _scalar(name, archive, item)
    if value.dtype.kind != "U":
        raise TraceError(say(f"{name}, {item}", "must be text", got=str(value.dtype)))
    return str(value)


def _array(name: str, archive: zipfile.ZipFile, item: str, most: int) -> np.ndarray[Any, Any]:
    if archive.getinfo(f"{item}.npy").file_size > most:
        raise TraceError(say(f"{name}, {item}", f"is larger than {most:,} bytes"))
    with archive.open(f"{item}.npy") as file:
        array: np.ndarray[Any, Any] = np.lib.format.read_array(file, allow_pickle=False)
        file.read()  # to the end: the checksum is looked at there
    return array


def _stream(name: str, archive: zipfile.ZipFile, item: str, most: int) -> Iterator[Ints]:
    """Give the ids of an array, at most `most` steps at a time."""
    with archive.open(f"{item}.npy") as file:
        shape, _, dtype = _header(file)
        step_bytes = 4 * int(np.prod(shape[1:]))
        for start in range(0, shape[0], most):
            steps = min(most, shape[0] - start)
            raw = file.read(steps * step_bytes)
            if len(raw) != steps * step_bytes:
                raise TraceError(say(f"{name}, {item}", f"is cut short in step {start}"))
            ids = np.frombuffer(raw, dtype).astype(np.int32, copy=False)
            yield ids.reshape(steps, *shape[1:])
        file.read()
