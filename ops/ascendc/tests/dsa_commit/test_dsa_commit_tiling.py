"""How DsaCommit's work is split, and what it refuses."""

from dataclasses import replace

import pytest
import torch
from group_steps import CORES, Group, Sizes
from hostsim import Kernel, RefusedError
from placing import arguments, attrs
from torch import Tensor

SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, positions=1000)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_commit")


def tile(kernel: Kernel, sizes: Sizes, cores: int, **changed: Tensor | int | None):
    group = Group(0, sizes)
    step = group.step()
    call = {name: changed.pop(name, value) for name, value in attrs(sizes).items()}
    inputs = arguments(group, step, group.plan(step, group.counters)) | changed
    return kernel.tile(inputs, call, cores)


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("clock", [False, True])
def test_work_is_split_evenly(kernel, cores, rows, clock):
    tiling = tile(
        kernel, replace(SMALL, lanes=rows, rows=rows, slots=8192, ways=64, clock=clock), cores
    )
    f, blocks = tiling.fields, tiling.blocks
    assert tiling.together
    assert f["unitEach"] * blocks + f["unitMore"] == rows * f["parts"]
    assert f["rowEach"] * blocks + f["rowMore"] == rows
    assert max(f["unitMore"], f["rowMore"]) < blocks <= cores
    assert f["mostSets"] == -(-128 // f["parts"])
    assert tiling.key == clock


def test_a_part_fits_the_unified_buffer(kernel):
    """On few cores a lane is cut for the sake of memory."""
    big = Sizes(1, 1, 4, 2048, 16384, 64, 1000, clock=True)
    assert tile(kernel, big, 1).fields["parts"] > 1
    assert tile(kernel, replace(big, slots=8192), 48).fields["parts"] == 16


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("kind", {"kind": torch.zeros(3, 80, dtype=torch.int8)}),
        ("kind", {"kind": torch.zeros(3, 1, 2049, dtype=torch.int8)}),
        ("lanes", {"lanes": torch.zeros(2, dtype=torch.int32)}),
        ("index", {"index": torch.zeros(3, 80, dtype=torch.int32)}),
        ("miss_id", {"miss_id": torch.zeros(3, 79, dtype=torch.int32)}),
        ("miss_from", {"miss_from": torch.zeros(2, 80, dtype=torch.int32)}),
        ("miss_count", {"miss_count": torch.zeros(3, 1, dtype=torch.int32)}),
        ("slot_of", {"slot_of": torch.zeros(1000, dtype=torch.int16)}),
        ("slot_of", {"slot_of": torch.empty(3, (1 << 24) + 1, dtype=torch.int16)}),
        ("id_at", {"id_at": torch.zeros(2, 256, dtype=torch.int32)}),
        ("id_at", {"id_at": torch.zeros(3, 16385, dtype=torch.int32)}),
        ("hand", {"hand": torch.zeros(3, 0, dtype=torch.int32)}),
        ("hand", {"hand": torch.zeros(3, 257, dtype=torch.int32)}),
        ("policy", {"policy": 2}),
        ("hashing", {"hashing": 2}),
        ("visited", {"policy": 1}),
        ("visited", {"visited": torch.zeros(3, 16, 1, dtype=torch.int64)}),
        ("visited", {"policy": 1, "visited": torch.zeros(3, 16, 2, dtype=torch.int64)}),
        (
            "hand",
            {
                "policy": 1,
                "hand": torch.zeros(3, 2, dtype=torch.int32),
                "visited": torch.zeros(3, 2, 1, dtype=torch.int64),
            },
        ),
        ("counters", {"counters": torch.zeros(10, dtype=torch.int64)}),
    ],
)
def test_what_does_not_fit_is_refused(kernel, name, changed):
    with pytest.raises(RefusedError, match=name):
        tile(kernel, SMALL, 24, **changed)
