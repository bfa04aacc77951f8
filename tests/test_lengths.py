"""Lengths that only the device knows. Here a subclass of tensors stands for such a device.

A device in host memory, which shows that no step waits, is in ``ops/ascendc/tests_npu``.
"""

import random
from dataclasses import replace

import pytest
import torch

import tierkv.rows
import tierkv.testing.harness
from tierkv import frozen
from tierkv.errors import CapacityError, ShapeError, StateError
from tierkv.lengths import Lengths
from tierkv.testing.assemble import Shape, assemble
from tierkv.testing.conformance.machine import run_machine
from tierkv.testing.harness import Harness
from tierkv.testing.model import Row
from tierkv.testing.subject import Subject
from tierkv.trace import open_trace
from tierkv.trace.recorder import Recorder

SHAPE = Shape(lanes=3, queries=4, max_tokens=90, pages=14)
READS = ("tolist", "item", "numpy", "__bool__", "__int__", "__index__", "__len__", "cpu", "nonzero")


class There(torch.Tensor):
    """A tensor that counts how often it is read."""

    reads = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        There.reads += getattr(function, "__name__", "") in READS
        return super().__torch_function__(function, types, args, kwargs or {})


def there(*numbers):
    return torch.tensor(numbers, dtype=torch.int32).as_subclass(There)


@pytest.fixture
def device(monkeypatch):
    """Every :class:`There` lies on a device."""
    for module in (tierkv.rows, tierkv.testing.harness):
        monkeypatch.setattr(module, "on_device", lambda values: isinstance(values, There))
    There.reads = 0


@pytest.fixture
def cache(device):
    with assemble(SHAPE) as cache:
        unread = cache.lengths.unread
        unread._known = unread._known.as_subclass(There)
        yield cache


def admit(cache, name, tokens):
    lane = cache.admit(name)
    prefill(cache, name, 0, tokens)
    return lane


def prefill(cache, name, start, stop):
    for layer in range(3):
        cache.prefill(name, layer, records(cache, range(start, stop)), start)


def records(cache, positions):
    """Whole records [n, stride] that tell their position."""
    stride = cache.limits.spec.layouts[0].stride
    return torch.tensor([[position] * stride for position in positions], dtype=torch.uint8)


def step(cache, lanes, kv_len, ids=(), **given):
    """Step all layers on given ids; give the selection of the last."""
    numbers = [int(n) for n in torch.as_tensor(kv_len).as_subclass(torch.Tensor)]
    wanted = torch.full((len(lanes), 4, 6), -1, dtype=torch.int32)
    wanted[..., : len(ids)] = torch.tensor(list(ids), dtype=torch.int32)
    with cache.step(lanes, kv_len, queries=4, **given) as opened:
        for layer in range(3):
            new = [records(cache, [(n - 4 + q) % 251 for q in range(4)]) for n in numbers]
            opened.append(layer, torch.stack(new))
            kept = opened.select(layer, wanted if layer < 2 else None)
    return kept


def fail(cache, lanes, kv_len):
    """Begin a step that raises."""
    with cache.step(lanes, kv_len, queries=4) as opened:
        opened.append(0, torch.zeros((len(lanes), 4, 64), dtype=torch.uint8))
        raise ZeroDivisionError


def held(cache, lane):
    return len(cache.paging.held(lane))


CONFIGS = {
    "indexshare": ({"scheme": "glm52-indexshare", "installer": {"schedule": "worker"}}, False),
    "gather": ({"scheme": "dsv32-gather"}, False),
    "external": ({"pool": {"slots": 64}, "policy": "clock"}, True),
}


@pytest.fixture
def everywhere(monkeypatch):
    """Every tensor lies on a device, so that the machine leaves every other batch's there."""
    for module in (tierkv.rows, tierkv.testing.harness):
        monkeypatch.setattr(module, "on_device", lambda values: isinstance(values, torch.Tensor))


@pytest.mark.parametrize("config", CONFIGS)
def test_the_state_machine_finds_nothing(everywhere, config):
    run_machine(Subject(*CONFIGS[config]), 40)


def a_bound_too_low(call, *arguments):
    rows = call(*arguments)
    return replace(rows, kv_len=[length - 1 for length in rows.kv_len])


def a_first_position_too_high(call, *arguments):
    rows = call(*arguments)
    return replace(rows, first=rows.kv_len)


def drafts_are_stable(call, *arguments):
    seen = call(*arguments)
    seen[1] = seen[2]
    return seen


