from pathlib import Path

import pytest
import torch
from hostsim import RefusedError

OPS = Path(__file__).parent / "ops"


@pytest.fixture(scope="module")
def example(sim):
    return sim("example", OPS)


@pytest.mark.parametrize(("elements", "cores"), [(64, 48), (64 * 100, 48), (64 * 7, 2)])
def test_result(example, elements, cores):
    x = torch.randint(-1000, 1000, (elements,), dtype=torch.int32)
    y = torch.empty_like(x)
    report = example.run({"x": x}, {"y": y}, {"add": 5}, cores=cores)
    assert not report.faults
    assert torch.equal(y, x + 5)
    assert report.tiling.fields == {"elements": elements, "add": 5}
    assert report.ub_peak == 1024
    assert sum(cost.pipes["MTE2"].bytes for cost in report.costs) == elements * 4


def test_refusal(example):
    with pytest.raises(RefusedError, match="multiple of 64, got 63"):
        example.tile({"x": torch.zeros(63, dtype=torch.int32)})


def test_every_sync_is_needed(example):
    """But the last SyncAll, behind which nothing comes."""
    x = torch.zeros(64 * 8, dtype=torch.int32)
    call = {"x": x}, {"y": torch.empty_like(x)}
    assert not example.run(*call, cores=1).faults
    assert len(example.sync_sites) == 9
    needed = [s for s in example.sync_sites if example.run(*call, cores=1, skip=s).faults]
    assert needed == example.sync_sites[:-1]
