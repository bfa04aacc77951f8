"""Custom operators by their AscendC source: the real tiling and kernel, in the core model."""

from collections import Counter
from collections.abc import Iterable

from torch import Tensor

from hostsim import Kernel
from hostsim.npu.custom import Call, Operator

Tensors = dict[str, Tensor | None]


class KernelDriver:
    """Runs calls of the operators in `names` in the core model; a fault fails the call.

    Parameters
    ----------
    names
        Folders of operators, ``"dsa_plan"``.
    cores
        Vector cores of the device.

    Attributes
    ----------
    runs
        How often each operator has run, by its type.
    """

    def __init__(self, names: Iterable[str], cores: int = 48) -> None:
        kernels = [Kernel(name) for name in names]
        self._kernels = {kernel.definition["name"]: kernel for kernel in kernels}
        self._cores = cores
        self.runs: Counter[str] = Counter()

    @property
    def operators(self) -> list[Operator]:
        """The operators, as their definitions have them."""
        return [
            Operator(
                type=name,
                inputs=tuple(each["name"] for each in kernel.definition["inputs"]),
                outputs=tuple(each["name"] for each in kernel.definition["outputs"]),
                attributes=tuple((a["name"], a["type"]) for a in kernel.definition["attrs"]),
            )
            for name, kernel in self._kernels.items()
        ]

    def plan(self, call: Call) -> None:
        inputs, outputs = self._split(call)
        self._kernels[call.type].tile(inputs, call.attributes, self._cores, outputs)

    def run(self, call: Call) -> None:
        inputs, outputs = self._split(call)
        report = self._kernels[call.type].run(inputs, outputs, call.attributes, self._cores)
        if report.faults:
            raise RuntimeError("; ".join(map(str, report.faults)))
        self.runs[call.type] += 1

    def _split(self, call: Call) -> tuple[Tensors, Tensors]:
        names = {each["name"] for each in self._kernels[call.type].definition["inputs"]}
        inputs = {name: each for name, each in call.tensors.items() if name in names}
        return inputs, {name: each for name, each in call.tensors.items() if name not in names}
