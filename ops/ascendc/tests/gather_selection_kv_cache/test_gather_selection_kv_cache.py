"""GatherSelectionKvCache equals the reference bit for bit, over steps of one buffer."""

import random
from dataclasses import replace

import pytest
import torch
from gathering import Requests, Sizes, Step
from hostsim import Kernel, RefusedError, Report
from mutation import unreported
from serving import ints, seeds
from torch import Tensor

from tierkv.constants import Kind
from tierkv.ops import REFERENCE

CORES = (1, 2, 5, 24, 48)
PRODUCTION = Sizes(lanes=4, queries=4, top_k=2048, width=1152, positions=32768)
SMALL = Sizes(lanes=5, queries=2, top_k=64, width=128, positions=512)
REDUNDANT = {
    "src/common/op_kernel/row_zero.h",  # zeros are written after SyncAll only; DsaServe needs it
}


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("gather_selection_kv_cache")


class Buffers:
    """A buffer that the reference writes, and one that the kernel does; both begin as garbage."""

    def __init__(self, requests: Requests) -> None:
        sizes = requests.sizes
        self.backing = requests.backing
        self.known = requests.bytes(sizes.lanes, sizes.queries, sizes.top_k, sizes.width)
        self.filled = ints(sizes.lanes, sizes.queries, fill=sizes.top_k)
        self.got, self.got_filled = self.known.clone(), self.filled.clone()

    def arguments(self, step: Step) -> dict[str, Tensor]:
        return {
            "kind": step.kind,
            "index": step.index,
            "length": step.length,
            "source": step.source,
            "work": step.work,
            "work_count": step.work_count,
            "fresh": step.fresh,
            "backing": self.backing,
            "buffer": self.got,
            "filled": self.got_filled,
        }

    def gather(self, step: Step) -> None:
        REFERENCE.gather(
            step.kind, step.index, step.length, step.source, step.work, step.work_count,
            step.first_row, [step.fresh], [self.backing], [self.known], self.filled,
        )  # fmt: skip

    def check(self, kernel: Kernel, step: Step, cores: int) -> Report:
        attrs = {"first_row": step.first_row}
        report = kernel.run(self.arguments(step), {}, attrs, cores=cores)
        assert not report.faults, report.faults[:3]
        self.gather(step)
        assert torch.equal(self.got, self.known)
        assert torch.equal(self.got_filled, self.filled)
        return report


@pytest.mark.parametrize("seed", seeds(40))
def test_equals_the_reference(kernel, seed):
    rng = random.Random(seed)
    requests = Requests(seed, Sizes.draw(rng))
    buffers = Buffers(requests)
    for _ in range(5):
        buffers.check(kernel, requests.step(), rng.choice(CORES))


@pytest.mark.parametrize("cores", [1, 5, 48])
def test_rows_in_circles_take_their_records_along(kernel, cores):
    requests = Requests(0, SMALL)
    buffers, elsewhere = Buffers(requests), 0
    orders = [[0, 1, 2, 3, 4], [1, 2, 0, 4, 3], [3, 1, 2, 0, -1], [4, 3, 1, 0, 2], [2, 0, 1, 3, 4]]
    for lanes in orders:
        step = requests.step(lanes)
        elsewhere += step.elsewhere
        buffers.check(kernel, step, cores)
    assert elsewhere == len(orders) - 1


@pytest.mark.parametrize("top_k", [1, 31, 32, 65, 512])
@pytest.mark.parametrize("width", [32, 656])
def test_sizes(kernel, top_k, width):
    requests = Requests(top_k, replace(SMALL, lanes=3, top_k=top_k, width=width, positions=1024))
    buffers = Buffers(requests)
    for lanes in ([0, 1, 2], [0, 2, 1], [0, 2, 1]):
        buffers.check(kernel, requests.step(lanes), 24)


def test_production_size(kernel):
    """The first step copies everything, the second little, the third moves all rows."""
    requests = Requests(0, PRODUCTION, warm=0.9, steady=True)
    buffers, works = Buffers(requests), []
    for lanes in ([0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 0]):
        step = requests.step(lanes)
        shrunk = (buffers.filled - step.length).clamp(min=0).sum()
        report = buffers.check(kernel, step, 48)
        works.append(int(step.work_count.sum()))
        rows = works[-1] + int(shrunk)
        written = sum(cost.pipes["MTE3"].bytes for cost in report.costs)
        assert written == rows * PRODUCTION.width + step.length.nbytes
        assert report.ub_peak < 184 << 10
    assert works[0] > 32_000
    assert works[1] < 4_000
    assert works[2] > 32_000


