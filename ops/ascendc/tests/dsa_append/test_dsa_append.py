"""DsaAppend equals the reference bit for bit: whole records, and parts of records."""

import random
from dataclasses import dataclass

import pytest
import torch
from hostsim import Kernel, RefusedError, Report
from mutation import unreported
from serving import bytes_of, ints, seeds
from torch import Tensor

from tierkv.ops import REFERENCE

CORES = (1, 2, 5, 24, 48)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_append")


@dataclass(frozen=True)
class Case:
    """`width` bytes of each row are appended."""

    inputs: dict[str, Tensor]
    width: int

    @classmethod
    def make(cls, seed: int, shape: tuple[int, int], width: int, apart: tuple[int, ...]) -> "Case":
        """Rows of part, fresh and backing lie `apart` bytes apart; 0 is no such target."""
        generator = torch.Generator().manual_seed(seed)
        count, (part, fresh, backing) = shape[0] * shape[1], apart
        rows = torch.randperm(2 * count + 1, generator=generator)[:count].to(torch.int32)
        rows[torch.rand(count, generator=generator) < 0.2] = -1
        inputs = {
            "part": bytes_of(generator, *shape, part),
            "rows": rows.view(shape),
            "fresh": bytes_of(generator, *shape, fresh) if fresh else bytes_of(generator, 0),
            "backing": bytes_of(generator, *([2 * count + 1, backing] if backing else [0])),
        }
        return cls(inputs, width)

    def reference(self) -> dict[str, Tensor]:
        known = {name: tensor.clone() for name, tensor in self.inputs.items()}
        part, fresh, backing = (
            [known[name].view(torch.uint8)[..., : self.width]] if known[name].numel() else []
            for name in ("part", "fresh", "backing")
        )
        REFERENCE.append(part, known["rows"], fresh, backing)
        return known

    def check(self, kernel: Kernel, cores: int) -> Report:
        known = self.reference()
        report = kernel.run(self.inputs, {}, {"width": self.width}, cores=cores)
        assert not report.faults, report.faults[:3]
        for name, tensor in self.inputs.items():
            assert torch.equal(tensor.view(torch.uint8), known[name].view(torch.uint8)), name
        return report


def draw(seed: int) -> Case:
    rng = random.Random(seed)
    width = rng.choice([2, 34, 128, 656, 672, 1024, 1152, 8192])
    apart = [width + rng.choice([0, 0, 16, 32, 130]) for _ in range(3)]
    if rng.random() < 0.3:
        apart[rng.randint(1, 2)] = 0
    return Case.make(seed, (rng.randint(1, 8), rng.randint(1, 4)), width, tuple(apart))


@pytest.mark.parametrize("seed", seeds(40))
def test_equals_the_reference(kernel, seed):
    draw(seed).check(kernel, random.Random(seed).choice(CORES))


@pytest.mark.parametrize("cores", [1, 5, 48])
def test_a_large_batch(kernel, cores):
    report = Case.make(0, (64, 16), 1152, (1152, 1152, 1184)).check(kernel, cores)
    assert report.ub_peak < 128 << 10


def test_nothing_live(kernel):
    case = Case.make(0, (3, 4), 1152, (1152, 1152, 1152))
    case.inputs["rows"].fill_(-1)
    report = case.check(kernel, 48)
    assert sum(cost.pipes["MTE3"].bytes for cost in report.costs) == 12 * 1152


def test_production_size(kernel):
    """Rows that lie side by side share their bursts; each is read for either target."""
    case = Case.make(0, (4, 4), 1152, (1152, 1152, 1152))
    case.inputs["rows"].copy_(torch.arange(16).view(4, 4))
    report = case.check(kernel, 4)
    assert report.ub_peak < 128 << 10
    for cost in report.costs:
        assert (cost.pipes["MTE2"].instructions, cost.pipes["MTE3"].instructions) == (3, 2)
        assert cost.scalar < 50


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16])
def test_rows_of_any_type(kernel, dtype):
    case = Case.make(1, (3, 2), 128, (128, 160, 128))
    for name in ("part", "fresh", "backing"):
        case.inputs[name] = case.inputs[name].view(dtype)
    case.check(kernel, 5)


