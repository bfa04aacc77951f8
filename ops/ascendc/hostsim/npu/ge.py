"""Graphs that torchair makes for GE, kept instead of compiled: there is no GE here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch


@dataclass(frozen=True, slots=True)
class GeGraph:
    """A converted and optimised graph.

    Attributes
    ----------
    proto
        torchair's ``GraphDef``; ``proto.op`` lists the nodes with `type`, `input` and `attr`.
    written_inputs
        Indices of ``Data`` nodes that the graph writes in place.
    """

    proto: Any
    written_inputs: frozenset[int]

    @property
    def types(self) -> list[str]:
        """Types of the nodes in order."""
        return [node.type for node in self.proto.op]

    def node(self, kind: str) -> Any:
        """The only node of type `kind`."""
        (found,) = (node for node in self.proto.op if node.type == kind)
        return found


def backend(**options: Any) -> Callable[..., Any]:
    """A backend for ``torch.compile`` that converts to GE and then runs eagerly.

    `options` are attributes of ``torchair.CompilerConfig().experimental_config``.
    """
    import torchair

    _make_room()
    config = torchair.CompilerConfig()
    config.mode = "max-autotune"
    config.debug.run_eagerly = True
    for name, value in options.items():
        setattr(config.experimental_config, name, value)
    return torchair.get_npu_backend(compiler_config=config)


def _make_room() -> None:
    """Let torchair come after npugraph_ex: both register these, and only the latter looks first."""
    from torchair import _utils

    if _utils.add_npu_patch.has_run:
        return
    aten, key = torch.ops.aten, torch._C.DispatchKey
    for overload in (aten.to.other, aten.type_as.default):
        overload.py_kernels.pop(key.AutogradPrivateUse1, None)
    aten.matmul_backward.default.py_kernels.pop(key.CompositeImplicitAutograd, None)


def _registered(kind: str) -> tuple[str, list[Any], list[Any], list[Any]]:
    """Say that every operator is known to GE: it would be in CANN's or our own library."""
    return ("SUCCESS", [], [], [])


@contextmanager
def captured() -> Iterator[list[GeGraph]]:
    """Collect the graphs that are converted meanwhile; compile afresh."""
    import torchair  # noqa: F401  # the lazy module must be there first
    from torchair._ge_concrete_graph import fx2ge_converter
    from torchair.core import _backend, _torchair

    graphs: list[GeGraph] = []
    optimize = fx2ge_converter.GeConcreteGraph.optimize_graph_without_runtime

    def keep(graph: Any, *arguments: Any, **options: Any) -> None:
        optimize(graph, *arguments, **options)
        proto = type(graph.graph._proto)()
        proto.CopyFrom(graph.graph._proto)
        graphs.append(GeGraph(proto, frozenset(graph._ref_data_idx)))

    torch._dynamo.reset()
    with (
        mock.patch.object(fx2ge_converter, "initialize_graph_engine"),
        mock.patch.object(_backend, "_cached_device_id", 0),
        mock.patch.object(_torchair, "get_registered_ir_def", _registered),
        mock.patch.object(_torchair, "check_cann_compat", return_value=""),  # CANN has them all
        mock.patch.object(fx2ge_converter.GeConcreteGraph, "optimize_graph_without_runtime", keep),
    ):
        yield graphs
    torch._dynamo.reset()
