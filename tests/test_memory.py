"""Nothing grows."""

import resource

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout((tierkv.Part("kv", 64, torch.float32),))
SPEC = tierkv.ModelSpec.uniform("test", 32, [[0], [1, 2]], LAYOUT)
PROMPT, LIFE = 64, 10


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["inline", "worker"])
def test_twenty_thousand_steps_with_lanes_coming_and_going(schedule):
    config = {
        "pool": {"slots": 64},
        "policy": {"use": "clock", "ways": 16},
        "backing": {"page": 16, "capacity": 30 * 16 * LAYOUT.stride * 3},
        "installer": {"schedule": schedule},
    }
    random = torch.Generator().manual_seed(0)
    prompt = {"kv": torch.randn(PROMPT, 64, generator=random)}
    new = {"kv": torch.randn(4, 1, 64, generator=random)}
    with tierkv.load(config, model=SPEC, lanes=4, max_tokens=PROMPT + LIFE) as cache:
        marks = []
        for number in range(20_000 // LIFE):
            lanes = [
                cache.admit((number, row), tokens=range(row, row + PROMPT)) for row in range(4)
            ]
            for row in range(4):
                start = cache.length((number, row))
                for layer in range(3):
                    part = {"kv": prompt["kv"][start:]}
                    cache.prefill((number, row), layer, part, start=start)
            for step in range(LIFE):
                length = PROMPT + step + 1
                with cache.step(lanes, [length] * 4) as open_step:
                    for layer in range(3):
                        open_step.append(layer, new)
                        ids = torch.randint(-1, length, (4, 1, 32), generator=random).int()
                        open_step.select(layer, None if layer == 2 else ids)
            for row in range(4):
                cache.release((number, row))
            if number % 200 == 0:
                marks.append(resident())
        assert cache.paging.used == 0
        assert cache.stats().lanes_used == 0
        grown = max(marks[3:]) - marks[2]
        assert grown < 4 * 2**20, f"{grown:,} bytes more after the first 4,000 steps"
