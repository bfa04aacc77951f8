"""The state machine is tested too: each planted fault must fail it.

Without one it finds nothing: ``conformance/test_plain.py``.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis.internal.constants_ast import Constants

from tierkv import ending
from tierkv.lanes import Lanes
from tierkv.ops.reference.tables import live_rows
from tierkv.paging import Paging
from tierkv.plain import CopyInstaller, CopyServer, TablePlanner
from tierkv.policies import TablePolicy
from tierkv.prefix_index import PrefixIndex
from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.subject import Subject

EXAMPLES = 200


@pytest.fixture(autouse=True)
def _same_examples(monkeypatch):
    """Hypothesis draws constants of the code under test, too; each change of it was other luck."""
    draws = "hypothesis.internal.conjecture.providers._get_local_constants"
    monkeypatch.setattr(draws, Constants)


def wrap(owner, name, change):
    """Give a function that replaces `owner.name` by `change(what it was, *arguments)`."""
    call = getattr(owner, name)
    return owner, name, lambda *arguments: change(call, *arguments)


def no_reset_on_release():
    def forget(call, policy, lanes, from_position=0):
        if from_position:
            call(policy, lanes, from_position)

    return wrap(TablePolicy, "forget", forget)


def install_of_window_ids():
    def plan(call, planner, ids, batch, group, policy):
        kept = batch.stable.clone()
        batch.stable.copy_(batch.kv_len)
        try:
            return call(planner, ids, batch, group, policy)
        finally:
            batch.stable.copy_(kept)

    return wrap(TablePlanner, "plan", plan)


def off_by_one_in_stable():
    def plan(call, planner, ids, batch, group, policy):
        batch.stable.add_(1)
        try:
            return call(planner, ids, batch, group, policy)
        finally:
            batch.stable.sub_(1)

    return wrap(TablePlanner, "plan", plan)


def per_row_state():
    def plan(call, planner, ids, batch, group, policy):
        kept = batch.lanes.clone()
        rows = torch.arange(len(kept), dtype=torch.int32)
        batch.lanes.copy_(torch.where(kept >= 0, rows, kept))
        try:
            return call(planner, ids, batch, group, policy)
        finally:
            batch.lanes.copy_(kept)

    return wrap(TablePlanner, "plan", plan)


def install_before_serve():
    """Copies all that the owner has placed into every layer of its group at once."""

    def serve(call, server, plan, layer, appended):
        site = server.planted
        group = site.limits.spec.groups[plan.group]
        if layer == group.owner:
            placement = site.policies[plan.group].placement(plan)
            for member in group.layers:
                backing, pool = site.backing.view(member), site.pool_view(member)
                for row, lane in live_rows(plan.batch.lanes):
                    for miss, slot in enumerate(placement.slot[row].tolist()):
                        if slot >= 0:
                            place = int(plan.miss_from[row, miss])
                            record = backing[int(plan.index[row].flatten()[place])]
                            pool[lane, slot] = record
        return call(server, plan, layer, appended)

    def init(call, server, options, site):
        call(server, options, site)
        server.planted = site

    return [wrap(CopyServer, "__init__", init), wrap(CopyServer, "serve", serve)]


def hash_identity_of_requests():
    class Hashed(dict):
        def __contains__(self, key):
            return super().__contains__(hash(key))

        def __setitem__(self, key, value):
            super().__setitem__(hash(key), value)

        def get(self, key, default=None):
            return super().get(hash(key), default)

        def pop(self, key):
            return super().pop(hash(key))

    def init(call, lanes, limits):
        call(lanes, limits)
        lanes._lane_of = Hashed()

    return wrap(Lanes, "__init__", init)


def page_freed_while_shared():
    def drop(call, paging, page):
        paging._holders[page] -= 1
        if page not in paging.index and page not in paging._free:
            paging._free.append(page)

    return wrap(Paging, "_drop", drop)


def written_though_shared():
    return wrap(Paging, "_to_copy", lambda call, paging, spans: [])


def prefix_by_length_alone():
    def match(call, index, tokens, salt):
        node, pages = index._roots.get(salt), []
        for _ in range(0, len(tokens) - index._size, index._size):
            node = node and next(iter(node.children.values()), None)
            if node is None:
                break
            pages.append(node.page)
        return pages

    return wrap(PrefixIndex, "match", match)


def salt_ignored():
    def insert(call, index, tokens, salt, pages):
        return call(index, tokens, None, pages)

    def match(call, index, tokens, salt):
        return call(index, tokens, None)

    return [wrap(PrefixIndex, "insert", insert), wrap(PrefixIndex, "match", match)]


def installs_that_are_lost():
    def install(call, installer, placement, layer, selection):
        if layer != 2:
            call(installer, placement, layer, selection)

    return wrap(CopyInstaller, "install", install)


def reuse_of_anything():
    def reuse(call, step, layer):
        if layer in step.stepper.last:
            step.selected[layer] = True
            return step.stepper.last[layer].selection
        return call(step, layer)

    return wrap(Step, "reuse", reuse)


def a_failure_that_is_kept_warm():
    def abandon(call, step):
        for number in step.touched:
            for row in step.rows.live:
                step.cache.lengths.shorten(step.rows.lanes[row], number, step.rows.first[row])

    return wrap(ending, "abandon", abandon)


def a_page_lost_by_truncation():
    def shrink(call, paging, lane, tokens):
        if tokens == 0 or len(paging._held[lane]) * paging.page < tokens + paging.page:
            call(paging, lane, tokens)
        else:
            paging._held[lane].pop()

    return wrap(Paging, "shrink", shrink)


def steppers_in_the_same_rows():
    """And nobody objects when both are open."""

    def init(call, stepper, cache, batch, queries, key, first_row):
        call(stepper, cache, batch, queries, key, 0)

    def check(call, stepper):
        pass

    return [wrap(Stepper, "__init__", init), wrap(Stepper, "_check_free", check)]


def steppers_that_share_plans():
    """What is served from is; ids and lengths, which selections keep, are not."""

    def prepare(call, planner, batch, group):
        plan = call(planner, batch, group)
        for other in planner._plans.values():
            if other.group == group and other.ids.shape == plan.ids.shape:
                plan = replace(plan, kind=other.kind, index=other.index)
                break
        planner._plans[batch.key, group] = plan
        return plan

    return wrap(TablePlanner, "prepare", prepare)


FAULTS = [
    no_reset_on_release, install_of_window_ids, off_by_one_in_stable, per_row_state,
    install_before_serve, hash_identity_of_requests, page_freed_while_shared,
    written_though_shared, prefix_by_length_alone, salt_ignored, installs_that_are_lost,
    reuse_of_anything, a_failure_that_is_kept_warm, a_page_lost_by_truncation,
    steppers_in_the_same_rows, steppers_that_share_plans,
]  # fmt: skip


@pytest.mark.parametrize("model", ["modelled", "unmodelled"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(monkeypatch, fault, model):
    """With a model of the policy, and with the tables as the cache tells them."""
    changes = fault()
    for owner, name, change in changes if isinstance(changes, list) else [changes]:
        monkeypatch.setattr(owner, name, change)
    subject = Subject({"policy": "fifo"})
    if model == "unmodelled":
        monkeypatch.setattr(subject, "model", lambda slots: None)
    with pytest.raises(AssertionError):
        run_machine(subject, EXAMPLES, shrink=False)
