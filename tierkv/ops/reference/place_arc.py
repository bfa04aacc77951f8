"""ARC, one id after another."""

from torch import Tensor

from tierkv.constants import Counter, Kind
from tierkv.ops.reference.tables import free_slots, live_rows, occupy, record, settled


def place_arc(
    lanes: Tensor,
    kind: Tensor,
    index: Tensor,
    miss_id: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    tables: list[Tensor],
    slot: Tensor,
    count: Tensor,
    counters: Tensor,
) -> None:
    """Balance what was used once against what was used again, by what each side regrets.

    `tables` are slot_of [lanes, positions], id_at [lanes, P]; lists of slots once and again
    [lanes, P] and of ids once_gone [lanes, P] and again_gone [lanes, 2 P], all int32, from least to
    most recent, then -1; target [lanes, 1] int32, how many slots ``once`` should have.

    As if the ids were requested one by one, first those that hit, each once and in the order
    selected, then the misses as offered: an id hit in this step may leave in it, and a newcomer
    too. The target moves by whole numbers, quotients rounded down.
    """
    slot_of, id_at, *rest = tables
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        arc = _Arc(id_at[lane].tolist(), [table[lane] for table in rest])
        for place in dict.fromkeys(index[row][kind[row] == Kind.HIT].tolist()):
            arc.use(place)
        free = iter(free_slots(id_at, lane).tolist())
        taken = [arc.enter(id, next(free, -1)) for id in ids.tolist()]
        arc.store()
        slots = settled(ids, taken)
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.SUPERSEDED)


class _Arc:
    """One lane during one step. A list is a dictionary whose keys are in order."""

    def __init__(self, id_at: list[int], tables: list[Tensor]) -> None:
        *self._lists, self._target = tables
        lists = [dict.fromkeys(n for n in table.tolist() if n >= 0) for table in self._lists]
        self.once, self.again, self.once_gone, self.again_gone = lists
        self.id_at, self.size, self.target = id_at, len(id_at), int(self._target)

    def use(self, slot: int) -> None:
        """Note a hit."""
        self.once.pop(slot, None)
        self.again.pop(slot, None)
        self.again[slot] = None

    def enter(self, id: int, slot: int) -> int:
        """Let an id into a free slot, or in place of another if `slot` is -1; give the slot."""
        if id in self.once_gone or id in self.again_gone:
            slot = self._return(id, slot)
            self.again[slot] = None
        else:
            slot = self._new(slot)
            self.once[slot] = None
        self.id_at[slot] = id
        return slot

    def _return(self, id: int, slot: int) -> int:
        """Take an id back that should not have left, and learn from it."""
        once, again = len(self.once_gone), len(self.again_gone)
        regretted = id in self.again_gone
        if regretted:
            self.target = max(self.target - max(once // again, 1), 0)
        else:
            self.target = min(self.target + max(again // once, 1), self.size)
        if slot < 0:
            slot = self._replace(regretted)
        self.once_gone.pop(id, None)
        self.again_gone.pop(id, None)
        return slot

    def _new(self, slot: int) -> int:
        """Make room for an id that nothing is known of, among the ghosts too."""
        known = len(self.once) + len(self.once_gone)
        if known == self.size and not self.once_gone:
            return _oldest(self.once)  # which is the whole pool
        if known == self.size:
            _oldest(self.once_gone)
        elif known + len(self.again) + len(self.again_gone) == 2 * self.size:
            _oldest(self.again_gone)
        return self._replace(False) if slot < 0 else slot

    def _replace(self, regretted: bool) -> int:
        """Let the least recent of one side leave; it is remembered."""
        surplus = len(self.once) - self.target
        from_once = bool(self.once) and (surplus > 0 or (regretted and surplus == 0))
        from_once = from_once or not self.again
        slot = _oldest(self.once if from_once else self.again)
        (self.once_gone if from_once else self.again_gone)[self.id_at[slot]] = None
        return slot

    def store(self) -> None:
        """Write the tables."""
        lists = (self.once, self.again, self.once_gone, self.again_gone)
        for table, numbers in zip(self._lists, lists, strict=True):
            table.fill_(-1)
            table[: len(numbers)] = table.new_tensor(list(numbers))
        self._target.fill_(self.target)


def _oldest(numbers: dict[int, None]) -> int:
    """Take the first out."""
    oldest = next(iter(numbers))
    del numbers[oldest]
    return oldest
