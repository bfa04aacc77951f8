"""A scheme is one line: the same file but for it, the same code, the same bytes."""

from functools import partial

import pytest

import tierkv
from tierkv.config import make_registry
from tierkv.testing.assemble import Shape
from tierkv.testing.harness import Harness
from tierkv.testing.model_policies import MODELS
from tierkv.testing.workload import Workload

SCHEMES = [None, *make_registry().names("scheme")]
FILE = """
scheme: {scheme}
backing: {{use: {backing}, page: 16}}
pool: {{slots: 16}}
"""


def sizes(shape):
    return {name: getattr(shape, name) for name in ("lanes", "max_tokens", "queries")}


@pytest.mark.parametrize("backing", ["host", "file"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_schemes_are_swapped_by_one_line(tmp_path, scheme, backing):
    shape = Shape()
    file = tmp_path / "config.yaml"
    text = FILE.format(scheme=scheme, backing=backing)
    file.write_text("\n".join(line for line in text.splitlines() if line != "scheme: None"))
    with tierkv.load(file, model=shape.spec, **sizes(shape)) as cache:
        harness = Harness(cache, tabled=cache.server.ordered, pooled=cache.server.pooled)
        Workload(harness, shape, seed=21).run(60)
        name = type(cache.planner).__name__
    assert name == {None: "TablePlanner", "glm52-indexshare": "IndexSharePlanner",
                    "dsv32-gather": "GatherPlanner"}.get(scheme, name)  # fmt: skip


@pytest.mark.parametrize("policy", ["lru", "clock", "unbounded"])
@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name != "dsv32-gather"])
def test_any_part_of_a_scheme_may_be_another(scheme, policy):
    shape = Shape(slots=96 if policy == "unbounded" else 16)
    options = {"ways": 4} if policy == "clock" else {}
    source = {"policy": {"use": policy, **options}, "backing": {"page": 16},
              "pool": {"slots": shape.slots}} | ({"scheme": scheme} if scheme else {})  # fmt: skip
    with tierkv.load(source, model=shape.spec, **sizes(shape)) as cache:
        harness = Harness(cache, partial(MODELS[policy], shape.slots, **options))
        Workload(harness, shape, seed=22).run(30)
