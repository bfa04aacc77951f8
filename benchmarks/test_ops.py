"""Each operator, native against reference, and against what bounds it in the same run.

``limit_ratio`` is the operator's time over its bound's: for plan and place a bare table lookup of
the same ids, for serve and install `Tensor.copy_` of as many contiguous bytes (there the other way
round, so that 1 is the bound). Rounds are interleaved. Run as tests, every case is small.
"""

import time
from statistics import median

import pytest
import torch

from tierkv.constants import Counter
from tierkv.ops import REFERENCE
from tierkv.ops.reference.queue import Queue
from tierkv.policies.table_policy import queue_tables
from tierkv.tiers.memory import allocate

_native = pytest.importorskip("tierkv._native")

CPU = torch.device("cpu")
STRIDE = 1152
PAGE = 128


@pytest.fixture(autouse=True)
def one_thread():
    """Not even for drawing ids: a second core would take the tables into its own caches."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seconds(run, *arguments):
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start


def interleave(benchmark, rounds, prepare, subjects, reference):
    """Time all subjects once a round on what `prepare` gives; the first is the benchmark's own.

    The reference, a thousand times slower, has rounds of its own, so that it empties no caches.
    """
    times = {name: [] for name in subjects}
    for _ in range(rounds):
        arguments = prepare()
        for name, run in subjects.items():
            times[name].append(seconds(run, *arguments))
    slow = [seconds(reference, *prepare()) for _ in range(min(rounds, 3))]
    first = next(iter(subjects.values()))
    benchmark.pedantic(first, setup=lambda: (prepare(), {}), rounds=rounds, warmup_rounds=1)
    micros = {name: median(values) * 1e6 for name, values in times.items()}
    micros["reference"] = median(slow) * 1e6
    benchmark.extra_info |= {f"{name}_best_us": min(values) * 1e6 for name, values in times.items()}
    benchmark.extra_info |= {f"{name}_us": value for name, value in micros.items()}
    return micros


def full_queue(slots):
    """Give LRU's own tables with every slot in use."""
    tables = [torch.full(shape, fill, dtype=dtype) for shape, dtype, fill in queue_tables(1, slots)]
    items, at, ends = (table[0] for table in tables)
    queue = Queue(items, ends, at)
    queue.append(range(slots))
    queue.store()
    return tables


