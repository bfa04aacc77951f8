"""``libopapi.so``: torch's CPU operators on the host device, and the copy of CANN's operators."""

import sysconfig
from pathlib import Path

from hostsim.npu.compiler import compiled, digest

NAME = "libopapi.so"
SOURCE = Path(__file__).parent


def build(torch_folder: Path, standins: Path, build_folder: Path) -> Path:
    """The library for the torch in `torch_folder`; built, about 30 s, unless it is there."""
    sources = sorted((SOURCE / "aten").glob("*.[ch]pp"))
    headers = sorted((SOURCE / "src").glob("*.hpp"))
    version = (torch_folder / "version.py").read_text()
    folder = build_folder / f"opapi-{digest([*sources, *headers, Path(__file__)], version)}"
    target = folder / NAME
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        compiled(
            "g++",
            [path for path in sources if path.suffix == ".cpp"],
            target,
            "-shared",
            "-std=c++20",
            f"-I{torch_folder / 'include'}",
            f"-I{sysconfig.get_paths()['include']}",
            f"-Wl,-soname,{NAME},-z,defs",
            *(f"-L{path}" for path in (standins, torch_folder / "lib")),
            *("-lascendcl", "-ltorch_cpu", "-lc10"),
        )
    return target
