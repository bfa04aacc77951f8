"""How DsaPlan's work is split, and what it refuses."""

from dataclasses import replace

import pytest
import torch
from group_steps import CORES, Group, Sizes
from hostsim import Kernel, RefusedError
from torch import Tensor

SMALL = Sizes(lanes=3, rows=3, queries=2, top_k=40, slots=256, positions=1000)


@pytest.fixture(scope="module")
def kernel(sim) -> Kernel:
    return sim("dsa_plan")


def tile(kernel: Kernel, sizes: Sizes, cores: int, **changed: Tensor | int):
    group = Group(0, sizes)
    page = changed.pop("page", sizes.page)
    inputs = {**group.step(), "counters": group.counters, **changed}
    return kernel.tile(inputs, {"page": page}, cores)


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("rows", [1, 3, 8, 33])
def test_work_is_split_evenly(kernel, cores, rows):
    sizes = Sizes(rows, rows, 4, 2048, positions=4096)
    tiling = tile(kernel, sizes, cores)
    f, blocks = tiling.fields, tiling.blocks
    assert tiling.together
    assert blocks <= cores
    assert f["queryEach"] * blocks + f["queryMore"] == rows * 4
    assert f["unitEach"] * blocks + f["unitMore"] == rows * (1 + f["parts"])
    assert max(f["queryMore"], f["unitMore"]) < blocks
    assert blocks == min(cores, rows * max(4, 1 + f["parts"]))
    assert f["hashes"] / f["parts"] <= f["table"]
    assert f["chunk"] * f["chunks"] >= f["entries"] == 8192


def test_tables_are_shared_where_a_core_has_several_queries(kernel):
    sizes = Sizes(8, 8, 4, 1024, positions=4096)
    assert tile(kernel, sizes, 48).fields["batch"] == 1
    assert tile(kernel, sizes, 8).fields["batch"] == 4
    assert tile(kernel, replace(sizes, top_k=2048), 8).fields["batch"] == 2


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ids", {"ids": torch.zeros(3, 80, dtype=torch.int32)}),
        ("ids", {"ids": torch.zeros(3, 17, 8, dtype=torch.int32)}),
        ("ids", {"ids": torch.zeros(3, 1, 2049, dtype=torch.int32)}),
        ("ids", {"ids": torch.zeros(3, 8, 2048, dtype=torch.int32)}),
        ("lanes", {"lanes": torch.zeros(2, dtype=torch.int32)}),
        ("kv_len", {"kv_len": torch.zeros(3, 1, dtype=torch.int32)}),
        ("q_len", {"q_len": torch.zeros(4, dtype=torch.int32)}),
        ("stable", {"stable": torch.zeros(1, dtype=torch.int32)}),
        ("page", {"page": 8}),
        ("page", {"page": 96}),
        ("page", {"page": 2048}),
        ("block_table", {"block_table": torch.zeros(2, 8, dtype=torch.int32)}),
        ("block_table", {"block_table": torch.zeros(3, 0, dtype=torch.int32)}),
        ("slot_of", {"slot_of": torch.zeros(1000, dtype=torch.int16)}),
        ("slot_of", {"slot_of": torch.zeros(3, 0, dtype=torch.int16)}),
        ("slot_of", {"slot_of": torch.empty(1, (1 << 24) + 1, dtype=torch.int16)}),
        ("slot_of", {"slot_of": torch.zeros(3, 1000, dtype=torch.int64)}),
        ("counters", {"counters": torch.zeros(8, dtype=torch.int64)}),
        ("counters", {"counters": torch.zeros(14, dtype=torch.int32)}),
    ],
)
def test_what_does_not_fit_is_refused(kernel, name, changed):
    with pytest.raises(RefusedError, match=name):
        tile(kernel, SMALL, 24, **changed)
