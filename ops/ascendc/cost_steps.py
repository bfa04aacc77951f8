"""One step of decoding at GLM-5.2's size: the calls of all operators, for ``cost_sheet.py``.

Selections are those of the trace `stack`, see docs/traces.md, which is fitted to published figures
of that model. A step decodes `QUERIES` tokens of which `KEPT` stay: the next step selects anew for
the others.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.constants import Counter, Kind
from tierkv.ops import NATIVE, REFERENCE
from tierkv.trace import Shape, synthesize

LANES, QUERIES, KEPT, TOP_K = 4, 4, 3, 2048
WIDTH, CONTEXT, PAGE = 576, 65_536, 128
STEPS = 64
"""Of which the last is counted; pools are full and hit rates steady by then."""
WAYS = {"set-fifo": 16, "clock": 64}
ROW_BYTES = 2 * WIDTH
ENTRIES = QUERIES * TOP_K
PLANNED = ("kind", "index", "miss_id", "miss_from", "miss_count")
"""What placement takes of a plan."""
OPS = NATIVE or REFERENCE

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Call:
    """One launch of an operator."""

    operator: str
    """Folder."""
    inputs: Tensors
    outputs: Tensors
    attrs: dict[str, int]
    reads: int
    """Bytes that must be read, as docs/ascend-cost.md says what that is ..."""
    writes: int
    """... and written."""


@dataclass(frozen=True)
class Step:
    """The calls of a step in their order, and what they have to do."""

    calls: list[Call]
    hit_rate: float
    """Of entries, where the step before left its records."""
    copied: int
    """Records that the step puts there."""

    @classmethod
    def make(cls, calls: list[Call], kind: Tensor, copied: Tensor) -> "Step":
        rate = (kind == Kind.HIT).sum() / (kind != Kind.EMPTY).sum()
        return cls(calls, rate.item(), int(copied.sum()))


def selections() -> Tensor:
    """Draw what is selected, [STEPS, LANES, QUERIES, TOP_K] int32."""
    tokens = KEPT * (STEPS - 1) + QUERIES
    shape = Shape(steps=tokens, context=CONTEXT - tokens + 1, top_k=TOP_K, lanes=LANES)
    each = torch.from_numpy(synthesize("stack", shape).ids())[:, 0, :, 0]
    steps = [each[KEPT * step :][:QUERIES].transpose(0, 1) for step in range(STEPS)]
    return torch.stack(steps)


def append_call() -> Call:
    """Append the last rows of every lane."""
    rows = torch.arange(LANES)[:, None] * CONTEXT + CONTEXT - QUERIES + torch.arange(QUERIES)
    inputs = {
        "part": records(LANES, QUERIES),
        "rows": rows.int(),
        "fresh": records(LANES, QUERIES),
        "backing": records(LANES * CONTEXT),
    }
    moved = LANES * QUERIES * ROW_BYTES
    reads = moved + inputs["rows"].nbytes
    return Call("dsa_append", inputs, {}, {"width": ROW_BYTES}, reads, 2 * moved)


def pool_step(policy: str, slots: int, selected: Tensor) -> Step:
    """Walk to the last step with pools of `slots` a lane."""
    sets = slots // WAYS[policy]
    tables = {
        "slot_of": ints(LANES, CONTEXT, fill=-1).short(),
        "id_at": ints(LANES, slots, fill=-1),
        "hand": ints(LANES, sets),
    }
    if policy == "clock":
        tables["visited"] = torch.zeros(LANES, sets, 1, dtype=torch.int64)
    counters, place = counts(), getattr(OPS, f"place_{policy.replace('-', '_')}")
    for step, ids in enumerate(selected):
        before = {name: table.clone() for name, table in tables.items()}
        start, plan, placed = batch(step, ids), plan_outputs(), placement()
        OPS.plan(*start.values(), PAGE, tables["slot_of"], *plan.values(), counters)
        place(
            start["lanes"], *(plan[name] for name in PLANNED), 0, list(tables.values()),
            *placed.values(), counters,
        )  # fmt: skip
    calls = [
        _plan_call(start, before["slot_of"]),
        _commit_call(start, plan, before, tables, placed),
        _serve_call(start, plan, slots),
        _install_call(start, plan, slots, placed),
    ]
    return Step.make(calls, plan["kind"], placed["count"])


def _plan_call(start: Tensors, slot_of: Tensor) -> Call:
    inputs, plan = {**start, "slot_of": slot_of, "counters": counts()}, plan_outputs()
    reads = _batch_bytes(start) + distinct(start["ids"]) * slot_of.itemsize + counts().nbytes
    writes = total(plan) + counts().nbytes
    return Call("dsa_plan", inputs, plan, {"page": PAGE}, reads, writes)


def _commit_call(
    start: Tensors, plan: Tensors, before: Tensors, after: Tensors, placed: Tensors
) -> Call:
    clock = "visited" in before
    given = {name: plan[name] for name in PLANNED}
    inputs = {"lanes": start["lanes"], **given, **before, "counters": counts()}
    misses, tallies = int(plan["miss_count"].sum()), 2 * counts().itemsize
    hands = changed(before["hand"], after["hand"])
    reads = total({n: inputs[n] for n in ("lanes", "miss_count")}) + 4 * misses + tallies + hands
    reads += changed(before["id_at"], after["id_at"])  # who leaves
    if clock:
        reads += plan["kind"].nbytes + 4 * int((plan["kind"] == Kind.HIT).sum())
        reads += before["visited"].nbytes
    writes = total(placed) + tallies
    writes += sum(changed(table, after[name]) for name, table in before.items())
    attrs = {"policy": int(clock), "hashing": 0}
    return Call("dsa_commit", inputs, placement(), attrs, reads, writes)


def _serve_call(start: Tensors, plan: Tensors, slots: int) -> Call:
    inputs = {
        "lanes": start["lanes"],
        "kind": plan["kind"],
        "index": plan["index"],
        "fresh": records(LANES, QUERIES),
        "pool": records(LANES, slots),
        "backing": records(LANES * CONTEXT),
    }
    out = records(LANES, QUERIES, TOP_K)
    kind, index = plan["kind"], plan["index"]
    sources = distinct(torch.where(kind == Kind.HIT, index, -1)) + int((kind == Kind.MISS).sum())
    reads = total({n: inputs[n] for n in ("lanes", "kind", "index")}) + sources * ROW_BYTES
    return Call("dsa_serve", inputs, {"out": out}, {}, reads, out.nbytes)


def _install_call(start: Tensors, plan: Tensors, slots: int, placed: Tensors) -> Call:
    inputs = {
        "lanes": start["lanes"],
        "miss_from": plan["miss_from"],
        "miss_count": plan["miss_count"],
        "slot": placed["slot"],
        "selection": records(LANES, QUERIES, TOP_K),
        "pool": records(LANES, slots),
    }
    moved = int(placed["count"].sum()) * ROW_BYTES
    lists = total({n: inputs[n] for n in ("lanes", "miss_count")})
    lists += 2 * 4 * int(plan["miss_count"].sum())
    return Call("dsa_install", inputs, {}, {}, moved + lists, moved)


def gather_step(selected: Tensor) -> Step:
    """Walk to the last step with selections that stay in place: four steps tell as much as more."""
    id_at, row_of = ints(LANES, ENTRIES, fill=-1), ints(LANES, fill=-1)
    filled = ints(LANES, QUERIES)
    for step in range(STEPS - 4, STEPS):
        held = {"id_at": id_at.clone(), "row_of": row_of.clone()}
        start, plan, placed = batch(step, selected[step]), gather_outputs(), placement()
        counters = counts()
        OPS.plan_gather(*start.values(), PAGE, 0, False, id_at, row_of, *plan.values(), counters)
        place = [plan[name] for name in ("out_ids", "kind", "miss_from")]
        OPS.place_gather(start["lanes"], *place, 0, id_at, row_of, *placed.values(), counters)
        was, filled = filled, plan["length"]
    calls = [
        _gather_plan_call(start, held),
        _gather_place_call(start, plan, held, id_at),
        _gather_call(plan, was),
    ]
    return Step.make(calls, plan["kind"], plan["work_count"])


def _gather_plan_call(start: Tensors, held: Tensors) -> Call:
    inputs, plan = {**start, **held, "counters": counts()}, gather_outputs()
    reads = _batch_bytes(start) + total(held) + counts().nbytes
    attrs = {"page": PAGE, "first_row": 0, "across": False}
    return Call("gather_selection_plan", inputs, plan, attrs, reads, total(plan) + counts().nbytes)


def _gather_place_call(start: Tensors, plan: Tensors, held: Tensors, id_at: Tensor) -> Call:
    given = {"lanes": start["lanes"], "ids": plan["out_ids"], "kind": plan["kind"]}
    given |= {"miss_from": plan["miss_from"], "row_of": held["row_of"]}
    inputs, tally = {**given, "id_at": held["id_at"], "counters": counts()}, counts().itemsize
    writes = total(placement()) + changed(held["id_at"], id_at) + tally
    reads, attrs = total(given) + tally, {"first_row": 0}
    return Call("gather_selection_place", inputs, placement(), attrs, reads, writes)


def _gather_call(plan: Tensors, filled: Tensor) -> Call:
    given = {name: plan[name] for name in ("kind", "index", "length", "source", "work_count")}
    inputs = {
        **given,
        "work": plan["work"],
        "fresh": records(LANES, QUERIES),
        "backing": records(LANES * CONTEXT),
        "buffer": records(LANES, QUERIES, TOP_K),
        "filled": filled,
    }
    work = int(plan["work_count"].sum())
    sources = work - int((plan["kind"] == Kind.REPEAT).sum())
    reads = total(given) + filled.nbytes + 4 * work + sources * ROW_BYTES
    writes = work * ROW_BYTES + changed(filled, plan["length"])
    return Call("gather_selection_kv_cache", inputs, {}, {"first_row": 0}, reads, writes)


def batch(step: int, ids: Tensor) -> Tensors:
    """Inputs of planning, all lanes alike."""
    kv_len = CONTEXT - KEPT * (STEPS - 1 - step)
    lengths = {"kv_len": kv_len, "q_len": QUERIES, "stable": kv_len - QUERIES}
    pages = CONTEXT // PAGE
    return {
        "ids": ids.contiguous(),
        "lanes": torch.arange(LANES, dtype=torch.int32),
        **{name: ints(LANES, fill=length) for name, length in lengths.items()},
        "block_table": torch.arange(LANES * pages, dtype=torch.int32).view(LANES, pages),
    }


def _batch_bytes(start: Tensors) -> int:
    """Of a batch, the entries of the block table by those that a selected id needs."""
    pages = 4 * distinct(start["ids"] // PAGE)
    return pages + total({name: t for name, t in start.items() if name != "block_table"})


def plan_outputs() -> Tensors:
    """Outputs of planning, in the order of the operator."""
    each, every = (LANES, QUERIES, TOP_K), (LANES, ENTRIES)
    return {
        "out_ids": ints(*each),
        "kind": ints(*each).to(torch.int8),
        "index": ints(*each),
        "length": ints(LANES, QUERIES),
        "miss_id": ints(*every),
        "miss_from": ints(*every),
        "miss_count": ints(LANES),
    }


def gather_outputs() -> Tensors:
    """Outputs of planning in place, likewise."""
    work = {"source": ints(LANES), "work": ints(LANES, ENTRIES), "work_count": ints(LANES)}
    return plan_outputs() | work


def placement() -> Tensors:
    """Outputs of placement."""
    return {"slot": ints(LANES, ENTRIES), "count": ints(LANES)}


def ints(*shape: int, fill: int = 0) -> Tensor:
    """Int32 values."""
    return torch.full(shape, fill, dtype=torch.int32)


def counts() -> Tensor:
    """Fresh counters."""
    return torch.zeros(len(Counter), dtype=torch.int64)


def records(*shape: int) -> Tensor:
    """Rows with any contents."""
    return torch.empty(*shape, WIDTH, dtype=torch.bfloat16)


def distinct(values: Tensor) -> int:
    """Count what is different and not negative in each lane."""
    return sum(int((lane.unique() >= 0).sum()) for lane in values)


def changed(before: Tensor, after: Tensor) -> int:
    """Bytes of the elements that differ."""
    return int((before != after).sum()) * before.itemsize


def total(tensors: Tensors) -> int:
    """Bytes."""
    return sum(tensor.nbytes for tensor in tensors.values())
