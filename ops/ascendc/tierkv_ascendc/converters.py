"""The twins in GE's graph: one converter for all, by their descriptions.

GE writes an output that is an input too in place. That is right for an input of the graph, and for
what another of these operators made of one: the value before is dead then, and a control edge lets
every earlier reader of it go first. Anything else is copied first.
"""

from collections.abc import Callable
from typing import Any

from tierkv_ascendc.operators import ABSENT, OPERATORS
from tierkv_ascendc.twins import OVERLOADS, TWINS, Twin

TYPES = frozenset(operator.type for operator in OPERATORS.values())


def register() -> None:
    """Let torchair convert the twins; needs torch_npu."""
    import torchair  # noqa: F401  # the lazy module must be there first
    from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

    for name, overload in OVERLOADS.items():
        register_fx_node_ge_converter(overload)(_converter(TWINS[name]))


def _converter(twin: Twin) -> Callable[..., Any]:
    operator = twin.operator

    def convert(*arguments: Any, meta_outputs: Any = None) -> Any:
        import torchair

        given = dict(zip(twin.names, arguments, strict=True))
        inputs, readers = {}, []
        for name, word in operator.inputs.items():
            tensor = given.get(name)
            if tensor is not None and name in operator.outputs:
                tensor, before = _writable(tensor)
                readers += before
            elif tensor is None and word != ABSENT:  # a list of records that is empty
                tensor = torchair.ge.Const([], dtype=arguments[0].dtype)
            inputs[name] = tensor
        numbers = {name: given.get(name, word) for name, word in operator.attributes.items()}
        attributes = {name: _attribute(number) for name, number in numbers.items()}
        found = torchair.ge.custom_op(
            operator.type, inputs=inputs, outputs=list(operator.outputs), attrs=attributes
        )
        made = dict(zip(operator.outputs, _several(found), strict=True))
        node = made[operator.outputs[0]].node
        node.input.extend(sorted({f"{reader}:-1" for reader in readers}))
        results = tuple(made[name] for name in twin.results)
        return results[0] if len(results) == 1 else results

    return convert


def _attribute(number: Any) -> Any:
    import torchair

    if isinstance(number, bool):
        return torchair.ge.attr.Bool(number)
    return torchair.ge.attr.Int(int(number))


def _several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, list | tuple) else (found,)


def _writable(tensor: Any) -> tuple[Any, list[str]]:
    """Give what may be written in place, and the nodes that must have read it by then."""
    from torchair._ge_concrete_graph import ge_apis
    from torchair.ge._ge_graph import get_default_ge_graph

    node = tensor.node
    if node.type != "Data" and not _written(tensor):
        return ge_apis.TensorMove(tensor), []
    readers = [op.name for op in get_default_ge_graph().op if tensor.tensor in op.input]
    return tensor, readers


def _written(tensor: Any) -> bool:
    """Whether it is an input of the graph that one of these operators has written in place."""
    node = tensor.node
    if node.type not in TYPES:
        return False
    name = node.output_desc[tensor.index].name
    sources = dict(zip((desc.name for desc in node.input_desc), node.input, strict=False))
    return name in sources and not sources[name].startswith("TensorMove")
