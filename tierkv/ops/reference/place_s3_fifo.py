"""S3-FIFO, one id after another."""

from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.queue import ENDS, Queue
from tierkv.ops.reference.tables import free_slots, hit_slots, live_rows, occupy, record, settled

MOST = 3
"""Uses are counted up to this."""
PROMOTED = 2
"""Uses that take an id from the small queue to the main one."""


def place_s3_fifo(
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
    """Filter what is used once through a small queue; keep the others in a main one.

    `tables` are slot_of [lanes, positions], id_at [lanes, P]; queues of slots small and main
    [lanes, 2 P] and of ids ghost [lanes, 2 G] with ghost_at [lanes, positions]; ends [lanes, 10],
    three of each queue, then whether anything ever left; all int32; uses [lanes, P] int8.
    ``P // 10`` slots, but at least one, are the small queue's share, G is that of the ghosts.

    As if the ids were requested one by one, first those that hit, each once, then the misses as
    offered: an id hit in this step may leave in it, and a newcomer too.
    """
    slot_of, id_at, *rest = tables
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        queues = _S3Fifo(id_at[lane].tolist(), [table[lane] for table in rest])
        for place in hit_slots(kind[row], index[row]).tolist():
            queues.use(place)
        free = iter(free_slots(id_at, lane).tolist())
        taken = [queues.enter(id, next(free, -1)) for id in ids.tolist()]
        queues.store()
        slots = settled(ids, taken)
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.SUPERSEDED)


class _S3Fifo:
    """One lane during one step."""

    def __init__(self, id_at: list[int], tables: list[Tensor]) -> None:
        small, main, ghost, ghost_at, self._ends, self._uses = tables
        ends = self._ends[: 3 * ENDS].view(3, ENDS)
        self.small, self.main = Queue(small, ends[0]), Queue(main, ends[1])
        self.ghost = Queue(ghost, ends[2], ghost_at)
        self.full = bool(self._ends[-1])
        self.id_at, self.uses = id_at, self._uses.tolist()
        self.share = max(len(id_at) // 10, 1)
        self.ghosts = len(ghost) // 2

    def use(self, slot: int) -> None:
        """Count a hit."""
        self.uses[slot] = min(self.uses[slot] + 1, MOST)

    def enter(self, id: int, slot: int) -> int:
        """Let an id into a free slot, or in place of another if `slot` is -1; give the slot."""
        known = id in self.ghost
        if known:
            self.ghost.remove(id)
        while slot < 0:
            self.full = True
            from_main = len(self.main) > len(self.id_at) - self.share or not len(self.small)
            slot = self._evict_main() if from_main else self._evict_small()
        into_main = known or (not self.full and len(self.small) >= self.share)
        (self.main if into_main else self.small).append([slot])
        self.id_at[slot], self.uses[slot] = id, 0
        return slot

    def _evict_small(self) -> int:
        """Give the slot of the first that was not used enough, -1 if all move on to main."""
        while len(self.small):
            slot = self.small.oldest()
            self.small.remove(slot)
            if self.uses[slot] < PROMOTED:
                self._remember(self.id_at[slot])
                return slot
            self.main.append([slot])
            self.uses[slot] = 0
        return -1

    def _evict_main(self) -> int:
        """Give the slot of the first that was not used; the others pay one use to stay."""
        while True:
            slot = self.main.oldest()
            self.main.remove(slot)
            if not self.uses[slot]:
                return slot
            self.uses[slot] -= 1
            self.main.append([slot])

    def _remember(self, id: int) -> None:
        if self.ghosts:
            if len(self.ghost) == self.ghosts:
                self.ghost.remove(self.ghost.oldest())
            self.ghost.append([id])

    def store(self) -> None:
        """Write the tables."""
        for queue in (self.small, self.main, self.ghost):
            queue.store()
        self._ends[-1] = int(self.full)
        self._uses.copy_(self._uses.new_tensor(self.uses))
