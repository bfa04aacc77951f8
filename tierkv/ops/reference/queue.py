"""A queue in tables that lets go of any of its numbers, in constant time."""

from collections.abc import Iterable, Iterator

from torch import Tensor

ENDS = 3
"""Numbers that a queue keeps of itself: place of the oldest, end, how many are in."""
ROOM = 2
"""Places for each number that a queue may hold: half of them may be holes."""


class Queue:
    """Numbers in order of arrival, for one lane and one step.

    One that is taken out leaves a hole. An arrival that finds no place behind the others first
    moves all to the front, so a step costs no more than what comes and goes in it. :meth:`store`
    writes the tables.

    Parameters
    ----------
    items
        [n] int32, oldest first; -1 is a hole.
    ends
        [ENDS] int32: place of the oldest, which is the end if there is none; end; how many.
    at
        [numbers] int32 place of each number, -1 is out; None where only the oldest ever leaves.
    """

    def __init__(self, items: Tensor, ends: Tensor, at: Tensor | None = None) -> None:
        self._tables = items, ends, at
        self._items: list[int] = items.tolist()
        self._end = int(ends[1])
        self._place = {number: place for place, number in enumerate(self._items) if number >= 0}

    def __iter__(self) -> Iterator[int]:
        """Go from the oldest to the newest."""
        return (number for number in self._items if number >= 0)

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, number: int) -> bool:
        return number in self._place

    def oldest(self) -> int:
        """Give the one that came first."""
        return next(iter(self))

    def newer(self, number: int) -> int:
        """Give the one that came next after `number`; -1 if that is the newest."""
        behind = self._items[self._place[number] + 1 : self._end]
        return next((other for other in behind if other >= 0), -1)

    def remove(self, number: int) -> None:
        """Take one out."""
        self._items[self._place.pop(number)] = -1

    def append(self, numbers: Iterable[int]) -> None:
        """Let several in; they move up together if they find no place."""
        numbers = list(numbers)
        if self._end + len(numbers) > len(self._items):
            kept = list(self)
            self._items = kept + [-1] * (len(self._items) - len(kept))
            self._place = {other: place for place, other in enumerate(kept)}
            self._end = len(kept)
        for number in numbers:
            self._items[self._end], self._place[number] = number, self._end
            self._end += 1

    def store(self) -> None:
        """Write the tables."""
        items, ends, at = self._tables
        first = min(self._place.values(), default=self._end)
        items.copy_(items.new_tensor(self._items))
        ends.copy_(ends.new_tensor([first, self._end, len(self)]))
        if at is not None:
            at.fill_(-1)
            numbers, places = list(self._place), list(self._place.values())
            at[at.new_tensor(numbers).long()] = at.new_tensor(places)
