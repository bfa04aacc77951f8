"""DsaServe equals the reference bit for bit, whatever shape, plan and number of cores."""

import random
from dataclasses import replace

import pytest
import torch
from hostsim import Kernel, RefusedError, Report
from mutation import unreported
from serving import Requests, Sizes, Step, seeds
from torch import Tensor

from tierkv.constants import Kind
from tierkv.ops import REFERENCE

CORES = (1, 2, 5, 24, 48)
PRODUCTION = Sizes(lanes=4, rows=4, queries=4, top_k=2048, slots=8192, width=1152, positions=32768)
SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, width=128, positions=256)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_serve")


def arguments(requests: Requests, step: Step) -> dict[str, Tensor]:
    """The pool holds other bytes than backing: a hit that is read from there shows."""
    sizes = requests.sizes
    return {
        "lanes": step.lanes,
        "kind": step.kind,
        "index": step.index,
        "fresh": step.fresh,
        "pool": requests.bytes(sizes.lanes, sizes.slots, sizes.width),
        "backing": requests.bytes(requests.backing_rows, sizes.width),
    }


def check(kernel: Kernel, inputs: dict[str, Tensor], cores: int) -> Report:
    rows = [inputs[name] for name in ("fresh", "pool", "backing")]
    out = torch.empty((*inputs["kind"].shape, rows[0].shape[-1]), dtype=rows[0].dtype)
    known = torch.empty_like(out)
    REFERENCE.serve(*(inputs[n] for n in ("lanes", "kind", "index")), *([r] for r in rows), [known])
    report = kernel.run(inputs, {"out": out}, cores=cores)
    assert not report.faults, report.faults[:3]
    assert torch.equal(out.view(torch.uint8), known.view(torch.uint8))
    return report


def moved(report: Report, pipe: str) -> list[int]:
    return [cost.pipes[pipe].bytes for cost in report.costs]


@pytest.mark.parametrize("seed", seeds(40))
def test_equals_the_reference(kernel, seed):
    rng = random.Random(seed)
    requests = Requests(seed, Sizes.draw(rng))
    for _ in range(2):
        check(kernel, arguments(requests, requests.step()), rng.choice(CORES))


@pytest.mark.parametrize("slots", [256, 8192, 16384])
@pytest.mark.parametrize("top_k", [1, 31, 32, 63, 65, 128, 2048])
def test_sizes(kernel, top_k, slots):
    sizes = replace(SMALL, lanes=2, rows=2, top_k=top_k, slots=slots, width=32, positions=4096)
    requests = Requests(top_k, sizes)
    for _ in range(2):
        check(kernel, arguments(requests, requests.step()), 48)


@pytest.mark.parametrize("cores", [1, 48])
def test_production_size(kernel, cores):
    requests = Requests(0, PRODUCTION, warm=0.95, steady=True)
    for _ in range(3):
        step = requests.step()
    report = check(kernel, arguments(requests, step), cores)
    rows, width = int((step.kind > 0).sum()), PRODUCTION.width
    plan = 5 * step.kind.numel()  # kind and index
    assert rows * width <= sum(moved(report, "MTE2")) <= rows * width + 2 * plan
    assert max(moved(report, "MTE3")) - min(moved(report, "MTE3")) <= width
    assert sum(cost.scalar for cost in report.costs) < 2.6 * rows
    assert report.ub_peak < 128 << 10


PLANS = {
    "hits": [Kind.HIT] * 80,
    "empty": [Kind.EMPTY] * 80,
    "fresh and window": [Kind.FRESH, Kind.WINDOW] * 40,
    "empty between": [Kind.HIT, Kind.EMPTY, Kind.MISS] * 26 + [Kind.EMPTY] * 2,
    "one miss for all": [Kind.MISS] + [Kind.REPEAT] * 79,
    "a miss in the middle": [Kind.REPEAT] * 37 + [Kind.MISS] + [Kind.REPEAT] * 42,
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("cores", [1, 2, 48])
def test_plans(kernel, name, cores):
    requests = Requests(1, SMALL, steady=True)
    inputs = arguments(requests, requests.step())
    kinds = torch.tensor(PLANS[name], dtype=torch.int8)
    index = torch.arange(80, dtype=torch.int32)
    index[kinds == Kind.FRESH] %= SMALL.queries
    index[kinds == Kind.REPEAT] = PLANS[name].index(Kind.MISS) if Kind.MISS in PLANS[name] else -1
    index[kinds == Kind.EMPTY] = -1
    inputs["kind"] = kinds.view(2, 40).expand(3, 2, 40).contiguous()
    inputs["index"] = index.view(2, 40).expand(3, 2, 40).contiguous()
    check(kernel, inputs, cores)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16])
