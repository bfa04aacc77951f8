"""Two-phase functions called from Python, as a torch extension calls them."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch

_TYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4,
    torch.int16: 6, torch.int64: 9, torch.bool: 12, torch.bfloat16: 27,
}  # fmt: skip
_ND = 2


class Library:
    """The functions of ``op_api/lib/libcust_opapi.so`` in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._functions = ctypes.CDLL(str(folder / "op_api" / "lib" / "libcust_opapi.so"))
        self._functions.aclCreateTensor.restype = ctypes.c_void_p
        self._functions.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def call(self, operator: str, *arguments: torch.Tensor | int | bool | None) -> None:
        """Launch `operator` on the current stream.

        Raises
        ------
        RuntimeError
            With CANN's message, if a phase fails.
        """
        words = [self._word(argument) for argument in arguments]
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        plan = getattr(self._functions, f"aclnn{operator}GetWorkspaceSize")
        self._check(plan(*words, ctypes.byref(size), ctypes.byref(executor)))
        workspace = torch.empty(size.value, dtype=torch.uint8, device="npu:0")
        stream = ctypes.c_void_p(torch.npu.current_stream().npu_stream)
        run = getattr(self._functions, f"aclnn{operator}")
        self._check(run(ctypes.c_void_p(workspace.data_ptr()), size, executor, stream))
        for argument, word in zip(arguments, words, strict=True):
            if isinstance(argument, torch.Tensor):
                self._functions.aclDestroyTensor(word)

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(self._functions.aclGetRecentErrMsg().decode())

    def _word(self, argument: torch.Tensor | int | bool | None) -> ctypes.c_void_p | ctypes.c_int64:
        if not isinstance(argument, torch.Tensor):
            return ctypes.c_int64(argument or 0)

        def numbers(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
            return (ctypes.c_int64 * len(values))(*values)

        rank = ctypes.c_uint64(argument.dim())
        sizes, strides = numbers(argument.shape), numbers(argument.stride())
        data = ctypes.c_void_p(argument.data_ptr())
        offset = ctypes.c_int64(0)
        return ctypes.c_void_p(
            self._functions.aclCreateTensor(
                sizes, rank, _TYPES[argument.dtype], strides, offset, _ND, sizes, rank, data
            )
        )
