"""The edge cases of docs/semantics.md, and what the tests of them share."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from tierkv.testing.assemble import INDEXED, Shape

P = ParamSpec("P")

CASES = {
    1: "Lengths of 0, 1, and around top-k and pool; fewer visible positions than top-k; any top-k.",
    2: "All hits, all misses, another selection each step, the same one forever.",
    3: "-1 first, last, in the middle and everywhere.",
    4: "An id that stands twice in a query: served twice, one slot, one install.",
    5: "Queries that miss the same id; drafts that are rejected and written again.",
    6: "Rows of one batch with unequal query counts.",
    7: "A draft group stepped token by token, all rejected and written again.",
    8: "Ids with a stride of a power of two; more misses of one set than it has ways.",
    9: "A victim that is a hit of the same step, while other layers of the group are not served.",
    10: "A lane used again by another request; request ids with equal hashes.",
    11: "Batch rows in another order from step to step.",
    12: "Padding rows between real ones.",
    13: "A step that raises, at each point where it can.",
    14: "Delays in background work, at random.",
    15: "Calls out of order: an error that names the layer and what to call.",
    16: "A pool smaller than one step's distinct ids; a pool of none.",
    17: "Byte offsets past 2 GiB.",
    18: "Lanes admitted and released 10,000 times: nothing is left.",
    19: "A tier that cannot read part of a batch, cannot write, or gets no room.",
    20: "Requests that share pages: what one writes the other never sees.",
    21: "A selection used again: refused after a rewrite, else equal to selecting again.",
}
"""Number -> what docs/semantics.md, section 6, says of it."""

SHAPE = Shape(queries=4, pages=24, layout=INDEXED)
"""Four lanes of 96 tokens, top-k 6, groups [0] and [1, 2]."""


def case(number: int) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Let a failure of a test say which case it is of."""

    def mark(test: Callable[P, None]) -> Callable[P, None]:
        @wraps(test)
        def run(*arguments: P.args, **more: P.kwargs) -> None:
            try:
                test(*arguments, **more)
            except Exception as error:
                error.add_note(f"docs/semantics.md, case {number}: {CASES[number]}")
                raise

        return run

    return mark


def query(*ids: int, top_k: int = SHAPE.top_k) -> list[int]:
    """Pad a query's ids."""
    return [*ids, *[-1] * (top_k - len(ids))]
