"""Which tokens a forward adds, to which requests."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class NewTokens:
    """Row ``i`` extends ``requests[i]``; its new tokens are the last ones of its S queries."""

    requests: Sequence[Hashable]
    lanes: Sequence[int]
    past: Sequence[int]
    """Tokens of each row that stay as they are."""
    counts: Sequence[int]
    """New tokens of each row, at least 1."""
    warm: Sequence[bool]
    """Of each row, whether a prompt ends here: steps follow, and will select alike."""

    @property
    def width(self) -> int:
        """S, the most new tokens of a row."""
        return max(self.counts)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row, the new ones included."""
        return [past + count for past, count in zip(self.past, self.counts, strict=True)]

    @property
    def uniform(self) -> bool:
        """Whether all rows are equally long and extended."""
        return len(set(self.past)) == len(set(self.counts)) == 1