class Tables:
    """A full pool of one lane, a batch of one row, and the outputs of plan and place."""

    def __init__(self, policy, positions, slots, top_k, ways=64):
        self.policy, self.positions, self.top_k = policy, positions, top_k
        self.random = torch.Generator().manual_seed(0)
        narrow = torch.int16 if slots < 2**15 else torch.int32
        residents = torch.randperm(positions - 1, generator=self.random)[:slots].int()
        slot_of = torch.full((1, positions), -1, dtype=narrow)
        slot_of[0, residents.long()] = torch.arange(slots).to(narrow)
        sets = slots // ways if policy in ("clock", "set_fifo") else 1
        own = {
            "set_fifo": [torch.zeros(1, sets, dtype=torch.int32)],
            "clock": [
                torch.zeros(1, sets, dtype=torch.int32),
                torch.zeros(1, sets, 1, dtype=torch.int64),
            ],
            "lru": full_queue(slots),
        }
        self.tables = [slot_of, residents[None].clone(), *own.get(policy, [])]
        self.full = [table.clone() for table in self.tables]
        self.far = (slot_of[0, : positions - 1] < 0).nonzero().flatten().int()
        one = [torch.tensor([n], dtype=torch.int32) for n in (0, positions, 1, positions - 1)]
        pages = torch.arange(positions // PAGE, dtype=torch.int32)[None]
        shape, flat = (1, 1, top_k), (1, top_k)
        ints = [torch.empty(s, dtype=torch.int32) for s in (shape, shape, (1, 1), flat, flat, (1,))]
        kind, counters = (
            torch.empty(shape, dtype=torch.int8),
            torch.zeros(len(Counter), dtype=torch.int64),
        )
        self.inputs = [*one, pages, PAGE, slot_of]
        self.plan_outputs = [ints[0], kind, *ints[1:], counters]
        hashing = [0] if policy in ("clock", "set_fifo") else []
        placement = [torch.empty(flat, dtype=torch.int32), torch.empty(1, dtype=torch.int32)]
        self.place = [one[0], kind, ints[1], *ints[3:], *hashing, self.tables, *placement, counters]
        self.looked_up, self.one_lane = torch.empty(top_k, dtype=torch.int32), slot_of[0]
        self.native_place = getattr(_native, f"place_{policy}")

    def ids(self, hit_rate):
        hits = round(self.top_k * hit_rate)
        near, far = self.full[1][0], self.far
        picked = torch.cat([self.draw(near, hits), self.draw(far, self.top_k - hits)])
        return self.draw(picked, self.top_k).view(1, 1, -1)

    def draw(self, values, count):
        return values[torch.randperm(len(values), generator=self.random)[:count]]

    def reset(self):
        for table, full in zip(self.tables, self.full, strict=True):
            table.copy_(full)

    def look_up(self, ids, flat):
        assert _native.lookup(self.one_lane, flat, self.looked_up)

    def run_native(self, ids, flat):
        assert _native.plan(1, ids, *self.inputs, *self.plan_outputs)
        assert self.native_place(1, *self.place)

    def run_reference(self, ids, flat):
        REFERENCE.plan(ids, *self.inputs, *self.plan_outputs)
        REFERENCE.place(self.policy)(*self.place)


class FreshIds:
    """New ids each round; tables full, and in the caches."""

    def __init__(self, tables, hit_rate):
        self.tables, self.hit_rate = tables, hit_rate

    def __call__(self):
        ids = self.tables.ids(self.hit_rate)
        arguments = ids, ids.view(-1)
        for _ in range(2):
            self.tables.run_native(*arguments)
            self.tables.reset()
            self.tables.look_up(*arguments)
        return arguments


@pytest.mark.parametrize("hit_rate", [0.6, 0.9, 1.0])
@pytest.mark.parametrize("policy", ["clock", "set_fifo", "lru", "last_step"])
def test_plan_and_place(benchmark, policy, hit_rate):
    full = benchmark.enabled
    positions, slots, top_k = (65_536, 8192, 2048) if full else (1024, 128, 32)
    tables = Tables(policy, positions, top_k if policy == "last_step" else slots, top_k)
    subjects = {"native": tables.run_native, "lookup": tables.look_up}
    prepare, rounds = FreshIds(tables, hit_rate), 400 if full else 1
    micros = interleave(benchmark, rounds, prepare, subjects, tables.run_reference)
    benchmark.extra_info |= {
        "limit_ratio": micros["native"] / micros["lookup"],
        "speed_up": micros["reference"] / micros["native"],
    }


def test_many_positions(benchmark):
    """A million positions against 64K, everything else equal."""
    full = benchmark.enabled
    slots, top_k = (8192, 2048) if full else (128, 32)
    times = {65_536 if full else 1024: [], 2**20 if full else 4096: []}
    draws = {size: FreshIds(Tables("clock", size, slots, top_k), 0.9) for size in times}
    rounds = 400 if full else 1
    for _ in range(rounds):
        for size, draw in draws.items():
            arguments = draw()
            times[size].append(seconds(draw.tables.run_native, *arguments))
    benchmark.pedantic(draw.tables.run_native, setup=lambda: (draw(), {}), rounds=rounds)
    few, many = (median(values) * 1e6 for values in times.values())
    benchmark.extra_info |= {"few_us": few, "many_us": many, "limit_ratio": many / few}


def test_cold_tables(benchmark):
    """Tables of 32 lanes and 21 groups in turn: nothing is cached."""
    full = benchmark.enabled
    sizes = (65_536, 8192, 2048) if full else (1024, 128, 32)
    turn = [Tables("clock", *sizes) for _ in range(32 * 21 if full else 2)]
    ids = [tables.ids(0.9) for tables in turn]
    number = iter(range(10**9))

    def run():
        at = next(number) % len(turn)
        turn[at].run_native(ids[at], None)

    benchmark.pedantic(run, rounds=2 * len(turn), warmup_rounds=0)


class Rows:
    """Pool and backing, too large for the caches; fresh random rows each round."""

    def __init__(self, full, lanes=8, top_k=2048):
        nbytes = 2_500_000_000 if full else 4_000_000
        top_k = top_k if full else 40
        rows = nbytes // STRIDE
        self.lanes, self.top_k, self.slots = lanes, top_k, rows // lanes
        self.backing = self.touched(rows, STRIDE)
        self.pool = self.touched(lanes, self.slots, STRIDE)
        self.selection = self.touched(lanes, 1, top_k, STRIDE)
        self.plain = torch.ones(rows, STRIDE, dtype=torch.uint8)
        self.gathered = torch.zeros(lanes * top_k, STRIDE, dtype=torch.uint8)
        self.fresh = torch.zeros(lanes, 1, STRIDE, dtype=torch.uint8)
        self.lane = torch.arange(lanes, dtype=torch.int32)
        self.target = self.selection.view(-1)

    @staticmethod
    def touched(*shape):
        return allocate("benchmark", shape, CPU).fill_(1)

    def __call__(self):
        shape = (self.lanes, 1, self.top_k)
        kind = torch.where(torch.rand(shape) < 0.9, 1, 2).to(torch.int8)
        rows = torch.randint(len(self.plain), shape)
        index = torch.where(kind == 1, rows % self.slots, rows).int()
        start = int(torch.randint(self.backing.numel() - self.target.numel(), ())) // 4096 * 4096
        return (
            kind,
            index,
            rows.view(-1),
            self.backing.view(-1)[start : start + self.target.numel()],
        )

    def serve(self, kind, index, *_):
        lists = [self.fresh], [self.pool], [self.backing], [self.selection]
        assert _native.serve(torch.get_num_threads(), self.lane, kind, index, *lists)

    def serve_reference(self, kind, index, *_):
        lists = [self.fresh], [self.pool], [self.backing], [self.selection]
        REFERENCE.serve(self.lane, kind, index, *lists)

    def install(self, kind, index, *_):
        assert _native.install(torch.get_num_threads(), *self.placed(kind, index))

    def install_reference(self, kind, index, *_):
        REFERENCE.install(*self.placed(kind, index))

    def placed(self, kind, index):
        """Pretend that every entry is a miss that found a slot."""
        place = torch.arange(self.top_k, dtype=torch.int32).expand(self.lanes, -1).contiguous()
        slots = (index % self.slots).view(self.lanes, -1)
        count = torch.full((self.lanes,), self.top_k, dtype=torch.int32)
        return self.lane, place, count, slots, [self.selection], [self.pool]

    def gather(self, kind, index, rows, _):
        torch.index_select(self.plain, 0, rows, out=self.gathered)

    def copy(self, kind, index, rows, contiguous):
        self.target.copy_(contiguous)

    def stream(self, kind, index, rows, contiguous):
        assert _native.stream_copy(self.target, contiguous)


@pytest.fixture(params=[1, 2])
def threads(request, one_thread):
    _native.reserve_threads(request.param)
    torch.set_num_threads(request.param)
    return request.param


@pytest.mark.parametrize("operator", ["serve", "install"])
def test_move(benchmark, operator, threads):
    full = benchmark.enabled
    rows = Rows(full)
    subjects = {
        "native": getattr(rows, operator),
        "copy": rows.copy,
        "index_select": rows.gather,
        "stream": rows.stream,
    }
    reference = getattr(rows, f"{operator}_reference")
    micros = interleave(benchmark, 25 if full else 1, rows, subjects, reference)
    benchmark.extra_info |= {
        "bytes": rows.target.numel(),
        "threads": threads,
        "limit_ratio": micros["copy"] / micros["native"],
        "to_index_select": micros["index_select"] / micros["native"],
        "to_stream_copy": micros["stream"] / micros["native"],
        "to_reference": micros["reference"] / micros["native"],
    }
