"""The rows of a batch and the requests that hold their tokens."""

from collections.abc import Sequence
from itertools import count

from tierkv.cache import TieredCache
from tierkv.errors import CapacityError, StateError, say
from tierkv.integrations.transformers.new_tokens import NewTokens


class Rows:
    """One request a row, all equally long: a row's left padding counts as positions.

    Padding is written like any token but never selected, so it is never in a pool.
    """

    def __init__(self, tiered: TieredCache) -> None:
        self.tiered = tiered
        self.requests: list[str] = []
        """The request of each row."""
        self.length = 0
        """Tokens of each row, padding included."""
        self._lane_of: dict[str, int] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def lanes(self) -> list[int]:
        """The lane of each row."""
        return [self._lane_of[request] for request in self.requests]

    def open(self, rows: int) -> None:
        """Make sure that the batch has `rows` rows; an empty one takes any number.

        Raises
        ------
        CapacityError, StateError
            Nothing was changed.
        """
        if rows == len(self):
            return
        if self.length:
            wrong = f"the cache holds {len(self)} rows"
            raise StateError(say("batch", wrong, got=rows, do="reset it first"))
        self._check_lanes(rows)
        self.clear()
        self.requests = [self._admit() for _ in range(rows)]

    def extended(self, tokens: int, warm: bool) -> NewTokens:
        """Describe a forward over so many new tokens of every row."""
        rows = len(self)
        past, counts = [self.length] * rows, [tokens] * rows
        return NewTokens(self.requests, self.lanes, past, counts, [warm] * rows)

    def crop(self, length: int) -> None:
        """Forget what lies behind `length`; rejected drafts cost nothing."""
        for request, lane in zip(self.requests, self.lanes, strict=True):
            if length < self.tiered.lengths.stable[lane].max():
                self.tiered.truncate(request, length)
        self.length = length

    def clear(self) -> None:
        """End all requests."""
        for request in self.requests:
            self._release(request)
        self.requests, self.length = [], 0

    def rearrange(self, rows: Sequence[int]) -> None:
        """Let row ``i`` hold what row ``rows[i]`` held; a row named again is forked.

        Raises
        ------
        CapacityError, StateError
            Nothing was changed.
        """
        if any(not 0 <= row < len(self) for row in rows):
            wrong = f"the cache holds {len(self)} rows"
            raise StateError(say("batch", wrong, got=list(rows), do="name rows of it"))
        self._check_lanes(len(rows))
        for row, name in enumerate(self.requests):
            if row not in rows:
                self._release(name)
        requests: list[str] = []
        for row in rows:
            name = self.requests[row]
            requests.append(self._fork(name) if name in requests else name)
        self.requests = requests

    def _check_lanes(self, rows: int) -> None:
        lanes = self.tiered.limits.lanes
        others = self.tiered.stats().lanes_used - len(self)
        if rows > lanes - others:
            wrong = f"the cache has lanes for {lanes - others} rows"
            raise CapacityError(say("batch", wrong, got=rows, do="raise it"))

    def _admit(self) -> str:
        name = f"row {next(self._numbers)}"
        self._lane_of[name] = self.tiered.admit(name)
        return name

    def _fork(self, source: str) -> str:
        name = f"row {next(self._numbers)}"
        self._lane_of[name] = self.tiered.fork(source, name)
        return name

    def _release(self, name: str) -> None:
        self.tiered.release(name)
        del self._lane_of[name]
