"""tierkv's operators for graphs of GE: called like the mutating ones, written with their twins."""

from typing import Any

import torch
from torch import Tensor

from tierkv_ascendc.operators import BYTES
from tierkv_ascendc.twins import OVERLOADS, TWINS, Twin, base


class Functional:
    """One operator. Outside of a compiler's trace it is the mutating one.

    A list of records becomes one call each. What the call gives is copied into what it would have
    mutated; GE then writes there in place.
    """

    def __init__(self, name: str) -> None:
        self._twin: Twin = TWINS[name]
        self._plain, self._call = self._twin.plain, OVERLOADS[name]
        self._places = {name: place for place, name in enumerate(self._twin.arguments)}
        self._records = [
            base(word) for word in self._words().values()
            if "[" not in word and self._is_list(base(word))
        ]  # fmt: skip

    def __call__(self, *arguments: Any) -> None:
        if not torch.compiler.is_compiling():
            self._plain(*arguments)
            return
        turns = max([1, *[len(arguments[self._places[name]]) for name in self._records]])
        before = [self._given(arguments, turn) for turn in range(turns)]
        for given in before:
            found = self._call(*given.values())
            values = found if isinstance(found, tuple) else (found,)
            for name, value in zip(self._twin.results, values, strict=True):
                if given[name] is not None:
                    given[name].copy_(value)

    def _words(self) -> dict[str, str]:
        return {**self._twin.tensors, **{name: name for name in self._twin.operator.made}}

    def _is_list(self, argument: str) -> bool:
        return "List" in str(self._twin.arguments[argument].type)

    def _given(self, arguments: tuple[Any, ...], turn: int) -> dict[str, Any]:
        """Give the twin's arguments for one record of each list."""
        words = self._words()
        tensors = {name: self._tensor(arguments, word, turn) for name, word in words.items()}
        first = tensors[next(iter(words))]
        numbers = {
            name: _row_bytes(first) if word == BYTES else arguments[self._places[word]]
            for name, word in self._twin.numbers.items()
        }
        given: dict[str, Any] = tensors | numbers
        return {name: given[name] for name in self._twin.names}

    def _tensor(self, arguments: tuple[Any, ...], word: str, turn: int) -> Tensor | None:
        value = arguments[self._places[base(word)]]
        if "[" in word:
            element: Tensor = value[int(word.partition("[")[2].rstrip("]"))]
            return element
        if base(word) in self._records:
            return value[turn] if value else None
        tensor: Tensor = value
        return tensor


def _row_bytes(rows: Tensor | None) -> int:
    assert rows is not None  # the first input is always there
    return rows.shape[-1] * rows.element_size()
