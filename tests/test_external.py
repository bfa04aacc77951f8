"""An engine's own pages and records in place of a backing."""

import runpy
from pathlib import Path

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("kv", 8, torch.int32), tierkv.Part("key", 4, torch.int32, "device"))
)
SPEC = tierkv.ModelSpec.uniform("test", 4, [[0, 1]], LAYOUT)
PAGE = 16


def records(rows=8 * PAGE, stride=LAYOUT.stride, layers=2):
    return [torch.zeros(rows, stride, dtype=torch.uint8) for _ in range(layers)]


def load(blocks, **config):
    settings = {"pool": {"slots": 8}, "policy": "lru", **config}
    return tierkv.load(settings, model=SPEC, lanes=2, max_tokens=64, blocks=blocks)


def test_the_example_runs():
    example = Path(__file__).parent.parent / "examples" / "external_blocks.py"
    assert runpy.run_path(str(example))["main"]() == 0


def test_append_none_serves_what_the_engine_wrote():
    blocks = tierkv.External(records(), PAGE)
    for layer, memory in enumerate(blocks.records):
        memory.view(torch.int32)[:] = torch.arange(len(memory))[:, None] + 1000 * layer
    with load(blocks) as cache:
        lane = cache.admit("a")
        table = torch.tensor([[5, 2]], dtype=torch.int32)
        for _ in range(2):  # missed, then hit
            with cache.stepper_for(1, 1).begin([lane], [20], block_table=table) as step:
                for layer in (0, 1):
                    step.append(layer, None)
                    ids = torch.tensor([[[0, 19, 3, 40]]], dtype=torch.int32)
                    kv = step.select(layer, ids if layer == 0 else None)
                    wanted = [5 * PAGE, 2 * PAGE + 3, 5 * PAGE + 3]
                    assert kv["kv"][0, 0, :3, 0].tolist() == [row + 1000 * layer for row in wanted]
                    assert kv.length.tolist() == [[3]]
        assert cache.stats().groups[0].hits == 2
        assert cache.stats().backing_bytes == 0
        cache.truncate("a", 2)
        assert cache.site.policies[0].id_at[lane].tolist().count(-1) == 7
        cache.release("a")


def test_what_is_the_engines_is_refused():
    with load(tierkv.External(records(), PAGE)) as cache:
        cache.admit("a")
        for call in (
            lambda: cache.admit("b", reserve=16),
            lambda: cache.admit("b", tokens=[1, 2]),
            lambda: cache.fork("a", "b"),
            lambda: cache.prefill("a", 0, {"kv": torch.zeros(1, 8, dtype=torch.int32)}),
            lambda: cache.read("a", 0, 0, 0),
            lambda: cache.warm("a", 0, torch.zeros(1, 4, dtype=torch.int32)),
        ):
            with pytest.raises(tierkv.StateError, match="the engine's"):
                call()
        with pytest.raises(tierkv.StateError, match="block_table"):
            cache.step([0], [4])
        stepper = cache.stepper_for(1, 1)
        for table, match in (
            (torch.zeros(2, 1, dtype=torch.int32), r"must be \[1, at most 4\]"),
            (torch.tensor([[8]], dtype=torch.int32), "names a page of 8"),
        ):
            with pytest.raises(tierkv.ShapeError, match=match):
                stepper.begin([0], [4], block_table=table)


def test_a_block_table_and_none_are_for_external_blocks_only():
    settings = {"pool": {"slots": 8}, "policy": "lru"}
    with tierkv.load(settings, model=SPEC, lanes=1, max_tokens=64) as cache:
        lane = cache.admit("a")
        with pytest.raises(tierkv.StateError, match="only then"):
            cache.stepper(1).begin([lane], [1], block_table=torch.zeros(1, 1, dtype=torch.int32))
        with pytest.raises(tierkv.StateError, match="External"), cache.step([lane], [1]) as step:
            step.append(0, None)


@pytest.mark.parametrize(
    ("blocks", "match"),
    [
        (tierkv.External(records(layers=1), PAGE), "2 layers"),
        (tierkv.External(records(stride=96), PAGE), r"layer 0: must be uint8 \[128, 32\]"),
        (tierkv.External([r.int() for r in records()], PAGE), "must be uint8"),
        (tierkv.External(records(), 24), "power of two"),
    ],
)
def test_records_that_do_not_fit_the_model_are_refused(blocks, match):
    with pytest.raises(tierkv.ConfigError, match=match):
        load(blocks)