def test_rows_of_any_type(kernel, dtype):
    requests = Requests(2, SMALL)
    inputs = arguments(requests, requests.step())
    for name in ("fresh", "pool", "backing"):
        inputs[name] = inputs[name].view(dtype)
    check(kernel, inputs, 5)


def test_offsets_past_two_to_the_31(kernel):
    generator = torch.Generator().manual_seed(0)
    pool = torch.empty(17, 16384, 8192, dtype=torch.uint8)  # never touched but for two rows
    backing = torch.empty(300_000, 8192, dtype=torch.uint8)
    fresh = torch.zeros(1, 1, 8192, dtype=torch.uint8)
    for row in (pool[16, 16383], backing[299_999]):
        row.copy_(torch.randint(0, 256, (8192,), dtype=torch.uint8, generator=generator))
    inputs = {
        "lanes": torch.tensor([16], dtype=torch.int32),
        "kind": torch.tensor([[[Kind.HIT, Kind.MISS, Kind.REPEAT]]], dtype=torch.int8),
        "index": torch.tensor([[[16383, 299_999, 1]]], dtype=torch.int32),
        "fresh": fresh,
        "pool": pool,
        "backing": backing,
    }
    check(kernel, inputs, 2)


def test_every_sync_statement_is_needed(kernel):
    sizes = replace(SMALL, queries=4, top_k=600)
    requests = Requests(3, sizes)
    inputs = arguments(requests, requests.step())
    out = torch.empty(*inputs["kind"].shape, sizes.width, dtype=torch.uint8)

    def without(site, cores):
        return kernel.run(inputs, {"out": out}, cores=cores, skip=site, stop_at_first=True).faults

    runs = [lambda site, cores=cores: without(site, cores) for cores in (1, 5)]
    assert unreported(kernel, runs) == []


@pytest.mark.parametrize(
    ("entries", "cores", "blocks", "each", "more"),
    [(1, 48, 1, 1, 0), (47, 48, 47, 1, 0), (100, 48, 48, 2, 4), (2048, 24, 24, 85, 8)],
)
def test_entries_are_shared_evenly(kernel, entries, cores, blocks, each, more):
    requests = Requests(0, replace(SMALL, lanes=1, rows=1, queries=1, top_k=entries))
    tiling = kernel.tile(arguments(requests, requests.step()), cores=cores)
    assert (tiling.blocks, tiling.fields["each"], tiling.fields["more"]) == (blocks, each, more)
    assert blocks * each + more == entries
    assert tiling.together  # cores wait for each other
    assert tiling.fields["batchRows"] == 128  # rows are short: their number is the bound


REFUSED = {
    "kind: must be": ("kind", (0, 2, 40)),
    "kind: must have 1 to 16 queries, got 17": ("kind", (3, 17, 1)),
    "kind: must have 1 to 2048 entries a query, got 2049": ("kind", (3, 1, 2049)),
    "kind: must have at most 8192 entries a row, got 10240": ("kind", (3, 5, 2048)),
    "index: must be": ("index", (3, 2, 41)),
    "lanes: must be": ("lanes", (4,)),
    "fresh: must be": ("fresh", (3, 2, 64)),
    "pool: must be": ("pool", (3, 256, 64)),
    "pool: must have at most 16384 slots": ("pool", (1, 16385, 128)),
    "backing: must be": ("backing", (4, 4, 128)),
    "backing: rows must have 1 to 8192 bytes, got 8194": ("backing", (4, 8194)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_argument(kernel, message):
    requests = Requests(0, SMALL)
    inputs = arguments(requests, requests.step())
    name, shape = REFUSED[message]
    inputs[name] = torch.zeros(shape, dtype=inputs[name].dtype)
    with pytest.raises(RefusedError, match=message):
        kernel.tile(inputs)
