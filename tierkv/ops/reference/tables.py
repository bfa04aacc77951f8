"""What the placement operators share: the residency tables of one lane."""

from collections.abc import Iterator

import torch
from torch import Tensor

from tierkv.constants import HASH_MULTIPLIER, Counter, Kind


def live_rows(lanes: Tensor) -> Iterator[tuple[int, int]]:
    """Give (row, lane) of the rows that are not padding."""
    return ((row, lane) for row, lane in enumerate(lanes.tolist()) if lane >= 0)


def set_of(ids: Tensor, sets: int, hashing: int) -> Tensor:
    """Give the set of each id [n] int64: multiplicative hash, or its low bits if `hashing` is 1."""
    if hashing == 1:
        return ids % sets
    return ((ids * HASH_MULTIPLIER) % 2**32) * sets >> 32


def settled(ids: Tensor, taken: list[int]) -> Tensor:
    """Give the slot of each of `ids` [n], -1 if a later one took the same slot, int64."""
    last = {place: offered for offered, place in enumerate(taken)}
    kept = [place if last[place] == offered else -1 for offered, place in enumerate(taken)]
    return torch.tensor(kept, dtype=torch.int64, device=ids.device)


def hit_slots(kind: Tensor, index: Tensor) -> Tensor:
    """Give the slots that one row [Q, K] hits, once each, ascending, int64."""
    slots: Tensor = index[kind == Kind.HIT].long().unique()
    return slots


def occupy(slot_of: Tensor, id_at: Tensor, lane: int, ids: Tensor, slots: Tensor) -> None:
    """Let `ids` [n] into `slots` [n] of a lane; slot -1 stays out. Occupants leave."""
    ids, slots = ids[slots >= 0], slots[slots >= 0]
    leaving = id_at[lane, slots]
    slot_of[lane, leaving[leaving >= 0].long()] = -1
    slot_of[lane, ids] = slots.to(slot_of.dtype)
    id_at[lane, slots] = ids.to(id_at.dtype)


def record(
    row: int, slots: Tensor, slot: Tensor, count: Tensor, counters: Tensor, refused: Counter
) -> None:
    """Write one row of a placement; what stayed out is counted as `refused`."""
    slot[row, : len(slots)] = slots.to(slot.dtype)
    installs = int((slots >= 0).sum())
    count[row] = installs
    counters[Counter.INSTALLS] += installs
    counters[refused] += len(slots) - installs


def free_slots(id_at: Tensor, lane: int) -> Tensor:
    """Give the empty slots of a lane, ascending, int64."""
    return torch.nonzero(id_at[lane] < 0).flatten()