def test_offsets_past_two_to_the_31(kernel):
    part = torch.arange(8192).remainder(251).to(torch.uint8).view(1, 1, 8192)
    backing = torch.empty(300_000, 8192, dtype=torch.uint8)  # never touched but for one row
    inputs = {
        "part": part,
        "rows": ints(1, 1, fill=299_999),
        "fresh": torch.empty(0, dtype=torch.uint8),
        "backing": backing,
    }
    assert not kernel.run(inputs, {}, {"width": 8192}, cores=2).faults
    assert torch.equal(backing[299_999], part[0, 0])


def test_every_sync_statement_is_needed(kernel):
    case = Case.make(0, (64, 4), 128, (128, 128, 160))

    def without(site, cores):
        attrs = {"width": 128}
        return kernel.run(case.inputs, {}, attrs, cores, skip=site, stop_at_first=True).faults

    runs = [lambda site, cores=cores: without(site, cores) for cores in (1, 5)]
    assert unreported(kernel, runs) == []


@pytest.mark.parametrize(
    ("shape", "cores", "blocks", "each", "more"),
    [((1, 1), 48, 1, 1, 0), ((4, 4), 48, 16, 1, 0), ((64, 4), 48, 48, 5, 16)],
)
def test_rows_are_shared_evenly(kernel, shape, cores, blocks, each, more):
    case = Case.make(0, shape, 1152, (1152, 1152, 1152))
    tiling = kernel.tile(case.inputs, {"width": 1152}, cores=cores)
    assert (tiling.blocks, tiling.fields["each"], tiling.fields["more"]) == (blocks, each, more)
    assert blocks * each + more == shape[0] * shape[1]
    assert tiling.fields["batchRows"] == 35
    assert not tiling.together


def test_targets_may_be_left_out(kernel):
    case = Case.make(0, (2, 2), 16, (16, 0, 32))
    fields = kernel.tile(case.inputs, {"width": 16}).fields
    assert (fields["partStride"], fields["freshStride"], fields["backingStride"]) == (16, 0, 32)


REFUSED = {
    "part: must be": ("part", (3, 0, 128)),
    "part: rows must have at least `width` bytes": ("part", (3, 4, 126)),
    "rows: must be": ("rows", (12,)),
    "fresh: must be": ("fresh", (4, 3, 128)),
    "fresh: rows must have at least `width` bytes": ("fresh", (3, 4, 120)),
    "backing: must be": ("backing", (3, 4, 128)),
    "backing: rows must have at least `width` bytes": ("backing", (9, 64)),
    "width: must be 1 to 8192 bytes, got 0": ("width", 0),
    "width: must be 1 to 8192 bytes, got 8194": ("width", 8194),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_argument(kernel, message):
    inputs, attrs = Case.make(0, (3, 4), 128, (128, 128, 128)).inputs, {"width": 128}
    name, wrong = REFUSED[message]
    if name in attrs:
        attrs[name] = wrong
    else:
        inputs[name] = torch.zeros(wrong, dtype=inputs[name].dtype)
    with pytest.raises(RefusedError, match=message):
        kernel.tile(inputs, attrs)


def test_more_rows_than_the_cores_can_hold_are_refused(kernel):
    inputs = {
        "part": torch.empty(3000, 16, 128, dtype=torch.uint8),
        "rows": ints(3000, 16),
        "fresh": torch.empty(3000, 16, 128, dtype=torch.uint8),
        "backing": torch.empty(1, 128, dtype=torch.uint8),
    }
    with pytest.raises(RefusedError, match="rows: 48000 rows are too many for 1 cores"):
        kernel.tile(inputs, {"width": 128}, cores=1)
