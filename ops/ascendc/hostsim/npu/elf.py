"""Dynamic symbols of 64-bit little-endian ELF files, as much as the stand-ins need."""

import struct
from dataclasses import dataclass
from pathlib import Path

_DYNSYM, _VERSYM = 11, 0x6FFFFFFF
_WEAK = 2
_SHARED_VERSION = 1  # indices up to this one carry no version


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of ``.dynsym``; `kind` is STT_*: 0 none, 1 object, 2 function, 6 thread-local."""

    name: str
    kind: int
    weak: bool
    defined: bool
    versioned: bool


def symbols(path: Path) -> list[Symbol]:
    """Every named dynamic symbol of `path`.

    Raises
    ------
    ValueError
        If the file is not a 64-bit little-endian ELF file.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
    at, step, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * step) for i in range(count)]
    table = next((s for s in sections if s[1] == _DYNSYM), None)
    if table is None:
        return []
    versions = next((s for s in sections if s[1] == _VERSYM), None)
    _, _, _, _, start, size, link, *_ = table
    strings = sections[link]
    names = data[strings[4] : strings[4] + strings[5]]
    found = []
    for i, (name, info, _, section, _, _) in enumerate(
        struct.iter_unpack("<IBBHQQ", data[start : start + size])
    ):
        if not name:
            continue
        version = struct.unpack_from("<H", data, versions[4] + 2 * i)[0] if versions else 0
        text = names[name : names.index(b"\0", name)].decode()
        weak, versioned = info >> 4 == _WEAK, version & 0x7FFF > _SHARED_VERSION
        found.append(Symbol(text, info & 15, weak, section != 0, versioned))
    return found
