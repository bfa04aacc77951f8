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
        slot_of = {id: slot for id, slot in enumerate(row) if slot >= 0}
        inverse = {id: slot for slot, id in id_at.items()}
        assert slot_of == inverse, f"lane {lane}: slot_of {slot_of}, id_at {id_at}"
        assert len(inverse) == len(id_at), f"lane {lane}: an id has two slots, {id_at}"
        late = [id for id in inverse if id >= stable[lane]]
        assert not late, f"lane {lane}: {late} resident, but only {stable[lane]} are stable"
    return tables


def check_placement(
    placement: Placement, before: Residents, after: Residents, counts: Mapping[str, int]
) -> None:
    """Check that one ``place`` did what its placement says and nothing else.

    Parameters
    ----------
    counts
        What the group's counters grew by.
    """
    lanes, slots = placement.plan.batch.lanes.tolist(), placement.slot.tolist()
    offered, count = placement.plan.miss_id.tolist(), placement.count.tolist()
    total = 0
    for row, lane in enumerate(lanes):
        misses = [id for id in offered[row] if id >= 0]
        tables = (before[lane], after[lane]) if lane >= 0 else ({}, {})
        _check_row(misses, slots[row], *tables)
        installed = sum(slot >= 0 for slot in slots[row])
        assert count[row] == installed, f"row {row}: count {count[row]}, slots {slots[row]}"
        total += len(misses)
    for lane in set(range(len(before))) - set(lanes):
        assert after[lane] == before[lane], f"lane {lane} is not in the batch, but changed"
    assert counts["installs"] == sum(count), counts
    kept_out = counts["superseded"] + counts["bypassed"]
    assert counts["installs"] + kept_out == total, f"{total} misses offered, counted {counts}"


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
