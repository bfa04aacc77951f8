"""What must hold of every policy's tables and placements, whatever its taste."""

from collections.abc import Mapping, Sequence

from tierkv.interfaces import Policy
from tierkv.types import Placement

Residents = list[dict[int, int]]
"""Slot -> id, one dictionary a lane."""


def residents(policy: Policy) -> Residents:
    """Read ``id_at``."""
    return [{slot: id for slot, id in enumerate(row) if id >= 0} for row in policy.id_at.tolist()]


def check_tables(policy: Policy, stable: Sequence[int]) -> Residents:
    """Check the tables against each other and against what each lane may hold at all.

    Parameters
    ----------
    stable
        Of each lane, at the group's last step; 0 if no request runs there.
    """
    tables = residents(policy)
    for lane, (id_at, row) in enumerate(zip(tables, policy.slot_of.tolist(), strict=True)):
        inverse = all(row[id : id + 1] == [slot] for slot, id in id_at.items())
        inverse = inverse and len(row) - row.count(-1) == len(id_at)
        assert inverse, f"lane {lane}: slot_of {dict(enumerate(row))}, id_at {id_at}"
        late = [id for id in id_at.values() if id >= stable[lane]]
        assert not late, f"lane {lane}: {late} resident, but only {stable[lane]} are stable"
    return tables


def check_placements(
    placements: Sequence[Placement],
    before: Residents,
    after: Residents,
    counts: Mapping[str, int],
) -> None:
    """Check that ``place`` did what its placements, each of other lanes, say and nothing else.

    Parameters
    ----------
    counts
        What the group's counters grew by.
    """
    idle = set(range(len(before)))
    offered = installed = 0
    for placement in placements:
        lanes, slots = placement.plan.batch.lanes.tolist(), placement.slot.tolist()
        count = placement.count.tolist()
        for row, (lane, ids) in enumerate(zip(lanes, placement.plan.miss_id.tolist(), strict=True)):
            misses = [id for id in ids if id >= 0]
            tables = (before[lane], after[lane]) if lane >= 0 else ({}, {})
            _check_row(misses, slots[row], *tables)
            placed = sum(slot >= 0 for slot in slots[row])
            assert count[row] == placed, f"row {row}: count {count[row]}, slots {slots[row]}"
            offered += len(misses)
            installed += placed
        idle -= set(lanes)
    for lane in idle:
        assert after[lane] == before[lane], f"lane {lane} is not in the batch, but changed"
    assert counts["installs"] == installed, counts
    kept_out = counts["superseded"] + counts["bypassed"]
    assert counts["installs"] + kept_out == offered, f"{offered} misses offered, counted {counts}"


def _check_row(
    misses: Sequence[int], slots: Sequence[int], before: Mapping[int, int], after: Mapping[int, int]
) -> None:
    assert all(slot == -1 for slot in slots[len(misses) :]), f"slots {slots} of {misses}"
    placed = {slot: id for id, slot in zip(misses, slots, strict=False) if slot >= 0}
    chosen = [slot for slot in slots if slot >= 0]
    assert len(set(chosen)) == len(chosen), f"a slot receives two records: {slots}"
    for slot, id in placed.items():
        assert after.get(slot) == id, f"id {id} was placed in {slot}, which holds {after.get(slot)}"
    for slot, id in after.items():
        stays = before.get(slot) == id
        assert stays or placed.get(slot) == id, f"{id} in slot {slot} was neither there nor placed"
    for id, slot in zip(misses, slots, strict=False):
        assert slot >= 0 or id not in after.values(), f"{id} has no slot, but is resident"
