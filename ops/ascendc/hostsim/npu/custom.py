"""Custom operators on the host device: ``libcust_opapi.so`` and who runs its calls.

The library is generated from the operators' definitions. Its two-phase functions take what CANN's
would take, in the same order: inputs (a tensor that is also an output once), attributes, outputs.
They hand each call to a driver in Python: to plan it, that is to tile, and to run it in the order
of its stream, once more at every replay of a graph.
"""

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from hostsim.npu.compiler import compiled, digest

NAME = "libcust_opapi.so"
SOURCE = Path(__file__).parent / "src"

_C_TYPES = {
    "int": "std::int64_t",
    "bool": "bool",
    "float": "double",
    "string": "const char*",
    "ints": "const aclIntArray*",
}
_DTYPES = {
    0: torch.float32, 1: torch.float16, 2: torch.int8, 3: torch.int32, 4: torch.uint8,
    6: torch.int16, 7: torch.uint16, 8: torch.uint32, 9: torch.int64, 11: torch.float64,
    12: torch.bool, 27: torch.bfloat16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operator:
    """What the signature of an operator follows from.

    Attributes
    ----------
    type
        CANN's name, ``"DsaPlan"``.
    inputs, outputs
        Names in order; a name in both is changed in place.
    attributes
        Names and kinds in order: ``int``, ``bool``, ``float``, ``string`` or ``ints``.
    """

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call; tensors are CPU tensors over the device's memory, None where absent."""

    type: str
    tensors: dict[str, torch.Tensor | None]
    attributes: dict[str, Any] = field(default_factory=dict)


class Driver(Protocol):
    """Runs operators; raises with the reason where one is refused or fails."""

    def plan(self, call: Call) -> None:
        """Tile `call`; its tensors may not be looked at yet."""

    def run(self, call: Call) -> None:
        """Run `call`."""


def _functions(operator: Operator) -> Iterator[str]:
    pure = [name for name in operator.outputs if name not in operator.inputs]
    tensors = [*operator.inputs, *pure]
    parameters = [
        *(f"const aclTensor* {name}" for name in operator.inputs),
        *(f"{_C_TYPES[kind]} {name}" for name, kind in operator.attributes),
        *(f"const aclTensor* {name}" for name in pure),
        "std::uint64_t* workspace_",
        "aclOpExecutor** executor_",
    ]
    name = f"aclnn{operator.type}"
    yield f"int {name}GetWorkspaceSize({', '.join(parameters)}) {{"
    yield f'  hostnpu::Operation call_("{operator.type}");'
    for each in (*tensors, *(each for each, _ in operator.attributes)):
        yield f'  call_.add("{each}", {each});'
    yield "  return call_.plan(workspace_, executor_);"
    yield "}"
    yield f"int {name}(void*, std::uint64_t, aclOpExecutor* executor, void* stream) {{"
    yield "  return hostnpu::execute(executor, stream);"
    yield "}"


def source(operators: list[Operator]) -> str:
    """C++ text of the library."""
    lines = [line for operator in operators for line in _functions(operator)]
    return "\n".join(['#include "operation.hpp"', "", 'extern "C" {', *lines, "}", ""])


def build(operators: list[Operator], standins: Path, build_folder: Path) -> Path:
    """Folder for ``ASCEND_CUSTOM_OPP_PATH``, with ``op_api/lib/libcust_opapi.so``."""
    text = source(operators)
    headers = sorted(SOURCE.glob("*.hpp"))
    folder = build_folder / f"custom-{digest(headers, text)}"
    target = folder / "op_api" / "lib" / NAME
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        code = folder / "operators.cpp"
        code.write_text(text)
        flags = ("-shared", "-std=c++17", f"-I{SOURCE}", f"-Wl,-soname,{NAME},-rpath,{standins}")
        compiled("g++", [code], target, *flags, f"-L{standins}", "-lascendcl")
    return folder


def _tensor(described: list[Any] | None) -> torch.Tensor | None:
    if described is None:
        return None
    address, kind, sizes = described
    dtype = _DTYPES[kind]
    count = int(torch.Size(sizes).numel())
    if count == 0:
        return torch.empty(sizes, dtype=dtype)
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype).view(sizes)


def _parse(text: bytes) -> Call:
    read = json.loads(text)
    tensors = {name: _tensor(described) for name, described in read["tensors"].items()}
    return Call(read["type"], tensors, read["attributes"])


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t
)


@contextmanager
def installed(runtime: ctypes.CDLL, driver: Driver) -> Iterator[None]:
    """`driver` runs custom operators; what is queued is done before it leaves."""

    def answer(phase: int, call: bytes, error: Any, room: int) -> int:
        try:
            (driver.run if phase else driver.plan)(_parse(call))
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}".encode()[: room - 1]
            ctypes.memmove(error, text + b"\0", len(text) + 1)
            return 1
        return 0

    callback = _Callback(answer)
    runtime.hostnpu_set_driver(callback)
    try:
        yield
        torch.npu.synchronize()
    finally:
        runtime.hostnpu_set_driver(None)