def test_work_is_dealt_out_evenly(kernel):
    requests = Requests(0, replace(SMALL, lanes=4, top_k=512, positions=4096), steady=True)
    buffers, step = Buffers(requests), requests.step([0, 1, 2, 3])
    assert (step.length == 512).all()
    report = buffers.check(kernel, step, 48)
    written = [cost.pipes["MTE3"].bytes // SMALL.width for cost in report.costs]
    assert sum(written) == step.kind.numel()
    assert max(written) - min(written) <= 4  # a hand has as many entries as the batch has rows


def test_offsets_past_two_to_the_31(kernel):
    """Place 0 comes from place 9 of another row, place 1 from backing, place 2 repeats it."""
    buffer = torch.empty(34, 4, 2048, 8192, dtype=torch.uint8)  # hardly touched
    backing = torch.empty(300_000, 8192, dtype=torch.uint8)
    moved = torch.arange(8192).remainder(251).to(torch.uint8)
    buffer[32, 3, 9], backing[299_999] = moved, moved.flip(0)
    buffer[33, 3, 3] = 1
    kind, index = torch.zeros(1, 1, 2048, dtype=torch.int8), ints(1, 1, 2048, fill=-1)
    kind[..., :3] = torch.tensor([Kind.HIT, Kind.MISS, Kind.REPEAT])
    index[..., :3] = torch.tensor([9, 299_999, 1])
    work = ints(1, 2048, fill=-1)
    work[0, :3] = torch.arange(3)
    inputs = {
        "kind": kind,
        "index": index,
        "length": ints(1, 1, fill=3),
        "source": ints(1, fill=32),
        "work": work,
        "work_count": ints(1, fill=3),
        "fresh": torch.empty(1, 1, 8192, dtype=torch.uint8),
        "backing": backing,
        "buffer": buffer,
        "filled": ints(34, 4, fill=4),
    }
    assert not kernel.run(inputs, {}, {"first_row": 33}, cores=3).faults
    assert torch.equal(buffer[33, 3, :3], torch.stack([moved, moved.flip(0), moved.flip(0)]))
    assert not buffer[33, 3, 3].any()
    assert inputs["filled"][33].tolist() == [4, 4, 4, 3]


def test_every_sync_statement_is_needed(kernel):
    requests = Requests(5, SMALL)
    buffers, runs = Buffers(requests), []

    def without(site, step, states, cores):
        inputs = {**buffers.arguments(step), **{name: x.clone() for name, x in states.items()}}
        attrs = {"first_row": step.first_row}
        return kernel.run(inputs, {}, attrs, cores=cores, skip=site, stop_at_first=True).faults

    for lanes in ([0, 1, 2, 3, 4], [1, 2, 0, 4, 3], [3, 1, 2, 0, -1]):
        step = requests.step(lanes)
        states = {"buffer": buffers.known.clone(), "filled": buffers.filled.clone()}
        runs += [
            lambda site, step=step, states=states, cores=cores: without(site, step, states, cores)
            for cores in (1, 7)
        ]
        buffers.gather(step)
    assert {file for file, _ in unreported(kernel, runs)} == REDUNDANT


@pytest.mark.parametrize(
    ("lanes", "top_k", "cores", "blocks", "slice_"),
    [(1, 1, 48, 2, 2), (5, 64, 48, 48, 128), (5, 64, 4, 4, 102), (5, 2048, 1, 1, 25)],
)
def test_slices_fit_what_the_cores_hold(kernel, lanes, top_k, cores, blocks, slice_):
    requests = Requests(0, replace(SMALL, lanes=lanes, top_k=top_k), steady=True)
    step = requests.step(list(range(lanes)))
    tiling = kernel.tile(Buffers(requests).arguments(step), {"first_row": 0}, cores=cores)
    fields = tiling.fields
    assert (tiling.blocks, fields["slice"]) == (blocks, slice_)
    assert fields["sliceEach"] <= fields["batchRows"]
    assert fields["sliceEach"] * blocks >= lanes * slice_
    assert fields["mostRows"] >= lanes / blocks
    assert tiling.together  # cores wait for each other


REFUSED = {
    "kind: must be": ("kind", (0, 2, 64)),
    "kind: must have at most 8192 entries a row": ("kind", (5, 5, 2048)),
    "index: must be": ("index", (5, 2, 63)),
    "length: must be": ("length", (5, 1)),
    "source: must be": ("source", (4,)),
    "work: must be": ("work", (5, 2, 64)),
    "work_count: must be": ("work_count", (5, 2)),
    "fresh: must be": ("fresh", (5, 2, 130)),
    "backing: must be": ("backing", (128,)),
    "backing: rows must have 1 to 8192 bytes, got 0": ("backing", (10, 0)),
    "buffer: must be": ("buffer", (5, 1, 64, 128)),
    "filled: must be": ("filled", (2, 5)),
    "first_row: 1 and the 5 rows": ("first_row", 1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_argument(kernel, message):
    requests = Requests(0, SMALL, steady=True)
    inputs = Buffers(requests).arguments(requests.step([0, 1, 2, 3, 4]))
    name, shape = REFUSED[message]
    attrs = {"first_row": 0}
    if name in attrs:
        attrs[name] = shape
    else:
        inputs[name] = torch.zeros(shape, dtype=inputs[name].dtype)
    with pytest.raises(RefusedError, match=message):
        kernel.tile(inputs, attrs)


def test_more_rows_than_the_cores_can_hold_are_refused(kernel):
    requests = Requests(0, replace(SMALL, lanes=200, top_k=1, width=8192, positions=16))
    inputs = Buffers(requests).arguments(requests.step(list(range(200))))
    with pytest.raises(RefusedError, match="kind: 200 rows are too many for 1 cores"):
        kernel.tile(inputs, {"first_row": 0}, cores=1)
    assert kernel.tile(inputs, {"first_row": 0}).blocks == 48
