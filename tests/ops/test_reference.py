"""Operators: their declarations, and the edge cases of the semantics, case by case.

The case numbers are those of section 5 of the semantics. Every backend that is built runs them.
"""

from types import SimpleNamespace

import attrs
import pytest
import torch

from tierkv.config import make_registry
from tierkv.constants import HASH_MULTIPLIER, Counter, Kind
from tierkv.ops import LIBRARIES, NATIVE
from tierkv.ops.schemas import SCHEMAS
from tierkv.policies import OperatorPolicy
from tierkv.testing.assemble import Shape

REGISTRY = make_registry()
WIDTH = 32
PAGE = 16


@pytest.fixture(params=sorted(REGISTRY.names("ops")))
def ops(request):
    return REGISTRY.get("ops", "ops", request.param)


def ints(values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


POLICY_OF = {
    policy.operator: name
    for name, policy in ((n, REGISTRY.get("policy", "policy", n)) for n in REGISTRY.names("policy"))
    if issubclass(policy, OperatorPolicy)
}
"""Operator, without ``place_`` -> a policy that uses it."""


class World:
    """A policy, backing and pools of a group with some layers; positions are mapped in order."""

    def __init__(
        self, ops, lanes=2, positions=256, slots=16, policy="set-fifo", layers=1, **options
    ):
        self.ops, self.positions = ops, positions
        self.counters = torch.zeros(len(Counter), dtype=torch.int64)
        shape = Shape(lanes=lanes, max_tokens=positions, slots=slots, top_k=1, groups=((0,),))
        make = REGISTRY.get("policy", "policy", policy)
        if "ways" in [field.name for field in attrs.fields(make.Options)]:
            options.setdefault("ways", slots)
        options = make.Options(**options)
        make.footprint(options, shape.limits)
        self.policy = make(options, shape.limits, 0, ops, self.counters)
        self.slot_of, self.id_at = self.policy.slot_of, self.policy.id_at
        self.pages = -(-positions // PAGE)
        generator = torch.Generator().manual_seed(0)
        rows = (lanes * self.pages * PAGE, WIDTH)
        self.backing = [
            torch.randint(0, 256, rows, dtype=torch.uint8, generator=generator)
            for _ in range(layers)
        ]
        self.pool = [torch.zeros((lanes, slots, WIDTH), dtype=torch.uint8) for _ in range(layers)]
        self.lanes = lanes

    def blocks(self, lanes):
        """Page p of lane l is page ``l * pages + p`` of the backing."""
        return ints([[max(lane, 0) * self.pages + p for p in range(self.pages)] for lane in lanes])

    def plan(self, ids, kv_len, q_len=None, stable=None, lanes=None, blocks=None):
        ids = torch.as_tensor(ids, dtype=torch.int32)
        rows, queries, top_k = ids.shape
        lanes = list(range(rows)) if lanes is None else lanes
        q_len = [queries] * rows if q_len is None else q_len
        first = [max(kv - q, 0) for kv, q in zip(kv_len, q_len, strict=True)]
        stable = first if stable is None else stable

        def out(*shape, dtype=torch.int32):  # wrong on purpose, so that all of it must be written
            return torch.full(shape, 77, dtype=dtype)

        plan = SimpleNamespace(
            lanes=ints(lanes), kv_len=ints(kv_len), q_len=ints(q_len), stable=ints(stable),
            blocks=self.blocks(lanes) if blocks is None else blocks, ids=out(rows, queries, top_k),
            kind=out(rows, queries, top_k, dtype=torch.int8), index=out(rows, queries, top_k),
            length=out(rows, queries), miss_id=out(rows, queries * top_k),
            miss_from=out(rows, queries * top_k), miss_count=out(rows), slot=None,
        )  # fmt: skip
        self.ops.plan(
            ids, plan.lanes, plan.kv_len, plan.q_len, plan.stable, plan.blocks, PAGE, self.slot_of,
            plan.ids, plan.kind, plan.index, plan.length, plan.miss_id, plan.miss_from,
            plan.miss_count, self.counters,
        )  # fmt: skip
        return plan

    def place(self, plan):
        plan.slot, count = torch.full_like(plan.miss_id, 55), torch.full_like(plan.miss_count, 55)
        self.ops.place(self.policy.operator)(
            plan.lanes, plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
            *self.policy.arguments, self.policy.tables, plan.slot, count, self.counters,
        )  # fmt: skip
        assert count.tolist() == (plan.slot >= 0).sum(1).tolist()
        return plan.slot

    def serve(self, plan, layer=0, fresh=None):
        out = torch.full((*plan.ids.shape, WIDTH), 99, dtype=torch.uint8)
        if fresh is None:
            fresh = self.fresh(plan, layer)
        self.ops.serve(
            plan.lanes, plan.kind, plan.index, [fresh], [self.pool[layer]], [self.backing[layer]],
            [out],
        )  # fmt: skip
        return out

    def fresh(self, plan, layer=0):
        """What the step would have appended: the backing's own bytes at those positions."""
        queries = plan.ids.shape[1]
        at = (plan.kv_len[:, None] - queries + torch.arange(queries)).clamp(0, self.positions - 1)
        rows = plan.blocks.gather(1, at.long() // PAGE) * PAGE + at % PAGE
        return self.backing[layer][rows.long()]

    def install(self, plan, selection, layer=0):
        self.ops.install(
            plan.lanes, plan.miss_from, plan.miss_count, plan.slot, [selection], [self.pool[layer]]
        )

    def expected(self, plan, layer=0):
        """The records of ``plan.ids`` straight from the backing, zero where there is none."""
        at = plan.ids.clamp(min=0).long()
        page = plan.blocks[torch.arange(len(at))[:, None, None], at // PAGE]
        records = self.backing[layer][(page * PAGE + at % PAGE).long()]
        return torch.where((plan.ids >= 0)[..., None], records, 0)

    def step(self, ids, kv_len, **batch):
        """Plan, serve, place, install; the bytes must be right."""
        plan = self.plan(ids, kv_len, **batch)
        out = self.serve(plan)
        assert torch.equal(out, self.expected(plan))
        self.place(plan)
        self.install(plan, out)
        for lane in range(self.lanes):
            for slot, id in enumerate(self.id_at[lane].tolist()):
                if id >= 0:
                    record = self.backing[0][lane * self.pages * PAGE + id]
                    assert torch.equal(self.pool[0][lane, slot], record)
        return plan

    def resident(self, lane=0):
        return set(self.id_at[lane].tolist()) - {-1}

    def counted(self, *counters):
        return [int(self.counters[counter]) for counter in counters]


def gather_arguments(ops, name):
    """The same for the fused gather: three rows in buffers of four, one changed its row."""
    world = World(ops, lanes=3, positions=64)
    numbers = [ints(n) for n in ([2, -1, 0], [22, 9, 40], [2, 2, 2], [20, 7, 38])]
    id_at, row_of = ints([[5, 1, 7, 3, 9, 8, 2, 4]] * 3), ints([2, -1, 3])
    out = [torch.zeros((3, 2, 4), dtype=dtype) for dtype in (torch.int32, torch.int8, torch.int32)]
    out += [torch.zeros(size, dtype=torch.int32) for size in ((3, 2), (3, 8), (3, 8), 3)]
    work = [torch.zeros(size, dtype=torch.int32) for size in (3, (3, 8), 3)]
    ids = ints([[[1, 2, 7, 20], [8, 9, 21, 20]]] * 3)
    call = [ids, *numbers, world.blocks([2, -1, 0]), PAGE, 0, True, id_at, row_of, *out, *work]
    if name == "plan_gather":
        return (*call, world.counters)
    ops.plan_gather(*call, world.counters)
    if name == "place_gather":
        placed = [torch.zeros(size, dtype=torch.int32) for size in ((3, 8), 3)]
        first = (numbers[0], *out[:2], out[5], 0, id_at, row_of)
        return (*first, *placed, world.counters)
    fresh = [torch.ones((3, 2, WIDTH), dtype=torch.uint8)]
    buffer = [torch.full((4, 2, 4, WIDTH), 3, dtype=torch.uint8)]
    filled = torch.full((4, 2), 4, dtype=torch.int32)
    return (*out[1:4], *work, 0, fresh, world.backing, buffer, filled)


def arguments(ops, name):
    """A call of each operator with something to do: hits, misses, window, padding."""
    if "gather" in name:
        return gather_arguments(ops, name)
    policy = POLICY_OF[name.removeprefix("place_")] if name.startswith("place_") else "set-fifo"
    world = World(ops, lanes=3, positions=64, slots=64, policy=policy)
    ids = [[[1, 2, 3, -1], [1, 9, 21, 5]], [[0, 1, 2, 3]] * 2, [[4, 4, 30, 31], [8, 9, 10, 11]]]
    lanes, kv_len = [2, -1, 0], [22, 9, 40]
    world.step(ids, kv_len, lanes=lanes)
    plan = world.plan([[[1, 2, 7, 20], [8, 9, 21, 20]]] * 3, kv_len, lanes=lanes)
    plan.slot = torch.full_like(plan.miss_id, -1)
    moved = [torch.zeros((3, 2, WIDTH), dtype=torch.uint8)]
    if name == "plan":
        return (
            plan.ids.clone(), plan.lanes, plan.kv_len, plan.q_len, plan.stable, plan.blocks, PAGE,
            world.slot_of, plan.ids, plan.kind, plan.index, plan.length, plan.miss_id,
            plan.miss_from, plan.miss_count, world.counters,
        )  # fmt: skip
    if name == "append":
        rows = ints([[3, -1], [-1, -1], [70, 71]])
        return ([torch.ones_like(moved[0])], rows, moved, world.backing)
    if name == "serve":
        out = [torch.zeros((3, 2, 4, WIDTH), dtype=torch.uint8)]
        return (plan.lanes, plan.kind, plan.index, moved, world.pool, world.backing, out)
    if name == "install":
        plan.slot[:, 0] = 5
        selection = [torch.ones((3, 2, 4, WIDTH), dtype=torch.uint8)]
        return (plan.lanes, plan.miss_from, plan.miss_count, plan.slot, selection, world.pool)
    if name == "wait":
        return (torch.zeros(4, dtype=torch.int64), -1, -1)
    if name == "submit_install":
        tickets = torch.zeros(4, dtype=torch.int64)
        return (tickets, 1, 3, *arguments(ops, "install"))
    if name == "submit":
        tickets = torch.zeros(4, dtype=torch.int64)
        *call, tables, slot, count, counters = arguments(ops, "place_last_step")
        selection = [torch.ones((3, 2, 4, WIDTH), dtype=torch.uint8)]
        tail = (tables, slot, count, counters, selection, world.pool)
        return (tickets, 1, 3, "last_step", [], *call, *tail)
    return (
        plan.lanes, plan.kind, plan.index, plan.miss_id, plan.miss_from, plan.miss_count,
        *world.policy.arguments, world.policy.tables, plan.slot, torch.zeros_like(plan.miss_count),
        world.counters,
    )  # fmt: skip


def operator(namespace, name):
    return getattr(getattr(torch.ops, namespace), name).default


REFERENCE = REGISTRY.get("ops", "ops", "reference")


LATE = ("submit", "submit_install")
"""Their native effect comes later, on a thread, where nothing that compares can wait for it."""


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("namespace", LIBRARIES)
def test_opcheck(namespace, name):
    if name in LATE and namespace == "tierkv" and NATIVE:
        return
    torch.library.opcheck(operator(namespace, name), arguments(REFERENCE, name))


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("namespace", LIBRARIES)
def test_on_the_meta_device_nothing_is_read(namespace, name):
    def to_meta(value):
        if isinstance(value, list):
            return [to_meta(item) for item in value]
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    assert operator(namespace, name)(*map(to_meta, arguments(REFERENCE, name))) is None


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name not in LATE])
def test_both_namespaces_compute_the_same(name):
    calls = [arguments(REFERENCE, name) for _ in range(2)]
    for namespace, call in zip(LIBRARIES, calls, strict=True):
        operator(namespace, name)(*call)

    def flat(call):
        for value in call:
            yield from flat(value) if isinstance(value, list | tuple) else [value]

    for one, other in zip(*map(flat, calls), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


# --- case 1: lengths and widths ---


@pytest.mark.parametrize("top_k", [1, 31, 32, 33, 63, 64, 65, 128, 2048])
def test_case_01_lengths_around_k_and_p(ops, top_k):
    slots = 2 * top_k
    for kv_len in sorted({0, 1, top_k - 1, top_k, top_k + 1, slots, slots + 1}):
        world = World(ops, positions=slots + PAGE, slots=slots)
        ids = torch.arange(top_k)[None, None].expand(2, 1, -1)
        for step in range(2):
            plan = world.step(ids, [kv_len, kv_len])
            visible = min(top_k, kv_len)
            assert plan.length.tolist() == [[visible]] * 2
            stable = min(top_k, max(kv_len - 1, 0))
            wanted = [Kind.HIT if step else Kind.MISS] * stable
            wanted += [Kind.FRESH] * (visible - stable) + [Kind.EMPTY] * (top_k - visible)
            assert plan.kind.tolist() == [[wanted]] * 2
            assert world.resident() == set(range(stable))


def test_case_01_fewer_positions_than_queries(ops):
    world = World(ops)
    plan = world.step([[[0, 1, 2, 3]] * 4], [2])
    assert plan.length.tolist() == [[0, 0, 1, 2]]
    assert plan.kind[0, 3].tolist() == [Kind.FRESH, Kind.FRESH, Kind.EMPTY, Kind.EMPTY]
    assert plan.index[0, 3].tolist() == [2, 3, -1, -1]  # the queries that appended 0 and 1
    assert world.counted(Counter.FUTURE, Counter.WINDOW) == [4 + 4 + 3 + 2, 3]


# --- case 2: what repeats and what does not ---


def test_case_02_all_misses_then_all_hits(ops):
    world = World(ops)
    for kind in (Kind.MISS, Kind.HIT):
        plan = world.step([[[3, 1, 4, 15, 9, 2]]], [100])
        assert plan.kind.tolist() == [[[kind] * 6]]


@pytest.mark.parametrize("policy", ["set-fifo", "clock", "lru", "last-step"])
def test_case_02_a_different_selection_each_step(ops, policy):
    world = World(ops, slots=6, policy=policy)
    for step in range(12):
        ids = [[[7 * step + n for n in range(6)]]]
        plan = world.step(ids, [200])
        assert plan.kind.tolist() == [[[Kind.MISS] * 6]]
        assert world.resident() == {7 * step + n for n in range(6)}


@pytest.mark.parametrize("policy", ["set-fifo", "clock", "lru", "last-step", "unbounded"])
def test_case_02_the_same_selection_forever_is_a_fixed_point(ops, policy):
    world = World(ops, slots=256 if policy == "unbounded" else 16, policy=policy)
    ids = [[[3, 1, 4, 15, 9, 2], [3, 1, 4, 15, 9, 2]]]
    world.step(ids, [100])
    before = [world.slot_of.clone(), world.id_at.clone()]
    installs = world.counted(Counter.INSTALLS)
    assert installs == [6]
    for _ in range(5):
        plan = world.step(ids, [100])
        assert plan.miss_count.tolist() == [0]
    assert torch.equal(world.slot_of, before[0])
    assert torch.equal(world.id_at, before[1])
    assert world.counted(Counter.INSTALLS) == installs


# --- case 3: -1 anywhere ---


@pytest.mark.parametrize(
    "ids", [[-1, 5, 6, 7], [5, 6, 7, -1], [5, -1, -1, 7], [-1, -1, -1, -1], [-1, -2, 5, -9]]
)
def test_case_03_minus_one_anywhere(ops, ids):
    world = World(ops)
    plan = world.step([[ids]], [100])
    kept = [id for id in ids if id >= 0]
    assert plan.ids.tolist() == [[kept + [-1] * (4 - len(kept))]]
    assert plan.index[0, 0, len(kept) :].tolist() == [-1] * (4 - len(kept))
    assert plan.miss_id[0].tolist() == kept + [-1] * (4 - len(kept))
    assert world.resident() == set(kept)
    # Every entry that is not a record is no future and no unmapped one either.
    assert world.counted(Counter.FUTURE, Counter.UNMAPPED) == [0, 0]


def test_case_03_residents_followed_by_minus_one_miss_nothing(ops):
    world = World(ops)
    world.step([[[5, 7, -1, -1]]], [100])
    missed = world.counted(Counter.MISSES)
    plan = world.step([[[5, 7, -1, -1]]], [100])
    assert plan.miss_count.tolist() == [0]
    assert world.counted(Counter.MISSES) == missed


def test_case_03_the_record_behind_minus_one_is_installed_itself(ops):
    world = World(ops)
    plan = world.step([[[-1, 5]]], [100])  # step compares the pool with the backing
    assert plan.miss_from.tolist() == [[0, -1]]
    assert plan.slot.tolist() == [[0, -1]]
    assert torch.equal(world.pool[0][0, 0], world.backing[0][5])


# --- case 4: the same id twice ---


def test_case_04_a_repeated_id_is_served_twice_and_installed_once(ops):
    world = World(ops)
    plan = world.step([[[5, 5, 7, 9]]], [100])
    assert plan.length.tolist() == [[4]]
    assert plan.kind.tolist() == [[[Kind.MISS, Kind.REPEAT, Kind.MISS, Kind.MISS]]]
    assert plan.index[0, 0, 1] == 0
    assert world.counted(Counter.INSTALLS, Counter.MISSES, Counter.UNIQUE_MISSES) == [3, 4, 3]
    plan = world.step([[[5, 5, 7, 9]]], [100])
    assert plan.index[0, 0, 0] == plan.index[0, 0, 1]
    assert world.counted(Counter.HITS, Counter.UNIQUE_HITS) == [4, 3]


# --- case 5: queries that share misses; the window ---


def test_case_05_queries_that_miss_the_same_id_fetch_it_once(ops):
    world = World(ops)
    plan = world.step([[[5, 6, 7], [8, 5, 5], [7, 5, 9]]], [100])
    assert plan.miss_id[0, :5].tolist() == [5, 6, 7, 8, 9]
    assert plan.miss_from[0, :5].tolist() == [0, 1, 2, 3, 8]
    counters = (Counter.FETCHED, Counter.INSTALLS, Counter.MISSES)
    assert world.counted(*counters) == [5, 5, 9]


def test_case_05_window_ids_are_never_installed(ops):
    world = World(ops)
    plan = world.step([[[96, 97, 98, 99], [99, 95, 98, 97]]], [100], stable=[96])
    kinds = [[[Kind.WINDOW, Kind.WINDOW, Kind.FRESH, Kind.EMPTY]]]
    assert plan.kind[:, :1].tolist() == kinds
    assert world.resident() == {95}
    assert world.counted(Counter.WINDOW, Counter.FUTURE, Counter.FETCHED) == [6, 1, 4]


# --- case 6: ragged rows ---


def test_case_06_append_drops_what_is_not_live(ops):
    out = torch.full((64, WIDTH), 9, dtype=torch.uint8)
    parts = torch.arange(3 * 4, dtype=torch.uint8)[:, None].expand(-1, WIDTH).view(3, 4, WIDTH)
    fresh = torch.zeros_like(parts)
    rows = ints([[-1, -1, -1, 17], [-1] * 4, [40, 41, 42, 43]])
    ops.append([parts], rows, [fresh], [out])
    assert torch.equal(fresh, parts)
    assert out[17].tolist() == [3] * WIDTH
    assert out[40:44, 0].tolist() == [8, 9, 10, 11]
    others = torch.ones(64, dtype=torch.bool)
    others[[17, 40, 41, 42, 43]] = False
    assert bool((out[others] == 9).all())


def test_case_06_a_short_row_plans_its_last_queries_only(ops):
    world = World(ops, lanes=3)
    ids = [[[1, 2, 3, 4]] * 4] * 3
    plan = world.step(ids, [50, 50, 50], q_len=[1, 4, 2])
    assert plan.length.tolist() == [[0, 0, 0, 4], [4, 4, 4, 4], [0, 0, 4, 4]]
    assert plan.miss_count.tolist() == [4, 4, 4]
    assert plan.miss_from[:, 0].tolist() == [12, 0, 8]
    assert world.counted(Counter.MISSES) == [4 * 7]


# --- case 8: strides and full sets ---


@pytest.mark.parametrize("policy", ["set-fifo", "clock"])
@pytest.mark.parametrize("stride", [2**n for n in range(1, 9)])
def test_case_08_strided_ids_spread_over_the_sets(ops, policy, stride):
    sets, ways, count = 16, 4, 32
    positions, slots = count * stride + PAGE, sets * ways
    world = World(ops, lanes=1, positions=positions, slots=slots, policy=policy, ways=ways)
    ids = [[[n * stride for n in range(count)]]]
    world.step(ids, [count * stride + 1])
    plan = world.step(ids, [count * stride + 1])
    assert int((plan.kind == Kind.HIT).sum()) >= 0.9 * count, "low-bit hashing collapses here"


@pytest.mark.parametrize("policy", ["set-fifo", "clock"])
def test_case_08_more_misses_of_one_set_than_it_has_ways(ops, policy):
    world = World(ops, slots=4, policy=policy)
    plan = world.step([[[10, 11, 12, 13, 14, 15, 16]]], [100])
    assert plan.slot.tolist() == [[-1, -1, -1, 3, 0, 1, 2]]
    assert world.resident() == {13, 14, 15, 16}
    assert world.counted(Counter.SUPERSEDED, Counter.INSTALLS) == [3, 4]
    assert world.counted(Counter.BYPASSED) == [0]


def test_case_08_the_hand_goes_on_from_where_it_was(ops):
    world = World(ops, slots=4)
    plan = world.step([[[10, 11, 12, 13, 14, 15, 16]]], [100])
    assert plan.slot.tolist() == [[-1, -1, -1, 3, 0, 1, 2]]
    plan = world.step([[[20, 16, 21, -1, -1, -1, -1]]], [100])
    assert plan.slot[0, :2].tolist() == [3, 0]
    assert world.id_at[0].tolist() == [21, 15, 16, 20]


# --- case 9: a victim that is a hit of the same step ---


def test_case_09_a_victim_slot_may_be_a_hit_of_the_same_step(ops):
    world = World(ops, slots=3, layers=3)

    def step(ids):
        plan = world.plan([[ids]], [100])
        for layer in range(3):  # commit comes before the followers are served
            out = world.serve(plan, layer)
            assert torch.equal(out, world.expected(plan, layer)), f"layer {layer}"
            if layer == 0:
                world.place(plan)
            world.install(plan, out, layer)
        return plan

    step([1, 2, 3])
    plan = step([1, 2, 4])  # the hand stands at slot 0, where 1 is, which this step hits
    assert plan.slot.tolist() == [[0, -1, -1]]
    assert plan.kind.tolist() == [[[Kind.HIT, Kind.HIT, Kind.MISS]]]
    assert world.resident() == {2, 3, 4}
    step([4, 2, 3])


# --- case 12: padding ---


@pytest.mark.parametrize("policy", ["set-fifo", "clock", "lru", "last-step", "unbounded"])
def test_case_12_padding_rows_have_no_state_and_no_counters(ops, policy):
    slots = 256 if policy == "unbounded" else 16
    ids, pad = [[3, 1, 4, 15]], [[9, 2, 6, 300]]
    padded, plain = (World(ops, lanes=3, slots=slots, policy=policy) for _ in range(2))
    for _ in range(2):
        plan = padded.plan([pad, ids, pad, ids, pad], [100] * 5, lanes=[-1, 2, -1, 0, -1])
        padded.place(plan)
        wanted = plain.plan([ids, ids], [100] * 2, lanes=[2, 0])
        plain.place(wanted)
        for name, value in vars(wanted).items():
            assert torch.equal(getattr(plan, name)[[1, 3]], value), name
        assert bool((plan.ids[::2] == -1).all())
        assert bool((plan.kind[::2] == Kind.EMPTY).all())
        assert bool((plan.slot[::2] == -1).all())
        assert plan.miss_count[::2].tolist() == [0, 0, 0]
        assert bool((padded.serve(plan)[::2] == 0).all())
    assert torch.equal(padded.slot_of, plain.slot_of)
    assert torch.equal(padded.counters, plain.counters)


def test_case_12_padding_moves_no_bytes(ops):
    world = World(ops, lanes=3)
    plan = world.plan([[[1, 2]], [[3, 4]]], [100, 100], lanes=[-1, 1])
    world.place(plan)
    plan.slot[0] = 7  # even where a slot is named
    world.install(plan, world.serve(plan))
    assert not world.pool[0][[0, 2]].any()
    assert torch.equal(world.pool[0][1, :2], world.backing[0][world.pages * PAGE + ints([3, 4])])


# --- case 16: a pool smaller than a step ---


@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("policy", ["set-fifo", "clock", "lru"])
def test_case_16_a_pool_smaller_than_one_step(ops, policy, slots):
    world = World(ops, slots=slots, policy=policy)
    for step in range(6):
        ids = [[[step + n, 50 + 3 * n] for n in range(4)]]
        plan = world.step(ids, [150])  # compares bytes
        assert len(world.resident()) <= slots
        unique = len({id for query in ids[0] for id in query})
        assert int(plan.miss_count[0]) <= unique


# --- case 17: byte offsets past 2^31 ---


def test_case_17_byte_offsets_past_two_gibibytes(ops):
    """The tensors are never touched but at their ends, so the system never backs the rest."""
    stride, page = 1152, 128
    pages = 2**31 // (page * stride) + 2
    backing = torch.empty((pages * page, stride), dtype=torch.uint8)
    slots = pages * page
    pool = torch.empty((1, slots, stride), dtype=torch.uint8)
    last = pages * page - 1
    assert last * stride > 2**31
    record = torch.arange(stride).to(torch.uint8)

    fresh = torch.zeros((1, 1, stride), dtype=torch.uint8)
    ops.append([record[None, None]], ints([[last]]), [fresh], [backing])
    assert torch.equal(backing[last], record)

    def serve(kind, index):
        out = torch.zeros((1, 1, 1, stride), dtype=torch.uint8)
        kinds, at = ints([[[kind]]], torch.int8), ints([[[index]]])
        ops.serve(ints([0]), kinds, at, [fresh], [pool], [backing], [out])
        return out

    missed = serve(Kind.MISS, last)
    assert torch.equal(missed.flatten(), record)
    ops.install(ints([0]), ints([[0]]), ints([1]), ints([[slots - 1]]), [missed], [pool])
    assert torch.equal(pool[0, -1], record)
    assert torch.equal(serve(Kind.HIT, slots - 1).flatten(), record)


def test_case_17_rows_past_two_gibibytes_are_planned(ops):
    world = World(ops)
    page_number = 2**31 // PAGE - 1  # the last page that int32 rows can name
    plan = world.plan([[[15, 3]]], [17], blocks=ints([[page_number, 0]]))
    assert plan.index.tolist() == [[[2**31 - 1, 2**31 - 13]]]


# --- bad ids: never row 0, never a read outside a table ---


@pytest.mark.parametrize("bad", [-(2**31), -2, 100, 255, 256, 4095, 2**31 - 1])
def test_a_bad_id_is_served_from_nowhere(ops, bad):
    world = World(ops)
    world.step([[[0, 1, 2, 3]]], [100])
    plan = world.step([[[bad, 2, bad, 60]]], [100])
    assert plan.ids.tolist() == [[[2, 60, -1, -1]]]


def test_an_unmapped_id_is_counted_and_dropped(ops):
    world = World(ops)
    blocks = ints([[4, -1, 5]])
    plan = world.plan([[[3, 17, 33, 60]]], [100], blocks=blocks)
    assert plan.ids.tolist() == [[[3, 33, -1, -1]]]
    assert plan.index.tolist() == [[[67, 81, -1, -1]]]
    assert world.counted(Counter.UNMAPPED) == [2]


def test_an_id_behind_the_residency_table_is_a_miss(ops):
    """Pages may reach further than the table does; its last entry speaks for itself only."""
    world = World(ops, positions=40)
    blocks = ints([[0, 1, 2, 3]])
    world.step([[[39, 38]]], [60], blocks=blocks)
    plan = world.plan([[[39, 50]]], [60], blocks=blocks)
    assert plan.kind.tolist() == [[[Kind.HIT, Kind.MISS]]]
    assert plan.index[0, 0, 1] == 50


# --- section 6: differences from the published kernels ---


def published_selection(ids, position):
    """Their planning of one query, as far as it differs: what is planned, and the count."""
    planned, count = [], 0
    for id in ids:
        if id < 0:
            break  # the first -1 ends the query
        if id > position:
            planned.append(None)  # a gap in the selection ...
            continue  # ... which the count does not include
        planned.append(id)
        count += 1
    return planned, count


def published_stable(kv_len, queries):
    """Their boundary is never below 1, so position 0 passes as stable."""
    return max(kv_len - queries, 1)


def published_set(id, sets):
    """Their set is a mask of low bits, so S must be a power of two."""
    assert sets & (sets - 1) == 0
    return id & (sets - 1)


def test_section_6_the_first_minus_one_stops_there_is_skipped_here(ops):
    ids = [5, -1, 7, 9]
    assert published_selection(ids, 99) == ([5], 1)
    plan = World(ops).plan([[ids]], [100])
    assert plan.ids.tolist() == [[[5, 7, 9, -1]]]
    assert plan.length.tolist() == [[3]]


def test_section_6_future_entries_leave_gaps_there_are_compacted_here(ops):
    ids = [5, 120, 7, 9]
    planned, count = published_selection(ids, 99)
    assert (planned, count) == ([5, None, 7, 9], 3)
    assert planned[:count] != [5, 7, 9]  # so attention over the count reads a gap and loses 9
    plan = World(ops).plan([[ids]], [100])
    assert plan.ids[0, 0, : plan.length[0, 0]].tolist() == [5, 7, 9]


def test_section_6_the_hash_is_low_bits_there_multiplicative_here(ops):
    strided = [64 * n for n in range(16)]
    assert {published_set(id, 16) for id in strided} == {0}  # all in one set
    world = World(ops, positions=1100, slots=64, ways=4)
    plan = world.step([[strided]], [1090])
    homes = [slot // 4 for slot in plan.slot[0].tolist() if slot >= 0]
    assert len(set(homes)) > 8
    ours = [(id * HASH_MULTIPLIER % 2**32) * 16 >> 32 for id in strided]
    placed = [home for home, slot in zip(ours, plan.slot[0].tolist(), strict=True) if slot >= 0]
    assert homes == placed


def test_section_6_low_bits_can_be_asked_for(ops):
    world = World(ops, slots=12, ways=4, hash="low-bits")
    plan = world.step([[[3, 4, 5, 6]]], [100])
    assert [slot // 4 for slot in plan.slot[0].tolist()] == [0, 1, 2, 0]


@pytest.mark.parametrize("sets", [3, 5, 7, 12])
def test_section_6_the_number_of_sets_need_not_be_a_power_of_two(ops, sets):
    with pytest.raises(AssertionError):
        published_set(1, sets)
    world = World(ops, slots=4 * sets, ways=4)
    plan = world.step([[list(range(4 * sets))]], [200])
    homes = {slot // 4 for slot in plan.slot[0].tolist() if slot >= 0}
    assert homes == set(range(sets))


def test_section_6_position_0_counts_as_stable_there_is_window_here(ops):
    kv_len, queries = 2, 4
    assert published_stable(kv_len, queries) > 0  # so they install a draft at position 0
    world = World(ops)
    plan = world.step([[[0, 1, -1]] * queries], [kv_len])
    assert set(plan.kind[plan.ids >= 0].tolist()) == {Kind.FRESH}
    assert world.resident() == set()
