"""Stand-ins for CANN's shared libraries, as many as torch_npu links.

``libascendcl.so`` holds everything: the host device of ``src/`` and, generated, an entry for every
other symbol that torch_npu leaves undefined. Those fail by name when called; C++ members, which
only GE's engine has, give 0. The other libraries are empty and depend on it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from hostsim.npu.compiler import compiled, digest
from hostsim.npu.elf import Symbol, symbols

SOURCE = Path(__file__).parent / "src"
MAIN = "libascendcl.so"
OTHERS = (
    "libhccl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
    "libfmk_parser.so",
    "libascend_protobuf.so",
    "libatb.so",
)

# C functions and C++ members that belong to CANN.
_CANN = re.compile(r"(acl|Hccl|Hcom|Msprof|rt[A-Z]|_ZNK?2ge|_ZNK?3atb)")
# Called while torch_npu is imported or leaves, without effect here.
_QUIET = frozenset(
    {
        "aclAppLog", "aclmdlFinalizeDump", "aclmdlInitDump", "aclmdlSetDump", "HcclSetConfig",
        "MsprofGetHashId", "MsprofRegisterCallback", "MsprofReportAdditionalInfo",
        "MsprofReportApi", "MsprofReportCompactInfo", "MsprofSysCycleTime",
    }
)  # fmt: skip
_THREAD_LOCAL = 6


def missing(package: Path) -> dict[str, Symbol]:
    """Symbols of CANN that the libraries below `package` leave undefined, by name."""
    found = [symbol for path in sorted(package.rglob("*.so")) for symbol in symbols(path)]
    defined = {symbol.name for symbol in found if symbol.defined}
    return {
        symbol.name: symbol
        for symbol in found
        if not symbol.defined and symbol.name not in defined and _CANN.match(symbol.name)
    }


def _entries(needed: dict[str, Symbol], own: set[str]) -> Iterator[str]:
    yield "int hostnpu_unsupported(const char* name);"
    for name, symbol in sorted(needed.items()):
        if name in own:
            continue
        if symbol.kind == _THREAD_LOCAL:
            yield f"__thread char {name}[256];"
        elif name.startswith(("_ZTV", "_ZTI", "_ZTS")):
            yield f"char {name}[256];"
        elif name in _QUIET or name.startswith("_Z"):
            yield f"long {name}(void) {{ return 0; }}"
        else:
            yield f'long {name}(void) {{ return hostnpu_unsupported("{name}"); }}'


def own_functions() -> set[str]:
    """Names of the C functions that ``src/`` defines."""
    text = "".join(path.read_text() for path in SOURCE.glob("*.cpp"))
    return set(re.findall(r"^(?:[\w:]+[ *&]+)+((?:acl|Hccl|rt)\w+|\w+_s)\(", text, re.MULTILINE))


def build(package: Path, build_folder: Path) -> Path:
    """Folder with the libraries for the torch_npu in `package`; built unless it is there."""
    sources = sorted(SOURCE.glob("*.[ch]pp"))
    code = [*sources, Path(__file__), package / "version.py"]
    folder = build_folder / f"standins-{digest(code)}"
    if (folder / OTHERS[-1]).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    stubs = folder / "stubs.c"
    stubs.write_text("\n".join([*_entries(missing(package), own_functions()), ""]))
    empty = folder / "empty.c"
    empty.write_text("typedef int nothing;\n")
    compiled("gcc", [stubs], folder / "stubs.o", "-c", "-fno-builtin")
    compiled(
        "g++",
        [*(path for path in sources if path.suffix == ".cpp"), folder / "stubs.o"],
        folder / MAIN,
        "-shared",
        "-std=c++17",
        f"-Wl,-soname,{MAIN}",
    )
    for name in OTHERS:
        compiled(
            "gcc",
            [empty],
            folder / name,
            "-shared",
            f"-Wl,-soname,{name}",
            "-Wl,--no-as-needed,-rpath,$ORIGIN",
            f"-L{folder}",
            "-lascendcl",
        )
    return folder


def libraries(folder: Path) -> list[Path]:
    """The libraries in the order in which they are loaded."""
    return [folder / name for name in (MAIN, *OTHERS)]
