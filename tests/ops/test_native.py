"""The native operators equal the reference bit for bit, in random steps while tables evolve."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tierkv.constants import Counter, Kind
from tierkv.ops import NATIVE, REFERENCE
from tierkv.ops.reference.tables import hit_slots
from tierkv.policies import Clock, LastStep, Lru, S3Fifo, SetFifo, SetLru, Sieve, Unbounded

_native = pytest.importorskip("tierkv._native")

POLICIES = {
    "set_fifo": SetFifo,
    "clock": Clock,
    "lru": Lru,
    "set_lru": SetLru,
    "sieve": Sieve,
    "s3_fifo": S3Fifo,
    "last_step": LastStep,
    "unbounded": Unbounded,
}
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.uint8]
THREADS = 2


@pytest.fixture(scope="module", autouse=True)
def threads():
    """The kernels' threads; torch itself keeps to one, its own only get in each other's way."""
    before = torch.get_num_threads()
    _native.reserve_threads(THREADS)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def native(operator, *arguments, threads=1):
    """Run a kernel, and insist that it did not leave the work to the reference."""
    assert getattr(_native, operator)(threads, *arguments), f"{operator} declined"


def reference(operator, *arguments, threads=1):
    getattr(REFERENCE, operator)(*arguments)


def ints(*shape, fill=77, dtype=torch.int32):
    return torch.full(shape, fill, dtype=dtype)


@dataclass
class World:
    """Random sizes, and tables, pools and outputs for one backend."""

    seed: int
    policy: str
    big: bool = False
    rng: random.Random = field(init=False)

    def __post_init__(self):
        self.rng = rng = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        self.page = rng.choice([16, 32, 128])
        self.pages = rng.randint(1, 6) if not self.big else 64
        self.positions = max(1, self.pages * self.page - rng.choice([0, 0, 5]))
        self.batch, self.queries = rng.randint(1, 3), rng.randint(1, 4)
        self.top_k = rng.choice([1, 2, 7, 31, 33, 64]) if not self.big else 2048 + rng.randint(0, 9)
        if self.big:
            self.batch, self.queries = rng.randint(3, 5), 4
        self.lanes = self.batch + rng.randint(0, 2)
        self.sets = rng.choice([1, 2, 3, 5, 8])
        self.ways = rng.choice([1, 2, 3, 16, 63, 64, 65, 130])
        self.slots = self.sets * self.ways + rng.randint(0, self.sets - 1)
        if self.policy == "last_step":
            self.slots = self.top_k + rng.randint(0, 9)
        elif self.policy == "unbounded":
            self.slots = self.positions + rng.randint(0, 3)
        self.hashing = rng.randint(0, 1)
        self.dtype = rng.choice(DTYPES)
        self.widths = rng.choice([[32], [576], [64, 16], [5], [33, 7, 1]])
        self.rows = self.lanes * self.pages * self.page
        self.backing = [self.random_rows(self.rows, width) for width in self.widths]

    def random_rows(self, *shape):
        size = torch.Size(shape).numel() * self.dtype.itemsize
        raw = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=self.generator)
        # No NaN: torch's own indexing turns signalling ones into quiet ones.
        rows = (raw & 0xBF).view(self.dtype).view(shape)
        wide = torch.zeros(*shape[:-1], shape[-1] + 3, dtype=self.dtype)  # strided like a part
        wide[..., : shape[-1]] = rows
        return self.rng.choice([rows, wide[..., : shape[-1]]])

    def state(self):
        wide = random.Random(self.seed).random() < 0.5
        tables = [
            ints(self.lanes, self.positions, fill=-1, dtype=torch.int32 if wide else torch.int16),
            ints(self.lanes, self.slots, fill=-1),
        ]
        if self.policy in ("set_fifo", "clock"):
            tables.append(ints(self.lanes, self.sets, fill=0))
        if self.policy == "clock":
            words = -(-self.ways // 64)
            tables.append(ints(self.lanes, self.sets, words, fill=0, dtype=torch.int64))
        if self.policy == "set_lru":
            tables.append(ints(self.lanes, self.sets, self.ways, fill=-1))
            tables.append(ints(self.lanes, 1, fill=0))
        if self.policy in ("lru", "sieve", "s3_fifo"):
            limits = SimpleNamespace(lanes=self.lanes, max_tokens=self.positions)
            for shape, dtype, fill in POLICIES[self.policy].own_tables(None, limits, self.slots):
                tables.append(torch.full(shape, fill, dtype=dtype))
        pool = [torch.zeros(self.lanes, self.slots, w, dtype=self.dtype) for w in self.widths]
        return tables, pool, torch.zeros(len(Counter), dtype=torch.int64)

    def outputs(self):
        b, q, k = self.batch, self.queries, self.top_k
        plan = [ints(b, q, k), ints(b, q, k, dtype=torch.int8), ints(b, q, k), ints(b, q)]
        plan += [ints(b, q * k), ints(b, q * k), ints(b)]
        selection = [torch.full((b, q, k, w), 3, dtype=self.dtype) for w in self.widths]
        fresh = [torch.zeros(b, q, w, dtype=self.dtype) for w in self.widths]
        return plan, selection, fresh, [ints(b, q * k), ints(b)]

    def step(self):
        """Draw ids [B, Q, K] and a batch, with everything that may be odd about them."""
        rng, b, q = self.rng, self.batch, self.queries
        lanes = rng.sample(range(self.lanes), b)
        lanes = [-1 if rng.random() < 0.15 else lane for lane in lanes]
        kv_len = [rng.choice([0, 1, 2, q, rng.randint(0, self.positions)]) for _ in range(b)]
        if self.big or rng.random() < 0.6:
            kv_len = [self.positions - rng.randint(0, self.page - 1) for _ in range(b)]
        kv_len = [min(max(n, 0), self.positions) for n in kv_len]
        q_len = [rng.randint(1, q) for _ in range(b)]
        stable = [max(n - m - rng.choice([0, 0, 3]), 0) for n, m in zip(kv_len, q_len, strict=True)]
        order = torch.randperm(self.lanes * self.pages, generator=self.generator).int()
        table = order[: b * self.pages].view(b, self.pages).clone()
        if rng.random() < 0.3:
            table[rng.randrange(b), rng.randrange(self.pages)] = -1
        high = self.positions + rng.choice([0, 0, 0, 40])
        ids = torch.randint(0, high, (b, q, self.top_k), generator=self.generator).int()
        if rng.random() < 0.5:  # few different ids: repeats and hits
            ids %= rng.choice([3, 17, 200])
        drop = rng.choice([0, 0, 0.1, 0.9])
        ids[torch.rand(ids.shape, generator=self.generator) < drop] = rng.choice([-1, -1, -7])
        if rng.random() < 0.3:  # ids as a slice of something wider
            ids = torch.cat([ids, ids], dim=2)[:, :, : self.top_k]
        one = [torch.tensor(v, dtype=torch.int32) for v in (lanes, kv_len, q_len, stable)]
        return ids, one, table

    def hashing_argument(self):
        return [self.hashing] if self.policy in ("set_fifo", "clock") else []


def run_step(run, world, drawn, parts, state, threads):
    ids, (lanes, kv_len, q_len, stable), table = drawn
    tables, pool, counters = state
    plan, selection, fresh, placement = world.outputs()
    batch = (lanes, kv_len, q_len, stable)
    rows = append_rows(world, lanes, kv_len, q_len, table)
    backing = [part.clone() for part in world.backing]
    run("append", parts, rows, fresh, backing, threads=threads)
    run("plan", ids, *batch, table, world.page, tables[0], *plan, counters, threads=threads)
    _, kind, index, _, *misses = plan
    run("serve", lanes, kind, index, fresh, pool, backing, selection, threads=threads)
    before = [t.clone() for t in tables]
    place = [lanes, kind, index, *misses, *world.hashing_argument(), tables, *placement, counters]
    run(f"place_{world.policy}", *place, threads=threads)
    run("install", lanes, misses[1], misses[2], placement[0], selection, pool, threads=threads)
    return [*plan, *selection, *fresh, *placement, *before, *tables, *pool, counters, *backing]


def append_rows(world, lanes, kv_len, q_len, table):
    """Backing rows [B, Q] of the positions that a step appends."""
    rows = ints(world.batch, world.queries, fill=-1)
    for row in range(world.batch):
        for query in range(world.queries - int(q_len[row]), world.queries):
            position = int(kv_len[row]) - world.queries + query
            if lanes[row] >= 0 and position >= 0 and table[row, position // world.page] >= 0:
                page = int(table[row, position // world.page])
                rows[row, query] = page * world.page + position % world.page
    return rows


def forget(world, tables):
    """Drop some positions of a lane, as a policy does."""
    slot_of, id_at = tables[:2]
    lane, start = world.rng.randrange(world.lanes), world.rng.randrange(world.positions)
    if world.policy in ("lru", "set_lru", "sieve", "s3_fifo"):
        policy = object.__new__(POLICIES[world.policy])
        policy.tables, policy.slot_of, policy.id_at = tables, slot_of, id_at
        policy.forget([lane], start * world.rng.randint(0, 1))
        return
    slots = slot_of[lane, start:]
    slots = slots[slots >= 0].long()
    slot_of[lane, start:] = -1
    id_at[lane, slots] = -1
    if world.policy == "clock":
        for slot in slots[slots < world.sets * (world.slots // world.sets)].tolist():
            ways = world.slots // world.sets
            bit = 1 << slot % ways % 64
            kept = ~(bit - 2**64 if bit >= 2**63 else bit)
            tables[3][lane, slot // ways, slot % ways // 64] &= kept


def same(left, right):
    return left.dtype == right.dtype and torch.equal(as_bytes(left), as_bytes(right))


def as_bytes(tensor):
    return tensor.contiguous().view(torch.uint8)  # -0.0 is not 0.0


def compare(policy, seed, steps, threads=1, big=False):
    world = World(seed, policy, big)
    mine, theirs = world.state(), world.state()
    for _ in range(steps):
        drawn = world.step()
        parts = [world.random_rows(world.batch, world.queries, w) for w in world.widths]
        ours = run_step(native, world, drawn, parts, mine, threads)
        expected = run_step(reference, world, drawn, parts, theirs, threads)
        for number, (a, b) in enumerate(zip(ours, expected, strict=True)):
            assert same(a, b), f"output {number} differs, seed {seed}"
        if world.rng.random() < 0.3:
            state = world.rng.getstate()
            forget(world, mine[0])
            world.rng.setstate(state)
            forget(world, theirs[0])


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_equals_reference(policy, seed):
    compare(policy, seed, steps=4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("threads", [1, THREADS])
@pytest.mark.parametrize("seed", range(3))
def test_large_steps_equal_reference(policy, threads, seed):
    """Long enough that the pool of threads takes part."""
    compare(policy, seed, steps=2, threads=threads, big=True)


@given(
    ids=st.lists(st.integers(-2, 40), min_size=8, max_size=8), resident=st.sets(st.integers(0, 31))
)
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_small_plans_shrink(ids, resident):
    """The same with drawn elements, so that a failure is small."""
    slot_of = ints(1, 32, fill=-1, dtype=torch.int16)
    for slot, position in enumerate(sorted(resident)):
        slot_of[0, position] = slot
    one = [torch.tensor([n], dtype=torch.int32) for n in (0, 31, 2, 29)]
    table = torch.tensor([[1, 0]], dtype=torch.int32)
    outputs = []
    for run in (native, reference):
        plan = [ints(1, 2, 4), ints(1, 2, 4, dtype=torch.int8), ints(1, 2, 4), ints(1, 2)]
        plan += [ints(1, 8), ints(1, 8), ints(1), torch.zeros(len(Counter), dtype=torch.int64)]
        run(
            "plan",
            torch.tensor(ids, dtype=torch.int32).view(1, 2, 4),
            *one,
            table,
            16,
            slot_of,
            *plan,
        )
        outputs.append(plan)
    for a, b in zip(*outputs, strict=True):
        assert torch.equal(a, b)


def example(policy):
    """Arguments of every operator in one step, consistent with each other."""
    world = World(5, policy)
    ids, (lanes, *rest), table = world.step()
    tables, pool, counters = world.state()
    plan, selection, fresh, placement = world.outputs()
    REFERENCE.plan(ids, lanes, *rest, table, world.page, tables[0], *plan, counters)
    _, kind, index, _, *misses = plan
    rows = append_rows(world, lanes, rest[0], rest[1], table)
    place = (lanes, kind, index, *misses, *world.hashing_argument(), tables)
    return {
        "append": (fresh, rows, [t.clone() for t in fresh], world.backing),
        "plan": (ids, lanes, *rest, table, world.page, tables[0], *plan, counters),
        "serve": (lanes, kind, index, fresh, pool, world.backing, selection),
        "install": (lanes, *misses[1:], ints(*placement[0].shape, fill=-1), selection, pool),
        f"place_{policy}": (*place, *placement, counters),
    }


OPERATORS = ["append", "plan", "serve", "install", *(f"place_{policy}" for policy in POLICIES)]


@pytest.mark.parametrize("namespace", ["tierkv", "tierkv_reference"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_opcheck(namespace, operator):
    policy = operator.removeprefix("place_") if operator.startswith("place_") else "clock"
    packet = getattr(getattr(torch.ops, namespace), operator)
    torch.library.opcheck(packet.default, example(policy)[operator])


class TestUnsupportedLayouts:
    """What kernels cannot read goes to the reference: never read wrongly."""

    def test_strided_plan_fields(self):
        arguments = list(example("clock")["plan"])
        arguments[9] = torch.zeros(*arguments[9].shape, 2, dtype=torch.int8)[..., 0]
        expected = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        assert not _native.plan(1, *arguments)
        NATIVE.plan(*arguments)
        REFERENCE.plan(*expected)
        assert torch.equal(arguments[9], expected[9])

    def test_wrong_dtype(self):
        arguments = list(example("clock")["plan"])
        arguments[0] = arguments[0].long()
        assert not _native.plan(1, *arguments)

    def test_parts_of_different_dtype(self):
        lanes, kind, index, fresh, pool, backing, out = example("clock")["serve"]
        other = [part.to(torch.float64) for part in pool]
        assert not _native.serve(1, lanes, kind, index, fresh, other, backing, out)


class TestNamesThatDoNotExist:
    """Nothing outside a tensor is read or written."""

    @pytest.mark.parametrize("kind", [Kind.HIT, Kind.MISS, Kind.WINDOW, Kind.FRESH, Kind.REPEAT, 9])
    @pytest.mark.parametrize("index", [-1, 2**30])
    def test_serve(self, kind, index):
        lanes, kinds, indices, *rest = example("clock")["serve"]
        kinds[0, 0, 0], indices[0, 0, 0], lanes[0] = int(kind), index, 0
        before = [part.clone() for part in rest[-1]]
        assert not _native.serve(1, lanes, kinds, indices, *rest)
        assert all(torch.equal(a, b) for a, b in zip(before, rest[-1], strict=True))

    def test_lane(self):
        for operator, arguments in example("lru").items():
            if operator != "append":
                lanes = arguments[1 if operator == "plan" else 0]
                lanes[0] = 1000
                assert not getattr(_native, operator)(1, *arguments), operator

    def test_append(self):
        parts, rows, fresh, out = example("lru")["append"]
        rows[0, 0] = out[0].shape[0]
        assert not _native.append(1, parts, rows, fresh, out)
        with pytest.raises(IndexError):
            NATIVE.append(parts, rows, fresh, out)

    def test_install(self):
        lanes, miss_from, miss_count, slot, selection, pool = example("lru")["install"]
        lanes[0], miss_count[0], miss_from[0, 0], slot[0, 0] = 0, 1, 0, pool[0].shape[1]
        assert not _native.install(1, lanes, miss_from, miss_count, slot, selection, pool)


def test_reads_arrays_of_others():
    """Without torch's exchange interface (before 2.10) tensors are read by `__dlpack__`."""
    arguments = example("lru")["place_lru"]
    arrays = [[t.numpy() for t in a] if isinstance(a, list) else a.numpy() for a in arguments]
    theirs = example("lru")["place_lru"]
    native("place_lru", *arrays)
    reference("place_lru", *theirs)
    assert all(torch.equal(a, b) for a, b in zip(arguments[6], theirs[6], strict=True))


