"""Background work, specified as if it ran at once: there is never anything to wait for."""

from collections.abc import Callable

from torch import Tensor

from tierkv.constants import Failure
from tierkv.errors import StateError, say
from tierkv.ops.reference.move import install
from tierkv.ops.reference.place_arc import place_arc
from tierkv.ops.reference.place_clock import place_clock
from tierkv.ops.reference.place_last_step import place_last_step
from tierkv.ops.reference.place_lru import place_lru
from tierkv.ops.reference.place_s3_fifo import place_s3_fifo
from tierkv.ops.reference.place_set_fifo import place_set_fifo
from tierkv.ops.reference.place_set_lru import place_set_lru
from tierkv.ops.reference.place_sieve import place_sieve
from tierkv.ops.reference.place_unbounded import place_unbounded

PLACE: dict[str, Callable[..., None]] = {
    "arc": place_arc,
    "clock": place_clock,
    "last_step": place_last_step,
    "lru": place_lru,
    "s3_fifo": place_s3_fifo,
    "set_fifo": place_set_fifo,
    "set_lru": place_set_lru,
    "sieve": place_sieve,
    "unbounded": place_unbounded,
}


def submit(
    tickets: Tensor,
    buffer: int,
    group: int,
    policy: str,
    arguments: list[int],
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
    selection: list[Tensor],
    pool: list[Tensor],
) -> None:
    """Place, then install. `tickets` [n] int64: bits of Failure, then numbers of jobs."""
    plan = (lanes, kind, index, miss_id, miss_from, miss_count)
    PLACE[policy](*plan, *arguments, tables, slot, count, counters)
    install(lanes, miss_from, miss_count, slot, selection, pool)


def submit_install(
    tickets: Tensor,
    buffer: int,
    group: int,
    lanes: Tensor,
    miss_from: Tensor,
    miss_count: Tensor,
    slot: Tensor,
    selection: list[Tensor],
    pool: list[Tensor],
) -> None:
    """Install by a placement made before."""
    install(lanes, miss_from, miss_count, slot, selection, pool)


def wait(tickets: Tensor, buffer: int, group: int) -> None:
    """Raise for jobs that failed, once."""
    failed = int(tickets[0])
    if not failed:
        return
    tickets[0] = 0
    if failed & 1 << Failure.THREAD_ENDED:
        wrong, do = "its thread ended before its work was done", "repeat the step"
    else:
        wrong, do = "a job named memory that does not exist", "this is a bug, report it"
    raise StateError(say("worker", wrong, do=do))