def lengths_are_never_read(call, lengths, lanes):
    for lane in lanes:
        lengths.unread.drop(lane)


def a_failed_step_counts(call, lengths, rows, groups, whole):
    call(lengths, rows, groups, whole=True)


def reuse_looks_at_no_bounds(call, frozen, step, layer):
    return "" if step.rows.seen is not None else call(frozen, step, layer)


FAULTS = {
    a_bound_too_low: (tierkv.rows, "_bounds"),
    a_first_position_too_high: (tierkv.rows, "_bounds"),
    drafts_are_stable: (tierkv.rows, "_see"),
    lengths_are_never_read: (Lengths, "read"),
    a_failed_step_counts: (Lengths, "_note"),
    reuse_looks_at_no_bounds: (frozen, "_why_not"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_state_machine_finds_a_planted_fault(everywhere, monkeypatch, fault):
    owner, name = FAULTS[fault]
    call = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: fault(call, *given, **named))
    with pytest.raises(AssertionError):
        run_machine(Subject({"policy": "fifo"}), 100, shrink=False)


def test_no_step_reads_them(cache):
    lane, random_, length = admit(cache, "a", 20), random.Random(0), 20
    for _ in range(12):
        kept = step(cache, [lane], there(length + 4), ids=[0, 7, 19, length])
        assert kept.records[0, -1, :4, 0].tolist() == [0, 7, 19, length]
        length += random_.randint(1, 4)
    assert There.reads == 0
    written = cache.length("a")
    assert There.reads > 0
    assert length < written <= length + 4
    assert cache.read("a", 2, 0, written)["key"].shape == (written, 8)


def test_a_lane_grows_for_the_most_that_it_can_be(cache):
    lane = admit(cache, "a", 28)
    for length, pages in ((32, 2), (33, 3), (34, 3), (36, 3), (37, 3), (38, 4)):
        step(cache, [lane], there(length))  # at most 32, 36, 40, 44, 48, 52
        assert held(cache, lane) == pages
    cache.truncate("a", 38)  # read, so the next is 42 at most
    for kv_len, pages in ((there(42), 3), ([46], 3), (there(50), 4)):
        step(cache, [lane], kv_len)
        assert held(cache, lane) == pages


def test_no_lane_grows_past_max_tokens(cache):
    lane = admit(cache, "a", 84)
    for length in (88, 89, 89, 90, 90):
        kept = step(cache, [lane], there(length), ids=[0])
        assert kept.length.tolist() == [[1] * 4]
    assert held(cache, lane) == 6
    assert cache.length("a") == 90


def test_a_lane_that_cannot_grow_is_refused(cache):
    lanes = [admit(cache, name, 60) for name in "abc"]
    step(cache, lanes, there(64, 64, 64))
    with pytest.raises(CapacityError, match=r"backing\.capacity: 3 pages of .* 2 of 14 are free"):
        step(cache, lanes, there(65, 66, 67))
    cache.release("b")
    step(cache, [lanes[0], lanes[2]], there(65, 67))
    assert (cache.length("a"), cache.length("c")) == (65, 67)


BROKEN = {"before": 35, "past what is written": 45, "below zero": -3, "far past": 2**20}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_row_that_breaks_its_bounds_does_nothing(cache, broken):
    lanes = [admit(cache, name, 40) for name in "ab"]
    kept = step(cache, lanes, there(BROKEN[broken], 44), ids=[1, 2, 39])
    assert kept.length.tolist() == [[0] * 4, [3] * 4]
    assert kept.records[0].eq(0).all()
    assert [cache.length(name) for name in "ab"] == [40, 44]
    for name in "ab":
        assert cache.read(name, 1, 0, 40)["key"].view(torch.uint8)[:, 0].tolist() == [*range(40)]
    step(cache, lanes, there(44, 48), ids=[1, 2, 39])
    assert [cache.length(name) for name in "ab"] == [44, 48]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("broken", [38, 45, -3, 2**20])
def test_what_the_device_knows_is_a_bound_too(cache, broken, whole):
    """A row that breaks it changes nothing that is known."""
    lanes = [admit(cache, name, 30) for name in "ab"]
    for length in (34, 37, 40):
        step(cache, lanes, there(length, length), ids=[length - 5], stable=there(0, length - 5))
    for _ in range(2):
        if whole:
            kept = step(cache, lanes, there(44, broken), ids=[1])
            assert kept.length.tolist() == [[1] * 4, [0] * 4]
        else:
            with pytest.raises(ZeroDivisionError):
                fail(cache, lanes, there(44, broken))
    assert [cache.length(name) for name in "ab"] == [44 if whole else 40, 40]
    assert cache.lengths.stable[lanes].tolist() == [[40 if whole else 0] * 2, [35] * 2]


def test_one_step_too_many_at_max_tokens(cache):
    lane = admit(cache, "a", 80)
    for length in (84, 88, 92):
        step(cache, [lane], there(length), ids=[0])
    assert cache.length("a") == 88


def test_the_stable_that_the_host_knows_holds_for_every_group(cache):
    lane = admit(cache, "a", 60)
    with cache.step([lane], [64], queries=4) as opened:
        opened.append(0, torch.zeros((1, 4, 64), dtype=torch.uint8))
        opened.select(0, torch.full((1, 4, 6), 50, dtype=torch.int32))
    kept = step(cache, [lane], there(62), ids=[1])  # group 1 has no stable yet
    assert kept.length.tolist() == [[0] * 4]
    kept = step(cache, [lane], there(64), ids=[1])
    assert kept.length.tolist() == [[1] * 4]


def test_lengths_on_the_host_are_checked_against_what_the_device_knows(cache):
    lane = admit(cache, "a", 40)
    for length in (44, 48, 52):
        step(cache, [lane], there(length), ids=[1])
    with pytest.raises(StateError, match="stable of lane 0 was 48 in the last step"):
        step(cache, [lane], [45])
    with pytest.raises(StateError, match="lane 0 needs 53 tokens"):
        step(cache, [lane], [57])
    step(cache, [lane], [53], ids=[1])
    assert cache.length("a") == 53


def test_a_page_shared_after_such_a_step_is_copied_before_the_next(cache):
    lane = admit(cache, "a", 20)
    for length in (24, 25):
        step(cache, [lane], there(length))
    cache.fork("a", "b")
    before = cache.read("b", 1, 0, 25)
    step(cache, [lane], there(27))
    after = cache.read("b", 1, 0, 25)
    assert all(torch.equal(before[part], after[part]) for part in before)
    assert len(set(cache.paging.held(lane)) & set(cache.paging.held(1))) == 1


def test_padding_may_say_anything(cache):
    lane = admit(cache, "a", 40)
    for kv_len, q_len in (([2**40, 44], [2**40, 4]), (there(10_000, 46), [-1, 4])):
        kept = step(cache, [-1, lane], kv_len, ids=[1], q_len=q_len)
        assert kept.length.tolist() == [[0] * 4, [1] * 4]


@pytest.mark.parametrize("broken", BROKEN)
def test_debug_reads_and_refuses_them(device, broken):
    with assemble(SHAPE, debug=True) as cache:
        lane = admit(cache, "a", 40)
        with pytest.raises((StateError, CapacityError)):
            step(cache, [lane], there(BROKEN[broken]))
        assert cache.length("a") == 40
        step(cache, [lane], there(44))
        step(cache, [lane], there(46))
        with pytest.raises(StateError, match="must begin at 42 or behind, and end at 50 or before"):
            step(cache, [lane], there(45), stable=there(41))


def test_stable_may_be_there_too(cache):
    lane = admit(cache, "a", 40)
    for length in (44, 45):
        step(cache, [lane], there(length), stable=there(40), ids=[39, 40, 41])
    counts = cache.stats().groups[1]
    assert (counts.window, counts.future, counts.misses, counts.hits) == (15, 1, 4, 4)
    step(cache, [lane], there(48), ids=[39, 40, 41])
    with pytest.raises(StateError, match="start must be 44 to 48"):
        cache.prefill("a", 0, records(cache, [43]), 43)


def test_shared_pages_are_neither_copied_nor_written(cache):
    tokens = list(range(40))
    first = cache.admit("a", tokens=tokens)
    prefill(cache, "a", 0, 40)
    second = cache.admit("b", tokens=tokens)
    assert cache.length("b") == 32
    prefill(cache, "b", 32, 40)
    step(cache, [second], there(44), ids=[1])
    step(cache, [second], there(30), ids=[1])  # breaks its bounds: it would write position 26
    assert cache.paging.held(first)[:2] == cache.paging.held(second)[:2]
    assert cache.read("a", 0, 20, 32)["key"].view(torch.uint8)[:, 0].tolist() == [*range(20, 32)]


def test_a_step_that_raises_leaves_the_length_of_its_beginning(cache):
    lanes = [admit(cache, name, 40) for name in "ab"]
    step(cache, lanes, there(44, 44))
    with pytest.raises(ZeroDivisionError):
        fail(cache, lanes, there(46, 47))
    assert lanes[0] in cache.lengths.unread
    step(cache, lanes, there(46, 47), ids=[1])
    assert [cache.length(name) for name in "ab"] == [46, 47]
    with pytest.raises(ZeroDivisionError):
        fail(cache, lanes, there(48, 50))
    assert [cache.length(name) for name in "ab"] == [44, 46]


def test_reuse_is_refused_where_it_may_not_be_exact(cache):
    lane = admit(cache, "a", 40)
    step(cache, [lane], [44], ids=[1, 2])
    with cache.step([lane], there(48), queries=4) as opened:
        opened.append(2, torch.zeros((1, 4, 64), dtype=torch.uint8))
        with pytest.raises(StateError, match="layer 2: lane 0 may rewrite position 40, which"):
            opened.reuse(2)
        opened.append(1, torch.zeros((1, 4, 64), dtype=torch.uint8))
        opened.select(1, torch.full((1, 4, 6), -1, dtype=torch.int32))
        opened.select(2)


def test_a_trace_has_the_lengths_themselves(cache, tmp_path):
    lane = admit(cache, "a", 40)
    with Recorder(cache, tmp_path / "a.npz"):
        for length in (44, 46, 47):
            step(cache, [lane], there(length), ids=[1, 2])
    trace = open_trace(tmp_path / "a.npz")
    assert trace.kv_len[:, lane].tolist() == [44, 46, 47]
    assert trace.stable[:, lane].tolist() == [40, 42, 43]


@pytest.mark.parametrize(
    "given",
    [
        {"kv_len": there(44, 44)},
        {"kv_len": there(44).float()},
        {"kv_len": there(44), "stable": there(1, 2)},
        {"kv_len": there(44), "stable": [1.5]},
        {"kv_len": None},
    ],
)
def test_what_is_no_column_of_numbers_is_refused(cache, given):
    lane = admit(cache, "a", 40)
    with pytest.raises(ShapeError, match=r"begin, (kv_len|stable): expected \[?1"):
        cache.stepper_for(1, 4).begin([lane], **given)
    assert cache.length("a") == 40
    assert held(cache, lane) == 3


def test_the_model_agrees_over_drafts_and_requests(device):
    """Ids by hand in one long run: hits, window and rewritten drafts, lengths never read."""
    with assemble(SHAPE, policy="lru") as cache:
        harness = Harness(cache)
        lane, draw, length = harness.admit("a", 30), random.Random(1), 30
        harness.unread = lambda rows: True
        harness.positions = lambda ids: there(*ids) if isinstance(ids[0], int) else torch.tensor(
            ids, dtype=torch.int32
        )  # fmt: skip
        for _ in range(12):
            row = Row(lane, length + 4, 4, length)
            ids = [[draw.sample(range(length + q), 6) for q in range(1, 5)]]
            harness.step([row], ids)
            length += draw.randint(1, 4)
        assert There.reads == 0
        harness.check()


def test_modes_may_alternate(device):
    with torch.inference_mode():
        cache = assemble(SHAPE)
        lane = admit(cache, "a", 40)
        step(cache, [lane], there(44))
    with cache:
        step(cache, [lane], there(46))
        with torch.inference_mode():
            step(cache, [lane], there(48))
        assert cache.length("a") == 48


def test_a_stable_held_back_lets_the_next_step_begin_there(cache):
    lane = admit(cache, "a", 40)
    step(cache, [lane], [44], stable=[10])
    kept = step(cache, [lane], there(40), ids=[1])
    assert kept.length.tolist() == [[1] * 4]


def test_truncation_lets_the_next_step_begin_there(cache):
    lane = admit(cache, "a", 40)
    cache.truncate("a", 20)
    kept = step(cache, [lane], there(24), ids=[1])
    assert kept.length.tolist() == [[1] * 4]


def test_a_fork_into_a_lane_that_was_not_read(cache):
    lane = admit(cache, "a", 20)
    admit(cache, "b", 30)
    step(cache, [lane], there(24))
    cache.release("a")
    assert cache.fork("b", "c") == lane
    assert cache.length("c") == 30
