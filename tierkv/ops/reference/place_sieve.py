"""SIEVE, one step at a time."""

from torch import Tensor

from tierkv.constants import Counter
from tierkv.ops.reference.queue import Queue
from tierkv.ops.reference.tables import free_slots, hit_slots, live_rows, occupy, record, settled


def place_sieve(
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
    """Give each miss a free slot, or else that of the first id from the hand on that is idle.

    `tables` are slot_of [lanes, positions], id_at [lanes, P]; a queue of the occupied slots in
    order of arrival: items [lanes, 2 P], at [lanes, P], ends [lanes, 3], all int32; hand [lanes, 1]
    int32, the slot to look at next, -1 is the oldest; visited [lanes, P] int8.

    The hand goes from old to new and from the newest back to the oldest. It takes the visited mark
    off those it passes, and stops at one that is neither visited nor hit in this very step, which
    leaves. If all were hit in this step, the one under the hand leaves. A newcomer joins as the
    newest, unvisited, and may leave again in this step; what was hit is visited after it.
    """
    slot_of, id_at, items, at, ends, hand, visited = tables
    slot.fill_(-1)
    count.zero_()
    for row, lane in live_rows(lanes):
        ids = miss_id[row, : int(miss_count[row])].long()
        sieve = _Sieve(Queue(items[lane], ends[lane], at[lane]), hand[lane], visited[lane])
        sieve.touched = {*hit_slots(kind[row], index[row]).tolist()}
        free = iter(free_slots(id_at, lane).tolist())
        taken = []
        for _ in range(len(ids)):
            place = next(free, -1)
            taken.append(place if place >= 0 else sieve.evict())
            sieve.queue.append(taken[-1:])
        sieve.store()
        slots = settled(ids, taken)
        occupy(slot_of, id_at, lane, ids, slots)
        record(row, slots, slot, count, counters, Counter.SUPERSEDED)


class _Sieve:
    """One lane during one step."""

    def __init__(self, queue: Queue, hand: Tensor, visited: Tensor) -> None:
        self._hand, self._visited = hand, visited
        self.queue, self.hand = queue, int(hand)
        self.visited = {*visited.nonzero().flatten().tolist()}
        self.touched: set[int] = set()

    def evict(self) -> int:
        """Move the hand to the next victim and past it; give its slot."""
        at = self.hand if self.hand >= 0 else self.queue.oldest()
        if len(self.touched) < len(self.queue):
            while at in self.visited or at in self.touched:
                self.visited.discard(at)
                at = self._next(at)
        self.hand = self.queue.newer(at)
        self.queue.remove(at)
        self.visited.discard(at)
        self.touched.discard(at)
        return at

    def _next(self, slot: int) -> int:
        newer = self.queue.newer(slot)
        return newer if newer >= 0 else self.queue.oldest()

    def store(self) -> None:
        """Write the tables; what was touched is visited from now on."""
        self.queue.store()
        self._hand.fill_(self.hand)
        self._visited.zero_()
        self._visited[[*self.visited, *self.touched]] = 1
