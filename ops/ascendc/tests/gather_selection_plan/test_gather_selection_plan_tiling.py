"""What GatherSelectionPlan refuses, and how its work is shared."""

import pytest
import torch
from gather_steps import World, ints
from hostsim import RefusedError

OPERATOR = "gather_selection_plan"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("ids", ints(2, 17, 3), "ids: must have 1 to 16 queries, got 17"),
        ("ids", ints(2, 1, 2049), "ids: must have 1 to 2048 entries a query, got 2049"),
        ("ids", ints(2, 5, 2000), "ids: must have at most 8192 entries a row, got 10000"),
        ("lanes", ints(3), "lanes: must be [2]"),
        ("kv_len", ints(2, 1), "kv_len: must be [2]"),
        ("q_len", ints(1), "q_len: must be [2]"),
        ("stable", ints(3), "stable: must be [2]"),
        ("block_table", ints(3, 4), "block_table: must be [2, pages]"),
        ("block_table", ints(2, 0), "block_table: must be [2, pages], at least one page"),
        ("id_at", ints(5, 11), "id_at: must be [lanes, at least 12]"),
        ("id_at", ints(5, 8193), "id_at: must have at most 8192 places a lane, got 8193"),
        ("row_of", ints(4), "row_of: must be [5]"),
        ("counters", ints(3, dtype=torch.int64), "counters: must be [14]"),
        ("page", 48, "page: must be a power of two from 16 to 1024, got 48"),
        ("page", 2048, "page: must be a power of two from 16 to 1024, got 2048"),
        ("first_row", -1, "first_row: must not be negative, got -1"),
    ],
)
def test_refusals_name_the_argument(sim, name, value, what):
    world = World(3, lanes=5, rows=2, queries=3, most_queries=3, top_k=4)
    inputs, across = world.step()
    attrs = {"page": 16, "first_row": 0, "across": across}
    inputs = {**inputs, **world.state}
    sim(OPERATOR).tile(inputs, attrs)
    (attrs if name in attrs else inputs)[name] = value
    with pytest.raises(RefusedError) as error:
        sim(OPERATOR).tile(inputs, attrs)
    assert what in str(error.value)


def test_work_is_shared(sim):
    world = World(5, lanes=8, rows=8, queries=2, most_queries=2, top_k=2048)
    inputs, across = world.step()
    attrs = {"page": world.page, "first_row": world.first_row, "across": across}
    for cores, blocks in ((1, 1), (5, 5), (24, 24), (48, 48)):
        tiling = sim(OPERATOR).tile({**inputs, **world.state}, attrs, cores)
        assert tiling.blocks == blocks
        assert tiling.together
        assert tiling.fields["queryEach"] * blocks + tiling.fields["queryMore"] == 16
