"""The driver: tile, run, report."""

import ctypes
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from . import build
from .native import Launch, Library, TensorArgument
from .operands import POISON, TYPES, Attrs, Call, Tensors, bind, request
from .report import Costs, Fault, PipeCosts, RefusedError, Report, Tiling

FORMATS = {
    **{f"int{bits}_t": code for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q"))},
    **{f"uint{bits}_t": code for bits, code in ((8, "B"), (16, "H"), (32, "I"), (64, "Q"))},
    "bool": "?",
    "float": "f",
    "double": "d",
}
"""`struct` codes of the tiling fields' types."""

MAX_BLOCKS = 255

PIPES = ("S", "V", "MTE2", "MTE3")


class Options(TypedDict, total=False):
    """What a run does otherwise."""

    skip: tuple[str, int] | None
    """File and line of a sync statement that does nothing."""
    plant: Mapping[str, int]
    """Tiling fields to overwrite after the tiling, to see what a wrong one does."""
    stop_at_first: bool
    """End at the first fault; outputs are then incomplete."""


class Kernel:
    """One operator, compiled for the host.

    1. ``tile`` runs the tiling alone.
    2. ``run`` tiles, poisons the outputs, runs the kernel on every core and reports.
    3. ``sync_sites`` lists the sync statements that runs have met; ``run(skip=site)`` leaves one
       out, which the report must then show, or the statement is not needed.

    Parameters
    ----------
    name
        Folder of the operator.
    source
        Folder of operators; the repository's own if None.
    """

    def __init__(self, name: str, source: Path | None = None) -> None:
        operator = build.Operator(name, (source or build.ROOT / "src").resolve())
        self.name = name
        self._model = Library(build.model(), shared=True)
        self._host = Library(build.host(operator))
        self._kernel = Library(build.kernel(operator))
        self.definition: dict[str, Any] = self._host.ask("hostsim_describe")
        """Names and types of inputs, outputs and attributes, as the operator defines them."""
        if "error" in self.definition:
            raise RuntimeError(f"{name}: {self.definition['error']}")
        self._sites: set[tuple[str, int]] = set()

    @property
    def sync_sites(self) -> list[tuple[str, int]]:
        """File and line of every sync statement that a run has executed."""
        return sorted(self._sites)

    def tile(
        self,
        inputs: Tensors,
        attrs: Attrs | None = None,
        cores: int = 48,
        outputs: Tensors | None = None,
    ) -> Tiling:
        """Run the tiling alone.

        `outputs` may be left out where the tiling does not ask for them.

        Raises
        ------
        RefusedError
            The tiling refuses; its log says why.
        """
        relaxed = {
            **self.definition,
            "outputs": [{**p, "optional": True} for p in self.definition["outputs"]],
        }
        return self._tile(bind(relaxed, inputs, outputs or {}, attrs or {}), cores)

    def infer(
        self, inputs: Tensors, outputs: Tensors, attrs: Attrs | None = None
    ) -> dict[str, tuple[list[int] | None, int | None]]:
        """Shape and CANN's type number of each output, by the operator's inference functions."""
        return self._infer(bind(self.definition, inputs, outputs, attrs or {}))

    def run(
        self,
        inputs: Tensors,
        outputs: Tensors,
        attrs: Attrs | None = None,
        cores: int = 48,
        **options: Unpack[Options],
    ) -> Report:
        """Tile and run.

        Parameters
        ----------
        inputs, outputs
            Contiguous CPU tensors by name; a tensor that is both is an input only, and changes.
        attrs
            Attributes; those that are optional may be left out.
        cores
            Vector cores of the device.
        options
            What this run does otherwise, see `Options`.
        """
        call = bind(self.definition, inputs, outputs, attrs or {})
        tiling = self._tile(call, cores)
        faults = [*self._check_inference(call), *self._check_data(tiling)]
        for tensor in call.fresh:
            ctypes.memset(tensor.data_ptr(), POISON, tensor.nbytes)
        data = self._planted(tiling.data, options.get("plant") or {})
        answer = self._launch(call, tiling, data, cores, options)
        self._sites.update((file, line) for file, line in answer["sync_sites"])
        faults += [Fault(*fault) for fault in answer["faults"]]
        return Report(tuple(faults), tiling, tuple(_costs(core) for core in answer["cores"]))

    def _launch(
        self, call: Call, tiling: Tiling, data: bytes, cores: int, options: Options
    ) -> dict[str, Any]:
        file, line = options.get("skip") or (None, -1)
        both = {**call.inputs, **call.outputs}
        names = [name for name, tensor in both.items() if tensor is not None]
        empty = (ctypes.c_uint8 * len(names))()  # addresses for tensors without elements
        tensors = (TensorArgument * len(names))()
        for i, name in enumerate(names):
            tensor = both[name]
            assert isinstance(tensor, torch.Tensor)
            address = tensor.data_ptr() if tensor.nbytes else ctypes.addressof(empty) + i
            fresh = name not in call.inputs
            tensors[i] = TensorArgument(name.encode(), address, tensor.nbytes, fresh)
        order = [*call.inputs, *call.outputs]
        places = [names.index(name) if name in names else -1 for name in order]
        wanted = self._kernel.number("hostsim_arguments") & 0xFFFFFFFF
        if wanted != len(places) + 2:
            text = f"the kernel takes {wanted} arguments, the definition gives {len(places) + 2}"
            raise RuntimeError(f"{self.name}: {text} (inputs, outputs, workspace, tiling)")
        task = Launch(
            kernel=self._kernel.address("hostsim_entry"),
            tensors=tensors,
            arguments=(ctypes.c_int32 * len(places))(*places),
            tiling=data,
            skip_file=file.encode() if file else None,
            workspace=tiling.workspace,
            key=tiling.key,
            tensor_count=len(names),
            argument_count=len(places),
            blocks=tiling.blocks,
            cores=cores,
            skip_line=line,
            stop_at_first=options.get("stop_at_first", False),
            together=tiling.together,
        )
        return self._model.ask("hostsim_launch", task)

    def _tile(self, call: Call, cores: int) -> Tiling:
        question, kept = request(self.definition, call, cores)
        answer = self._host.ask("hostsim_tile", question)
        del kept
        if "error" in answer:
            raise RefusedError(answer["error"])
        data = bytes.fromhex(answer["bytes"])
        if not 1 <= answer["blocks"] <= MAX_BLOCKS:
            text = (
                f"the tiling asks for {answer['blocks']} blocks, the model runs 1 to {MAX_BLOCKS}"
            )
            raise RefusedError(f"{self.name}: {text}")
        fields = {field[0]: _decode(data, field) for field in self.definition["fields"]}
        return Tiling(
            blocks=answer["blocks"],
            key=answer["key"],
            together=answer["together"],
            workspace=sum(answer["workspace"]),
            data=data,
            fields=fields,
        )

    def _infer(self, call: Call) -> dict[str, tuple[list[int] | None, int | None]]:
        question, kept = request(self.definition, call, 1)
        answer = self._host.ask("hostsim_infer", question)
        del kept
        if "error" in answer:
            raise RefusedError(answer["error"])
        return dict(zip(call.outputs, map(tuple, answer["outputs"]), strict=True))

    def _check_inference(self, call: Call) -> list[Fault]:
        faults = []
        for name, (shape, kind) in self._infer(call).items():
            tensor = call.outputs[name]
            if tensor is None:
                continue
            given = list(tensor.shape), TYPES[tensor.dtype]
            known = shape is not None and all(dim >= 0 for dim in shape)
            want = shape if known else given[0], given[1] if kind is None else kind
            if want != given:
                text = f"{name} is inferred as {want[0]} of type {want[1]}, given as {given}"
                faults.append(Fault("infer", text, "", 0))
        return faults

    def _check_data(self, tiling: Tiling) -> list[Fault]:
        size = self._kernel.number("hostsim_tiling_bytes")
        if size == len(tiling.data):
            return []
        text = f"the tiling writes {len(tiling.data)} bytes, the kernel reads {size}"
        return [Fault("tiling", text, "", 0)]

    def _planted(self, data: bytes, plant: Mapping[str, int]) -> bytes:
        changed = bytearray(data)
        for name, value in plant.items():
            _, kind, offset, *_ = next(f for f in self.definition["fields"] if f[0] == name)
            struct.pack_into("<" + FORMATS[kind], changed, offset, value)
        return bytes(changed)


def _decode(data: bytes, field: list[Any]) -> int | float | tuple[int | float, ...]:
    _, kind, offset, _, count = field
    values = struct.unpack_from(f"<{count}{FORMATS[kind]}", data, offset)
    return values[0] if count == 1 else values


def _costs(core: dict[str, Any]) -> Costs:
    pipes = {name: PipeCosts(*cost) for name, cost in zip(PIPES, core.pop("pipes"), strict=True)}
    del pipes["S"]
    return Costs(pipes=pipes, **core)
