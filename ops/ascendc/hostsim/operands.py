"""Tensors and attributes of a call, checked against the operator's definition."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .native import AttrArgument, OperandArgument, Request
from .report import RefusedError

UB_BYTES = 192 * 1024
POISON = 0xA5
TYPES = {
    torch.float32: 0,
    torch.float16: 1,
    torch.int8: 2,
    torch.int32: 3,
    torch.uint8: 4,
    torch.int16: 6,
    torch.int64: 9,
    torch.bool: 12,
    torch.bfloat16: 27,
}
"""Numbers of CANN's ge::DataType."""

Tensors = Mapping[str, torch.Tensor | None]
Attrs = Mapping[str, int | bool | float | str]


@dataclass(frozen=True, slots=True)
class Call:
    """Inputs and outputs in the order of the definition; None is an optional input left out."""

    inputs: dict[str, torch.Tensor | None]
    outputs: dict[str, torch.Tensor | None]
    attrs: dict[str, Any]

    @property
    def fresh(self) -> list[torch.Tensor]:
        """Outputs that are not inputs too."""
        return [t for name, t in self.outputs.items() if name not in self.inputs and t is not None]


def bind(definition: Mapping[str, Any], inputs: Tensors, outputs: Tensors, attrs: Attrs) -> Call:
    """Match what is given with the definition.

    Raises
    ------
    RefusedError
        For a missing, unknown or non-contiguous tensor, types that no column of the definition
        lists, or a missing or unknown attribute.
    """
    given = {p["name"]: _tensor(p, inputs.get(p["name"])) for p in definition["inputs"]}
    made = {}
    for p in definition["outputs"]:
        name = p["name"]
        made[name] = given[name] if name in given else _tensor(p, outputs.get(name))
    unknown = (inputs.keys() - given.keys()) | (outputs.keys() - made.keys())
    if unknown:
        raise RefusedError(f"{definition['name']} has no {', '.join(sorted(unknown))}")
    call = Call(given, made, _attrs(definition, attrs))
    _check_types(definition, call)
    return call


def request(definition: Mapping[str, Any], call: Call, cores: int) -> tuple[Request, list[Any]]:
    """What the host side is asked, and what must stay alive meanwhile."""
    ins, outs = (_operands(list(side.values())) for side in (call.inputs, call.outputs))
    kinds = {p["name"]: p["type"] for p in definition["attrs"]}
    attrs = (AttrArgument * len(call.attrs))(
        *(_attr(value, kinds[name]) for name, value in call.attrs.items())
    )
    counts = len(call.inputs), len(call.outputs), len(call.attrs)
    return Request(ins[0], outs[0], attrs, UB_BYTES, *counts, cores), [ins, outs, attrs]


def _tensor(param: Mapping[str, Any], tensor: torch.Tensor | None) -> torch.Tensor | None:
    if tensor is None:
        if param["optional"]:
            return None
        raise RefusedError(f"{param['name']} is missing")
    if not tensor.is_contiguous():
        raise RefusedError(f"{param['name']} is not contiguous")
    return tensor


def _attrs(definition: Mapping[str, Any], attrs: Attrs) -> dict[str, Any]:
    values = {}
    for p in definition["attrs"]:
        if p["required"] and p["name"] not in attrs:
            raise RefusedError(f"attribute {p['name']} is missing")
        values[p["name"]] = attrs.get(p["name"], p["default"])
    unknown = attrs.keys() - values.keys()
    if unknown:
        raise RefusedError(f"{definition['name']} has no attribute {', '.join(sorted(unknown))}")
    return values


def _check_types(definition: Mapping[str, Any], call: Call) -> None:
    """A definition lists, for each operand, one type a column; a call must fit one column."""
    params = [*definition["inputs"], *definition["outputs"]]
    tensors = [*call.inputs.values(), *call.outputs.values()]
    columns = max(len(p["types"]) for p in params)
    for column in range(columns):
        if all(
            tensor is None or TYPES[tensor.dtype] == p["types"][column]
            for p, tensor in zip(params, tensors, strict=True)
        ):
            return
    got = ", ".join(
        f"{p['name']} {str(t.dtype).removeprefix('torch.')}"
        for p, t in zip(params, tensors, strict=True)
        if t is not None
    )
    raise RefusedError(f"{definition['name']} is not defined for {got}")


def _operands(tensors: list[torch.Tensor | None]) -> tuple[Any, list[Any]]:
    kept, operands = [], []
    for tensor in tensors:
        shape = () if tensor is None else tuple(tensor.shape)
        dims = (ctypes.c_int64 * len(shape))(*shape)
        kind = 0 if tensor is None else TYPES[tensor.dtype]
        operands.append(OperandArgument(dims, len(shape), kind, tensor is not None))
        kept.append(dims)
    return (OperandArgument * len(operands))(*operands), kept


def _attr(value: Any, kind: str) -> AttrArgument:
    letter = kind[0].encode()
    if letter == b"s":
        return AttrArgument(0, 0, str(value).encode(), letter)
    if letter == b"f":
        return AttrArgument(0, float(value), None, letter)
    return AttrArgument(int(value), 0, None, letter)
