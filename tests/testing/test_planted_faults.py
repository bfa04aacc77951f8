"""The contracts are tested too: each planted fault must fail the contract it breaks."""

import inspect
import random
from dataclasses import replace
from itertools import product
from typing import ClassVar

import pytest
import torch

from tierkv.constants import Counter, Kind
from tierkv.errors import CapacityError
from tierkv.interfaces import DONE
from tierkv.ops.reference.tables import live_rows
from tierkv.plain import CopyInstaller, CopyServer, TablePlanner
from tierkv.policies import TablePolicy
from tierkv.testing import PolicyContract, SchemeContract, TierContract
from tierkv.tiers import FileTier, HostTier
from tierkv.types import Selection


def run(contract: type, name: str) -> None:
    """Run a test of a contract as pytest would, with each of its parameters."""
    test = getattr(contract, name)
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for values in product(*(mark.args[1] for mark in marks)):
        arguments = {}
        for mark, value in zip(marks, values, strict=True):
            names = mark.args[0]
            arguments |= (
                {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
            )
        test(contract(), **arguments)


def names_of(contract: type) -> list[str]:
    names = [name for name, _ in inspect.getmembers(contract, inspect.isfunction)]
    return [name for name in names if name.startswith("test_")]


# --- policies ---


class Drop(TablePolicy):
    """A right one to build faults on: fills free slots, then drops the first."""

    def choose(self, lane, misses, hits):
        free = torch.nonzero(self.id_at[lane] < 0).flatten()
        taken = torch.cat([free, torch.nonzero(self.id_at[lane] >= 0).flatten()])
        slots = torch.full_like(misses, -1)
        slots[: len(taken)] = taken[: len(misses)]
        return slots


class KeepsSlotOf(Drop):
    """Forgets to clear slot_of when an id is evicted."""

    def place(self, plan):
        before = self.slot_of.clone()
        placement = super().place(plan)
        gone = (before >= 0) & (self.slot_of < 0)
        self.slot_of[gone] = before[gone]
        return placement


class InstallsWindow(Drop):
    """Lets ids in that may still change."""

    def place(self, plan):
        placement = super().place(plan)
        for row, lane in live_rows(plan.batch.lanes):
            ids = plan.ids[row][plan.kind[row] == Kind.FRESH]
            if len(ids):
                old = int(self.id_at[lane, 0])
                if old >= 0:
                    self.slot_of[lane, old] = -1
                self.id_at[lane, 0], self.slot_of[lane, int(ids[0])] = int(ids[0]), 0
        return placement


class OtherLane(Drop):
    """Writes into the next lane's tables."""

    def choose(self, lane, misses, hits):
        other = (lane + 1) % len(self.id_at)
        slots = torch.nonzero(self.id_at[other] >= 0).flatten()[:1]
        self.slot_of[other, self.id_at[other, slots].long()] = -1
        self.id_at[other, slots] = -1
        return super().choose(lane, misses, hits)


class SharedHand(Drop):
    """Keeps one hand for all lanes, so that a lane depends on its neighbours."""

    hand = 0

    def choose(self, lane, misses, hits):
        slots = (self.hand + torch.arange(len(misses))) % self.slots
        self.hand = (self.hand + len(misses)) % self.slots
        return slots


class Random(Drop):
    """Chooses at random."""

    def choose(self, lane, misses, hits):
        slots = random.sample(range(self.slots), min(self.slots, len(misses)))
        return torch.tensor(slots + [-1] * (len(misses) - len(slots)), dtype=torch.int64)


class RandomByTorch(Drop):
    """Chooses at random, from the other generator."""

    def choose(self, lane, misses, hits):
        return torch.randint(self.slots, misses.shape)


class ForgetsAll(Drop):
    """Forgets too much."""

    def forget(self, lanes, from_position=0):
        super().forget(lanes, 0)


class ForgetsLess(Drop):
    """Forgets one id too few."""

    def forget(self, lanes, from_position=0):
        super().forget(lanes, from_position + 1)


class ForgetsNothing(Drop):
    """Ignores forget."""

    def forget(self, lanes, from_position=0):
        pass


class SameSlotTwice(Drop):
    """Tells two misses the same slot."""

    def place(self, plan):
        placement = super().place(plan)
        for row, _ in live_rows(plan.batch.lanes):
            if int(plan.miss_count[row]) > 1:
                placement.slot[row, 1] = placement.slot[row, 0]
        return placement


class Moves(Drop):
    """Moves a resident to another slot, where no one copies its record."""

    def place(self, plan):
        placement = super().place(plan)
        for _, lane in live_rows(plan.batch.lanes):
            a, b = int(self.id_at[lane, 0]), int(self.id_at[lane, -1])
            if a >= 0 and b >= 0:
                self.id_at[lane, 0], self.id_at[lane, -1] = b, a
                self.slot_of[lane, a], self.slot_of[lane, b] = self.slots - 1, 0
        return placement


class TellsMoreThanKept(Drop):
    """Counts misses that it did not install."""

    def place(self, plan):
        placement = super().place(plan)
        placement.count.add_(1)
        return placement


class Miscounts(Drop):
    """Does not say what it bypassed."""

    def place(self, plan):
        before = int(self.counters[Counter.INSTALLS])
        placement = super().place(plan)
        self.counters[Counter.INSTALLS] = before
        return placement


class PlacesPadding(Drop):
    """Takes lane -1 for the last lane."""

    def place(self, plan):
        placement = super().place(plan)
        padding = plan.batch.lanes < 0
        placement.slot[padding, 0] = 3
        return placement


class StaleSlots(Drop):
    """Leaves the slots of a former step behind the misses of this one."""

    def place(self, plan):
        old = self.placement(plan).slot.clone()
        placement = super().place(plan)
        behind = torch.arange(old.shape[1]) >= plan.miss_count[:, None]
        placement.slot[behind] = old[behind]
        return placement


class InstallsTheOffset(Drop):
    """Off by one: lets the neighbour of a missed id in."""

    def place(self, plan):
        plan.miss_id[plan.miss_id > 0] -= 1
        return super().place(plan)


class SmallFootprint(Drop):
    """Says that it needs nothing."""

    @classmethod
    def footprint(cls, options, limits):
        return 0


POLICY_FAULTS = {
    KeepsSlotOf: "random_steps_keep_every_invariant",
    InstallsWindow: "random_steps_keep_every_invariant",
    OtherLane: "random_steps_keep_every_invariant",
    SharedHand: "a_lane_does_not_depend_on_its_neighbours_or_its_row",
    Random: "the_same_calls_give_the_same_tables",
    RandomByTorch: "the_same_calls_give_the_same_tables",
    ForgetsAll: "forget_drops_a_tail_of_the_lanes_named",
    ForgetsLess: "forget_drops_a_tail_of_the_lanes_named",
    ForgetsNothing: "random_steps_keep_every_invariant",
    SameSlotTwice: "a_pool_smaller_than_a_step_is_served_right",
    Moves: "random_steps_keep_every_invariant",
    TellsMoreThanKept: "random_steps_keep_every_invariant",
    Miscounts: "random_steps_keep_every_invariant",
    PlacesPadding: "padding_leaves_no_trace",
    StaleSlots: "random_steps_keep_every_invariant",
    InstallsTheOffset: "random_steps_keep_every_invariant",
    SmallFootprint: "tables_start_cold_in_the_form_that_planners_read",
}
"""Fault -> the test that must find it."""


# --- tiers ---


class ClampsRows(HostTier):
    """Serves some row for every number."""

    def read(self, layer, rows, out):
        return super().read(layer, rows.clamp(0, 39 if layer == 0 else 23), out)


class ClampsWrites(HostTier):
    """Writes every number somewhere."""

    def write(self, layer, rows, records):
        return super().write(layer, rows.clamp(0, 39 if layer == 0 else 23), records)


class WritesBeforeItChecks(HostTier):
    """Refuses a bad row after having written the good ones."""

    def write(self, layer, rows, records):
        if self._layers and 0 <= layer < len(self._layers):
            good = (rows >= 0) & (rows < len(self._layers[layer]))
            super().write(layer, rows[good], records[good])
        return super().write(layer, rows, records)


class ReadsStale(HostTier):
    """Remembers the first bytes it read of each row."""

    def __init__(self, options, limits):
        super().__init__(options, limits)
        self.seen = {}

    def read(self, layer, rows, out):
        super().read(layer, rows, out)
        for place, row in enumerate(rows.tolist()):
            out[place] = self.seen.setdefault((layer, row), out[place].clone())
        return DONE


class ReadsSorted(HostTier):
    """Reads rows in its own order."""

    def read(self, layer, rows, out):
        return super().read(layer, rows.sort().values, out)


class OneLayer(HostTier):
    """Keeps all layers in the first."""

    def allocate(self, rows, strides):
        super().allocate([max(rows)] * len(rows), [max(strides)] * len(strides))
        self._layers = [self._layers[0][:n, :s] for n, s in zip(rows, strides, strict=True)]


class Shared(HostTier):
    """Every instance on the same memory."""

    kept: ClassVar[list] = []

    def allocate(self, rows, strides):
        super().allocate(rows, strides)
        if [t.shape for t in self.kept] != [t.shape for t in self._layers]:
            Shared.kept = self._layers
        self._layers = self.kept


class ClosesOnce(HostTier):
    """Cannot be closed twice."""

    def close(self):
        del self._layers


class StaysOpen(HostTier):
    """Can be read after it was closed."""

    def close(self):
        pass


class KeepsHalf(HostTier):
    """Keeps the layers that it got before one was refused."""

    def allocate(self, rows, strides):
        for count, stride in zip(rows, strides, strict=True):
            self._layers.append(self.memory(count, stride))


class LeaksFile(FileTier):
    """Leaves its file open."""

    def close(self):
        self._layers, self._file = [], -1


class CopiesView(HostTier):
    """Gives a copy for its memory."""

    def view(self, layer):
        return super().view(layer).clone()


class ReadsLate(FileTier):
    """Serves a read from the rows of the one before."""

    last = None

    def read(self, layer, rows, out):
        old, self.last = self.last, rows.clone()
        same = old is not None and len(old) == len(rows)
        return super().read(layer, old if same else rows, out)


class NoError(HostTier):
    """Lets memory errors out as they come."""

    def memory(self, rows, stride):
        try:
            return super().memory(rows, stride)
        except CapacityError as error:
            raise RuntimeError(str(error)) from None


TIER_FAULTS = {
    ClampsRows: "a_read_out_of_range_names_the_row",
    ClampsWrites: "a_write_out_of_range_names_the_row_and_writes_nothing",
    WritesBeforeItChecks: "a_write_out_of_range_names_the_row_and_writes_nothing",
    ReadsStale: "a_rewritten_row_is_read_new_and_others_stay",
    ReadsSorted: "rows_come_in_the_order_asked_and_as_often",
    OneLayer: "a_read_sees_every_write",
    Shared: "two_of_it_share_nothing",
    ClosesOnce: "it_may_be_closed_twice_or_unallocated",
    StaysOpen: "nothing_can_be_read_or_written_outside_of_its_life",
    KeepsHalf: "a_refused_allocation_leaves_nothing",
    LeaksFile: "closing_gives_files_back",
    CopiesView: "a_view_is_the_records_themselves",
    NoError: "a_refused_allocation_leaves_nothing",
    ReadsLate: "a_cache_on_it_serves_what_the_model_serves",
}
# --- planners, servers, installers ---


class StableOffByOne(TablePlanner):
    """Takes the first position of the window for stable."""

    def plan(self, ids, batch, group, policy):
        batch.stable.add_(1)
        try:
            return super().plan(ids, batch, group, policy)
        finally:
            batch.stable.sub_(1)


class ServesRowZero(TablePlanner):
    """Plans a bad id as the record of row 0."""

    def plan(self, ids, batch, group, policy):
        return super().plan(ids.clamp(min=0), batch, group, policy)


class SortsMisses(TablePlanner):
    """Offers misses by number, not by occurrence."""

    def plan(self, ids, batch, group, policy):
        plan = super().plan(ids, batch, group, policy)
        for row, count in enumerate(plan.miss_count.tolist()):
            order = plan.miss_id[row, :count].argsort()
            plan.miss_id[row, :count] = plan.miss_id[row, :count][order]
            plan.miss_from[row, :count] = plan.miss_from[row, :count][order]
        return plan


class StopsAtMinusOne(TablePlanner):
    """Reads a query up to the first -1."""

    def plan(self, ids, batch, group, policy):
        stopped = (ids < 0).cumsum(-1) > 0
        return super().plan(ids.masked_fill(stopped, -1), batch, group, policy)


class TellsTheLastOccurrence(TablePlanner):
    """Names for each miss the place where it stands last, of another record if it stands once."""

    def plan(self, ids, batch, group, policy):
        plan = super().plan(ids, batch, group, policy)
        for row, count in enumerate(plan.miss_count.tolist()):
            plan.miss_from[row, :count] = plan.miss_from[row, :count].roll(1)
        return plan


class CountsPadding(TablePlanner):
    """Counts what padding rows select."""

    def plan(self, ids, batch, group, policy):
        self._counters[group][Counter.FUTURE] += int((ids[batch.lanes < 0] >= 0).sum())
        return super().plan(ids, batch, group, policy)


class IgnoresQueryLength(TablePlanner):
    """Plans dead queries too."""

    def plan(self, ids, batch, group, policy):
        kept = batch.q_len.clone()
        batch.q_len.fill_(batch.queries)
        try:
            return super().plan(ids, batch, group, policy)
        finally:
            batch.q_len.copy_(kept)


class PlansAgainForFollowers(CopyServer):
    """Looks ids up in the tables at serve, when commit has changed them already."""

    def __init__(self, options, site):
        super().__init__(options, site)
        self._policies, self._ops, self._site = site.policies, site.ops, site

    def serve(self, plan, layer, appended):
        table = self._policies[plan.group].slot_of
        lanes = plan.batch.lanes.clamp(min=0).long()[:, None, None].expand_as(plan.ids)
        slot = table[lanes, plan.ids.clamp(min=0).long()].int()
        hit = plan.kind == Kind.HIT
        plan.index[hit] = slot[hit].clamp(min=0)
        return super().serve(plan, layer, appended)


class LeavesOldRecords(CopyServer):
    """Does not clear what lies behind the valid records."""

    def serve(self, plan, layer, appended):
        selection = self._selections[plan.batch.key, layer][0]
        old = selection.records.clone()
        super().serve(plan, layer, appended)
        selection.records[plan.kind == Kind.EMPTY] = old[plan.kind == Kind.EMPTY]
        return selection


class ServesSlotZero(CopyServer):
    """Fills what is empty with slot 0."""

    def serve(self, plan, layer, appended):
        selection = super().serve(plan, layer, appended)
        empty = plan.kind == Kind.EMPTY
        selection.records[empty] = self._pools[layer][0][0, 0]
        return selection


class OneBufferForTwo(CopyServer):
    """Promises two selections at once and keeps one buffer."""

    def prepare(self, plan):
        self.depth = 1
        super().prepare(plan)
        self.depth = 2


class ServesBackingForFresh(CopyServer):
    """Serves the step's own records of the step before."""

    def __init__(self, options, site):
        super().__init__(options, site)
        self._last = {}

    def serve(self, plan, layer, appended):
        key = (plan.batch.key, layer)
        old = self._last.get(key, appended)
        self._last[key] = appended.clone()
        return super().serve(plan, layer, old)


class WrongIds(CopyServer):
    """Hands the ids out with the empty ones as 0."""

    def serve(self, plan, layer, appended):
        selection = super().serve(plan, layer, appended)
        return Selection(
            selection.records, selection.ids.clamp(min=0), selection.length, selection.parts
        )


class Permutes(CopyServer):
    """Permutes records and ids, though it says that it does not."""

    def serve(self, plan, layer, appended):
        selection = super().serve(plan, layer, appended)
        return Selection(
            selection.records.flip(2), selection.ids.flip(2), selection.length, selection.parts
        )


class CopiesAtCommit(CopyInstaller):
    """Copies into all layers as soon as the owner has committed: followers lose their hits."""

    def __init__(self, options, site, *others):
        super().__init__(options, site, *others)
        self._site = site

    def commit(self, plan):
        placement = super().commit(plan)
        for layer in self._site.limits.spec.groups[plan.group].layers:
            backing = self._site.backing.view(layer)
            for row, lane in live_rows(plan.batch.lanes):
                for miss, slot in enumerate(placement.slot[row].tolist()):
                    if slot >= 0:
                        place = int(plan.miss_from[row, miss])
                        record = backing[int(plan.index[row].flatten()[place])]
                        self._pools[layer][0][lane, slot] = record
        return placement


class WrongOccurrence(CopyInstaller):
    """Copies the n-th miss from the n-th record of the selection."""

    def install(self, placement, layer, selection):
        first = torch.arange(placement.slot.shape[1], dtype=torch.int32)
        plan = replace(placement.plan, miss_from=first.expand_as(placement.slot).contiguous())
        super().install(replace(placement, plan=plan), layer, selection)


class OwnersOnly(CopyInstaller):
    """Installs in the first layer of a group only."""

    def install(self, placement, layer, selection):
        if layer in (0, 1):
            super().install(placement, layer, selection)


class NeverFenced(CopyInstaller):
    """Installs late and does not wait for it: the next step may find other bytes."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._late = []

    def install(self, placement, layer, selection):
        records = selection.records.clone()
        kept = Selection(records, selection.ids, selection.length, {})
        plan = placement.plan
        names = ("miss_from", "miss_count", "miss_id")
        plan = replace(plan, **{name: getattr(plan, name).clone() for name in names})
        late = replace(placement, plan=plan, slot=placement.slot.clone())
        self._late.append((late, layer, kept))
        if len(self._late) > 3:
            super().install(*self._late.pop(0))


class InstallsTheWholeRow(CopyInstaller):
    """Ignores the count and installs stale slots."""

    def install(self, placement, layer, selection):
        super().install(placement, layer, selection)
        self._pools[layer][0][:, 0] = selection.records.flatten(0, 2)[0]


RANDOM = "random_steps_equal_the_model"
SCHEME_FAULTS = {
    "planner": {
        StableOffByOne: RANDOM,
        ServesRowZero: "odd_ids_serve_nothing",
        SortsMisses: RANDOM,
        StopsAtMinusOne: "odd_ids_serve_nothing",
        TellsTheLastOccurrence: RANDOM,
        CountsPadding: "odd_ids_serve_nothing",
        IgnoresQueryLength: RANDOM,
    },
    "server": {
        PlansAgainForFollowers: "followers_serve_from_the_frozen_plan",
        LeavesOldRecords: "odd_ids_serve_nothing",
        ServesSlotZero: "odd_ids_serve_nothing",
        OneBufferForTwo: RANDOM,
        ServesBackingForFresh: RANDOM,
        WrongIds: "odd_ids_serve_nothing",
        Permutes: RANDOM,
    },
    "installer": {
        CopiesAtCommit: "followers_serve_from_the_frozen_plan",
        WrongOccurrence: "odd_ids_serve_nothing",
        OwnersOnly: RANDOM,
        NeverFenced: "unwatched_steps_equal_the_model",
        InstallsTheWholeRow: RANDOM,
    },
}


ONLY_HERE_FOR_CRASHES = {
    "test_no_rows_are_fine",
    "test_an_unknown_layer_is_refused",
    "test_two_steppers_take_turns",
    "test_a_step_that_raises_leaves_no_lie",
}
"""Tests of calls that must not fail, or whose fault lies in core rather than a component."""


def found(contract: type, test: str) -> None:
    """Run the test that must fail, and see that it fails by what it says, not by a mishap."""
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run(contract, f"test_{test}")


def under(contract: type, **hooks: object) -> type:
    return type("Planted", (contract,), hooks)


def name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


@pytest.mark.parametrize(("fault", "test"), POLICY_FAULTS.items(), ids=name)
def test_a_faulty_policy_fails_the_contract(fault, test):
    found(under(PolicyContract, make=fault), test)


@pytest.mark.parametrize(("fault", "test"), TIER_FAULTS.items(), ids=name)
def test_a_faulty_tier_fails_the_contract(fault, test):
    if fault in (ClosesOnce, NoError):  # they fail by an error of the wrong kind
        with pytest.raises((AttributeError, RuntimeError)):
            run(under(TierContract, make=fault), f"test_{test}")
    else:
        found(under(TierContract, make=fault), test)


@pytest.mark.parametrize(
    ("part", "fault", "test"),
    [(part, *fault) for part, faults in SCHEME_FAULTS.items() for fault in faults.items()],
    ids=name,
)
def test_a_faulty_part_of_a_scheme_fails_the_contract(part, fault, test):
    found(under(SchemeContract, **{part: fault}), test)


@pytest.mark.parametrize(
    ("contract", "hooks"), [(PolicyContract, {"make": Drop}), (SchemeContract, {})]
)
def test_what_the_faults_are_built_on_passes(contract, hooks):
    for test in names_of(contract):
        run(under(contract, **hooks), test)


def test_each_test_of_a_contract_finds_some_fault():
    """A test that no planted fault fails might as well not be there."""
    used = {f"test_{test}" for faults in (POLICY_FAULTS, TIER_FAULTS) for test in faults.values()}
    used |= {f"test_{test}" for faults in SCHEME_FAULTS.values() for test in faults.values()}
    spare = {name for c in (PolicyContract, TierContract, SchemeContract) for name in names_of(c)}
    assert spare - used == ONLY_HERE_FOR_CRASHES
