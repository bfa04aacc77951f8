"""DsaInstall equals the reference bit for bit, whatever the placement and the number of cores."""

import random
from dataclasses import replace

import pytest
import torch
from hostsim import Kernel, RefusedError, Report
from mutation import unreported
from serving import Requests, Sizes, Step, seeds
from torch import Tensor

from tierkv.ops import REFERENCE

CORES = (1, 2, 5, 24, 48)
PRODUCTION = Sizes(lanes=4, rows=4, queries=4, top_k=2048, slots=8192, width=1152, positions=32768)
SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, width=128, positions=256)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_install")


def arguments(requests: Requests, step: Step) -> dict[str, Tensor]:
    sizes = requests.sizes
    return {
        "lanes": step.lanes,
        "miss_from": step.miss_from,
        "miss_count": step.miss_count,
        "slot": step.slot,
        "selection": requests.bytes(*step.kind.shape, sizes.width),
        "pool": requests.bytes(sizes.lanes, sizes.slots, sizes.width),
    }


def check(kernel: Kernel, inputs: dict[str, Tensor], cores: int) -> Report:
    known, got = inputs["pool"].clone(), inputs["pool"]
    plan = [inputs[name] for name in ("lanes", "miss_from", "miss_count", "slot")]
    REFERENCE.install(*plan, [inputs["selection"]], [known])
    report = kernel.run(inputs, {}, cores=cores)
    assert not report.faults, report.faults[:3]
    assert torch.equal(got.view(torch.uint8), known.view(torch.uint8))
    return report


@pytest.mark.parametrize("seed", seeds(40))
def test_equals_the_reference(kernel, seed):
    rng = random.Random(seed)
    requests = Requests(seed, Sizes.draw(rng))
    for _ in range(2):
        check(kernel, arguments(requests, requests.step()), rng.choice(CORES))


@pytest.mark.parametrize("slots", [256, 16384])
@pytest.mark.parametrize("top_k", [1, 33, 64, 2048])
def test_sizes(kernel, top_k, slots):
    """Of 2048 new ids, a small pool keeps the last; the others have no slot."""
    sizes = replace(SMALL, lanes=2, rows=2, top_k=top_k, slots=slots, width=32, positions=4096)
    requests = Requests(top_k, sizes)
    for _ in range(2):
        check(kernel, arguments(requests, requests.step()), 48)


@pytest.mark.parametrize("cores", [1, 48])
@pytest.mark.parametrize("warm", [0, 0.95])
def test_production_size(kernel, warm, cores):
    requests = Requests(0, PRODUCTION, warm=warm, steady=True)
    for _ in range(3 if warm else 1):
        step = requests.step()
    report = check(kernel, arguments(requests, step), cores)
    written = [cost.pipes["MTE3"].bytes // PRODUCTION.width for cost in report.costs]
    placed, misses = int((step.slot >= 0).sum()), int(step.miss_count.sum())
    assert sum(written) == placed
    assert max(written) <= -(-misses // cores)
    if placed == misses:
        assert max(written) - min(written) <= 1
    assert report.ub_peak < 128 << 10


def test_nothing_to_install(kernel):
    requests = Requests(1, SMALL)
    inputs = arguments(requests, requests.step())
    inputs["miss_count"].zero_()
    check(kernel, inputs, 48)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16])
def test_rows_of_any_type(kernel, dtype):
    requests = Requests(2, SMALL)
    inputs = arguments(requests, requests.step())
    for name in ("selection", "pool"):
        inputs[name] = inputs[name].view(dtype)
    check(kernel, inputs, 5)


def test_offsets_past_two_to_the_31(kernel):
    pool = torch.empty(17, 16384, 8192, dtype=torch.uint8)  # never touched but for two rows
    selection = torch.arange(2 * 8192).remainder(251).to(torch.uint8).view(1, 1, 2, 8192)
    inputs = {
        "lanes": torch.tensor([16], dtype=torch.int32),
        "miss_from": torch.tensor([[1, 0]], dtype=torch.int32),
        "miss_count": torch.tensor([2], dtype=torch.int32),
        "slot": torch.tensor([[16383, 3]], dtype=torch.int32),
        "selection": selection,
        "pool": pool,
    }
    assert not kernel.run(inputs, {}, cores=2).faults
    assert torch.equal(pool[16, 16383], selection[0, 0, 1])
    assert torch.equal(pool[16, 3], selection[0, 0, 0])


def test_every_sync_statement_is_needed(kernel):
    requests = Requests(3, replace(SMALL, queries=4, top_k=600, positions=4096))
    inputs = arguments(requests, requests.step())

    def without(site, cores):
        return kernel.run(inputs, {}, cores=cores, skip=site, stop_at_first=True).faults

    runs = [lambda site, cores=cores: without(site, cores) for cores in (1, 5)]
    assert unreported(kernel, runs) == []


@pytest.mark.parametrize(("entries", "cores", "blocks"), [(1, 48, 3), (16, 48, 48), (600, 24, 24)])
def test_cores(kernel, entries, cores, blocks):
    requests = Requests(0, replace(SMALL, queries=1, top_k=entries))
    tiling = kernel.tile(arguments(requests, requests.step()), cores=cores)
    assert (tiling.blocks, tiling.together) == (blocks, False)


REFUSED = {
    "selection: must be": ("selection", (3, 80, 128)),
    "selection: must have 1 to 8192 entries a row, got 8193": ("selection", (3, 1, 8193, 2)),
    "selection: rows must have 1 to 8192 bytes, got 8194": ("selection", (3, 2, 40, 8194)),
    "lanes: must be": ("lanes", (4,)),
    "miss_count: must be": ("miss_count", (3, 1)),
    "miss_from: must be": ("miss_from", (3, 81)),
    "slot: must be": ("slot", (2, 80)),
    "pool: must be": ("pool", (3, 256, 64)),
    "pool: must have 1 to 16384 slots a lane, got 16385": ("pool", (1, 16385, 128)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_argument(kernel, message):
    requests = Requests(0, SMALL)
    inputs = arguments(requests, requests.step())
    name, shape = REFUSED[message]
    inputs[name] = torch.zeros(shape, dtype=inputs[name].dtype)
    with pytest.raises(RefusedError, match=message):
        kernel.tile(inputs)
