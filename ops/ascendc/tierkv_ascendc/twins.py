"""Functional twins: CANN's operators as torch operators that change nothing, for graphs of GE.

A twin takes the inputs and attributes of CANN's operator by its description, and for each output
that is no input a tensor like it; it gives the outputs. Absent tensors have no argument.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import tierkv.ops  # noqa: F401  # declares the operators
from tierkv_ascendc.operators import ABSENT, BYTES, OPERATORS, Operator

NAMESPACE = "tierkv_ascendc"


class Twin:
    """The twin of one operator."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.plain: torch._ops.OpOverload = getattr(torch.ops.tierkv, operator.name).default
        """The operator that mutates."""
        self.arguments = {argument.name: argument for argument in self.plain._schema.arguments}
        self.tensors = {name: word for name, word in operator.inputs.items() if word != ABSENT}
        """CANN's name of each input that is there -> its word."""
        self.numbers = {
            name: word for name, word in operator.attributes.items() if not word.isdigit()
        }
        self.results = [
            name for name in operator.outputs if name in self.tensors or name in operator.made
        ]
        """CANN's names of what it gives."""

    @property
    def names(self) -> list[str]:
        """Its arguments."""
        return [*self.tensors, *self.numbers, *self.operator.made]

    @property
    def schema(self) -> str:
        """Its schema, without a name."""
        given = [
            f"Tensor{'?' if word.endswith('?') else ''} {name}"
            for name, word in self.tensors.items()
        ]
        given += [f"{self._kind(word)} {name}" for name, word in self.numbers.items()]
        given += [f"Tensor {name}" for name in self.operator.made]
        return f"({', '.join(given)}) -> ({', '.join(['Tensor'] * len(self.results))})"

    def _kind(self, word: str) -> str:
        return "int" if word == BYTES else str(self.arguments[word].type)

    def run(self, *arguments: Any) -> Tensor | tuple[Tensor, ...]:
        """Run the operator on copies."""
        given = dict(zip(self.names, arguments, strict=True))
        results = {n: given[n].clone() for n in self.results if given[n] is not None}
        given |= results
        self.plain(*self._plain_arguments(given))
        found = tuple(results.get(name, arguments[0].new_empty(0)) for name in self.results)
        return found[0] if len(found) == 1 else found

    def fake(self, *arguments: Any) -> Tensor | tuple[Tensor, ...]:
        """Give tensors like the outputs."""
        given = dict(zip(self.names, arguments, strict=True))
        found = tuple(
            arguments[0].new_empty(0) if given[n] is None else torch.empty_like(given[n])
            for n in self.results
        )
        return found[0] if len(found) == 1 else found

    def _plain_arguments(self, given: dict[str, Any]) -> list[Any]:
        words = {**self.tensors, **{name: name for name in self.operator.made}}
        lists: dict[str, list[Any]] = {}
        single: dict[str, Any] = {word: given[name] for name, word in self.numbers.items()}
        for name, word in words.items():
            argument, element = base(word), "[" in word
            if element or "[]" in _kind(self.arguments[argument]):
                kept = lists.setdefault(argument, [])
                kept += [] if given[name] is None else [given[name]]
            else:
                single[argument] = given[name]
        return [lists.get(name, single.get(name)) for name in self.arguments]


def base(word: str) -> str:
    """Give the schema's argument that a word names."""
    return word.rstrip("?!").partition("[")[0]


def _kind(argument: Any) -> str:
    return "Tensor[]" if "List" in str(argument.type) else str(argument.type)


def _register(library: torch.library.Library, twin: Twin) -> Callable[..., Any]:
    name = twin.operator.name
    library.define(name + twin.schema)
    library.impl(name, twin.run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", twin.fake, lib=library)
    overload: Callable[..., Any] = getattr(getattr(torch.ops, NAMESPACE), name).default
    return overload


LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
"""Kept alive: an operator lives as long as the library that defined it."""
TWINS = {name: Twin(operator) for name, operator in OPERATORS.items()}
OVERLOADS = {name: _register(LIBRARY, twin) for name, twin in TWINS.items()}
