"""The layers of a step in one graph of inductor, replayed inside any later ``begin``."""

import pytest
import torch

import tierkv
from tierkv.ops import NATIVE

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("nope", 32, torch.float32), tierkv.Part("rope", 8, torch.float32))
)
SPEC = tierkv.ModelSpec.uniform("test", 8, [[0], [1, 2]], LAYOUT)
LANES, QUERIES, PROMPT, STEPS = 4, 2, 100, 40


class Counted:
    """Inductor, and how many graphs it was given."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, inputs):
        from torch._inductor.compile_fx import compile_fx

        self.graphs += 1
        return compile_fx(graph, inputs)


def layers(step, records, ids, query):
    """Append, select and attend in each layer: [layers, B, Q, 32]."""
    out = []
    for layer, group in enumerate((0, 1, None)):
        step.append(layer, records[layer])
        kv = step.select(layer, None if group is None else ids[group])
        scores = torch.einsum("bqd,bqkd->bqk", query, kv["nope"])
        behind = torch.arange(scores.shape[-1]) >= kv.length[..., None]
        weights = scores.masked_fill(behind, -1e30).softmax(-1)
        out.append(torch.einsum("bqk,bqkd->bqd", weights, kv["nope"]))
    return torch.stack(out)


def expected(record, ids, kv_len, query):
    """Attend over what a query may see, in plain indexing: [Q, 32], nan where that is nothing."""
    rows = []
    for number, selected in enumerate(ids.tolist()):
        seen = [at for at in selected if 0 <= at <= kv_len - QUERIES + number]
        keys = record["nope"][seen]
        rows.append(
            (keys @ query[number]).softmax(-1) @ keys if seen else query[number] * torch.nan
        )
    return torch.stack(rows)


CLOCK = {"pool": {"slots": 64}, "policy": {"use": "clock", "ways": 16}}


@pytest.mark.parametrize(
    ("scheme", "schedule"),
    [(CLOCK, "inline"), (CLOCK, "worker"), ({"scheme": "dsv32-gather"}, "inline")],
)
@pytest.mark.parametrize(
    "ops",
    [
        pytest.param("reference", marks=pytest.mark.long),
        pytest.param(
            "native", marks=pytest.mark.skipif(NATIVE is None, reason="no compiler at installation")
        ),
    ],
)
@torch.no_grad()
def test_one_graph_serves_changing_lengths_lanes_and_selections(ops, scheme, schedule):
    torch._dynamo.reset()
    random = torch.Generator().manual_seed(0)
    cache = tierkv.load(
        {"ops": ops, "backing": {"page": 16}, "installer": {"schedule": schedule}} | scheme,
        model=SPEC, lanes=LANES, max_tokens=256, queries=QUERIES,
    )  # fmt: skip
    dense = {}
    for lane in [cache.admit(number) for number in range(LANES)]:
        for layer in range(3):
            sizes = {"nope": 32, "rope": 8}
            dense[lane, layer] = {
                name: torch.randn(256, width, generator=random) for name, width in sizes.items()
            }
            prompt = {name: rows[:PROMPT] for name, rows in dense[lane, layer].items()}
            cache.prefill(lane, layer, prompt)
    backend, stepper, length = Counted(), cache.stepper(3, QUERIES), [PROMPT] * LANES
    compiled = torch.compile(layers, fullgraph=True, backend=backend)
    for number in range(STEPS):
        lanes = torch.randperm(LANES, generator=random)[:3].tolist()
        if number % 5 == 0:
            lanes[1] = -1
        kv_len = [length[lane] + QUERIES if lane >= 0 else 0 for lane in lanes]
        records = [
            {name: torch.stack([dense[max(lane, 0), layer][name][max(stop - QUERIES, 0):][:QUERIES]
                                for lane, stop in zip(lanes, kv_len, strict=True)])
             for name in ("nope", "rope")}
            for layer in range(3)
        ]  # fmt: skip
        ids = torch.randint(-1, max(kv_len), (2, 3, QUERIES, 8), generator=random).int()
        query = torch.randn(3, QUERIES, 32, generator=random)
        with stepper.begin(lanes, kv_len) as step:
            out = compiled(step, records, list(ids), query)
        for row, (lane, stop) in enumerate(zip(lanes, kv_len, strict=True)):
            if lane < 0:
                continue
            length[lane] = stop
            for layer, group in enumerate((0, 1, 1)):
                wanted = expected(dense[lane, layer], ids[group, row], stop, query[row])
                found = torch.where(wanted.isnan(), torch.nan, out[layer, row])
                torch.testing.assert_close(found, wanted, equal_nan=True, atol=1e-4, rtol=1e-4)
    assert backend.graphs <= 2
    assert cache.stats().steps == STEPS