def test_clock_never_drops_a_hit_unless_all_were():
    """A set of four ways, three hit in the step: two misses share the fourth, the later stays."""
    tables = [
        ints(1, 16, fill=-1, dtype=torch.int16),
        torch.tensor([[0, 1, 2, 3]], dtype=torch.int32),
    ]
    tables[0][0, :4] = torch.arange(4, dtype=torch.int16)
    tables += [ints(1, 1, fill=0), ints(1, 1, 1, fill=0, dtype=torch.int64)]
    kind = torch.tensor([[[1, 1, 1, 2, 2]]], dtype=torch.int8)
    index = torch.tensor([[[0, 1, 3, 9, 10]]], dtype=torch.int32)
    misses = [torch.tensor([[v, v + 1, -1, -1, -1]], dtype=torch.int32) for v in (9, 3)]
    slot, count, counters = ints(1, 5), ints(1), torch.zeros(len(Counter), dtype=torch.int64)
    lanes, miss_count = ints(1, fill=0), ints(1, fill=2)
    assert hit_slots(kind[0], index[0]).tolist() == [0, 1, 3]
    native("place_clock", lanes, kind, index, *misses, miss_count, 0, tables, slot, count, counters)
    assert tables[1].tolist() == [[0, 1, 10, 3]]
    assert slot.tolist() == [[-1, 2, -1, -1, -1]]
    assert counters[Counter.SUPERSEDED] == 1
