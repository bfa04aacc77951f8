"""The model's C interface: structures of ``src/launch.h`` and ``src/host.h``."""

import ctypes
import json
from pathlib import Path
from typing import Any


class TensorArgument(ctypes.Structure):
    """Memory that a kernel may touch."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("fresh", ctypes.c_int32),
    )


class Launch(ctypes.Structure):
    """One run of a kernel."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("tensors", ctypes.POINTER(TensorArgument)),
        ("arguments", ctypes.POINTER(ctypes.c_int32)),
        ("tiling", ctypes.c_char_p),
        ("skip_file", ctypes.c_char_p),
        ("workspace", ctypes.c_uint64),
        ("key", ctypes.c_uint64),
        ("tensor_count", ctypes.c_int32),
        ("argument_count", ctypes.c_int32),
        ("blocks", ctypes.c_int32),
        ("cores", ctypes.c_int32),
        ("skip_line", ctypes.c_int32),
        ("stop_at_first", ctypes.c_int32),
        ("together", ctypes.c_int32),
    )


class OperandArgument(ctypes.Structure):
    """Shape and type of an input or output."""

    _fields_ = (
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("present", ctypes.c_int32),
    )


class AttrArgument(ctypes.Structure):
    """Value of an attribute; `kind` is the first letter of its type."""

    _fields_ = (
        ("whole", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
        ("kind", ctypes.c_char),
    )


class Request(ctypes.Structure):
    """One call of the host side."""

    _fields_ = (
        ("inputs", ctypes.POINTER(OperandArgument)),
        ("outputs", ctypes.POINTER(OperandArgument)),
        ("attrs", ctypes.POINTER(AttrArgument)),
        ("ub_bytes", ctypes.c_uint64),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("attr_count", ctypes.c_int32),
        ("cores", ctypes.c_int32),
    )


class Library:
    """A compiled library whose functions return JSON."""

    def __init__(self, path: Path, shared: bool = False) -> None:
        self._library = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL if shared else ctypes.RTLD_LOCAL)

    def address(self, function: str) -> int:
        """Where a function lies."""
        return ctypes.cast(getattr(self._library, function), ctypes.c_void_p).value or 0

    def number(self, function: str) -> int:
        """Result of a function that takes nothing."""
        call = getattr(self._library, function)
        call.restype = ctypes.c_uint64
        return int(call())

    def ask(self, function: str, question: ctypes.Structure | None = None) -> dict[str, Any]:
        """Call a function with one structure or nothing, and decode its answer."""
        call = getattr(self._library, function)
        call.restype = ctypes.c_char_p
        answer = call() if question is None else call(ctypes.byref(question))
        decoded: dict[str, Any] = json.loads(answer)
        return decoded
