"""What a run of a kernel yields."""

from collections.abc import Mapping
from dataclasses import dataclass


class RefusedError(Exception):
    """The tiling, or the operator's definition, does not accept the call; the text says why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that would go wrong on the device."""

    kind: str
    """``race``, ``cores``, ``bounds``, ``alignment``, ``overlap``, ``undefined``, ``ub``, ``flag``,
    ``queue``, ``sync``, ``cache``, ``type``, ``tiling``, ``infer`` or ``hang``."""
    text: str
    file: str
    """Relative to ``ops/ascendc``."""
    line: int
    count: int = 1
    """How often it happened."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text} [{self.count}x]"


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a tiling function decided."""

    blocks: int
    """Cores that run the kernel."""
    key: int
    together: bool
    """All blocks start at once, as SyncAll needs it: ``SetScheduleMode(1)``."""
    workspace: int
    """Bytes."""
    data: bytes
    fields: Mapping[str, int | float | tuple[int | float, ...]]
    """The registered class's fields, decoded from `data`."""


@dataclass(frozen=True, slots=True)
class PipeCosts:
    """Work of one pipe of one core."""

    instructions: int
    bytes: int
    """Copies: bytes moved. Vector: bytes of the result, or of what is compared or reduced."""
    bursts: int
    """Copies: blocks, each a transfer of its own. Vector: repeats of 256 bytes."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Work of one core."""

    pipes: Mapping[str, PipeCosts]
    """``V``, ``MTE2`` (into the core) and ``MTE3`` (out of it)."""
    other_scalar: int
    """Scalar instructions with a name of their own, such as ScalarGetSFFValue."""
    ub_scalar: int
    """GetValue and SetValue on the unified buffer."""
    gm_scalar: int
    """GetValue and SetValue on global memory."""
    flags: int
    """SetFlag and WaitFlag, those of queues included."""
    barriers: int
    syncs: int
    """SyncAll."""
    ub_peak: int
    """Bytes of the unified buffer in use at most."""

    @property
    def scalar(self) -> int:
        """A proxy of the scalar pipe's work: each access, flag, barrier and issue is one.

        Arithmetic, branches and loops between them are the host compiler's and are not seen.
        """
        issued = sum(pipe.instructions for pipe in self.pipes.values())
        accesses = self.ub_scalar + self.gm_scalar + self.other_scalar
        return accesses + self.flags + self.barriers + self.syncs + issued


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a run."""

    faults: tuple[Fault, ...]
    """At most 50 different ones; empty is good."""
    tiling: Tiling
    costs: tuple[Costs, ...]
    """One a core."""

    @property
    def ub_peak(self) -> int:
        """Bytes of the unified buffer that the fullest core had in use."""
        return max(cost.ub_peak for cost in self.costs)
