"""Writes docs/policies.md and its pictures: every core policy on every trace. Takes some minutes.

    python docs/generate_policies.py

The text stands below; figures are measured anew.
"""

import platform
import time
from collections.abc import Iterator
from pathlib import Path

from tierkv.config import make_registry
from tierkv.ops import NATIVE, REFERENCE
from tierkv.replay import UNBOUNDED, Comparison, Contender, Measured, plot, sizes_of
from tierkv.replay.run import PolicyRun
from tierkv.trace import Trace, open_trace, speculate, synthesize

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "policies.md"
PICTURES = ROOT / "docs" / "policies"
REGISTRY = make_registry()
NAMES = [name for name, origin in REGISTRY.names("policy").items() if origin.startswith("tierkv ")]
LOW_BITS = ["set-fifo:hash=low-bits", "clock:hash=low-bits"]

SOURCES = {
    "arc": "Megiddo and Modha, FAST 2003",
    "clock": "Corbato, 1968, in sets of 64",
    "fifo": "",
    "last-step": "the DeepSeek V3.2 gather of CANN recipes",
    "lru": "Mattson et al., 1970",
    "s3-fifo": "Yang et al., SOSP 2023",
    "set-fifo": "the GLM-5.2 offload of CANN recipes, sets of 16",
    "set-lru": "two-choice hashing (Azar et al., STOC 1994), sets of 16",
    "sieve": "Zhang et al., NSDI 2024",
    "unbounded": "",
}

INTRO = """# Policies

Which policy, and how many slots? This page replays every policy of core on every trace that comes
with tierkv. It is generated, text, tables and pictures, by

```console
$ python docs/generate_policies.py
```

and one trace at a time, or one of your own, by

```console
$ tierkv trace synth stack stack.npz
$ tierkv replay stack.npz --plot stack.png
$ tierkv replay benchmarks/traces/smollm-topics.npz --policy clock --policy lru --slots 256,512
```

A hit rate is the share of selected entries that are in the pool when their step begins. `belady`
knows the future and keeps, after each step, what is selected soonest: no policy has a higher hit
rate per distinct id. `unbounded` never drops anything. What a step of several ids does to the
tables of a policy is written in [semantics.md](semantics.md). With one id a step `lru`, `fifo`,
`sieve`, `s3-fifo` and `clock` with `ways: all` are the classical algorithms, and hit exactly as
often as libCacheSim's (a test).

## What to choose

* **`clock`**, with its 64 ways, unless you know better: from four times the top-k on within half a
  point of `lru`, or above it, on every trace, at about the cost of FIFO. On a scan slightly larger
  than the pool (`cyclic`) FIFO is better than either.
* **`set-fifo`** is the published scheme of GLM-5.2 and the cheapest. For the same hit rate it wants
  half as many slots again as `clock`. Beware of `hash: low-bits`, published too, where selections
  have a stride: see `strided` below.
* **`lru`** and **`set-lru`** have what is left above `clock`, a tenth of a point or two, for two to
  three times its time a step. In pools of less than four selections they are clearly better.
* **`last-step`** is for pools of one selection and for the fused gather. More slots do not help it.
* **`sieve`**, **`s3-fifo`** and **`arc`** are made for traffic in which most objects are seen once,
  as on `zipf`. On the traces fitted to a large model they are one to two points below `lru`, and
  `sieve` by far more in its worst tenth of steps: a newcomer has to be hit before the hand comes
  by. On `smollm-topics` `s3-fifo` is a point above. Look at them where a trace of yours says so.
* **How many slots**: at least twice the distinct ids of a step. From four to eight times the top-k
  the curves are still steep.
"""

COSTS = """## What each costs

CPU time of plan and place for a step of 2048 ids of `stack` at 8192 slots, on one thread; tables of
one request of 67,335 tokens and one layer group, slot-of-id and id-of-slot included. {here}.

"""


def main() -> None:
    """Replay everything, then write."""
    PICTURES.mkdir(exist_ok=True)
    sections = list(_sections())
    costs = COSTS.format(here=_here()) + _costs(sections[0][1])
    text = [INTRO, costs, "## Traces\n", *(section for section, _ in sections)]
    PAGE.write_text("\n".join(text), encoding="utf-8")


def _here() -> str:
    kernels = "native operators" if NATIVE else "reference operators"
    return f"Measured on {platform.machine()}, {kernels}, {time.strftime('%Y-%m-%d')}"


def _traces() -> Iterator[tuple[str, str, Trace]]:
    for kind, about in (
        (
            "stack",
            "Fitted to the published figures of GLM-5.2 by LRU stack distance, with hot ids.",
        ),
        ("drift", "Fitted to the same figures by slowly changing scores."),
        ("strided", "`stack`, a quarter of each selection at multiples of 64."),
        ("switch", "`stack`, all ids shuffled every 300 steps."),
        ("cyclic", "A scan over 9216 ids: the worst case of every recency policy."),
        ("zipf", "Independent draws from Zipf's law."),
    ):
        trace = synthesize(kind).held()
        yield kind, about, trace
        if kind == "drift":
            drafts = "`drift` with one draft a step, 80 % of them accepted."
            yield "drift, 2 queries", drafts, speculate(trace, 2, 0.8).held()
    for path in sorted((ROOT / "benchmarks" / "traces").glob("*.npz")):
        trace = open_trace(path)
        about = f"Real attention of SmolLM2-135M, {trace.groups} layers, top {trace.top_k}."
        yield path.stem, about, trace


def _sections() -> Iterator[tuple[str, list[Measured]]]:
    for name, about, trace in _traces():
        names = NAMES + (LOW_BITS if name == "strided" else [])
        contenders = [Contender.parse(each, REGISTRY) for each in names]
        warmup = int(trace.meta.get("warmup", trace.steps // 3))
        ops = NATIVE or REFERENCE
        comparison = Comparison(trace, contenders, sizes_of(trace), ops, warmup, strict=False)
        found = list(comparison.measure())
        picture = PICTURES / f"{name.replace(', ', '-').replace(' ', '-')}.png"
        plot.plot(found, name, picture)
        source = trace.meta.get("source", "")
        words = f"{about} {trace.steps:,} steps, {warmup} of them warm-up. Source: {source}."
        image = f"![Hit rate over slots on {name}](policies/{picture.name})"
        yield f"### {name}\n\n{words}\n\n{image}\n\n{_table(found)}\n", found


def _table(found: list[Measured]) -> str:
    """Hit rate per entry, and in brackets what nine tenths of the steps reach."""
    sizes = sorted({m.slots for m in found if m.policy != UNBOUNDED})
    lines = [
        "| policy | " + " | ".join(f"{size:,}" for size in sizes) + " |",
        "| --- |" + " ---: |" * len(sizes),
    ]
    for name in dict.fromkeys(m.policy for m in found):
        cells = {m.slots: f"{100 * m.rate():.1f} ({100 * m.p10:.1f})" for m in found
                 if m.policy == name}  # fmt: skip
        row = [cells.get(size, "") for size in sizes]
        if name == UNBOUNDED:
            row = [*cells.values()] * len(sizes)
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    return "Hit rate in percent; in brackets the rate that nine tenths of the steps reach.\n\n" + (
        "\n".join(lines)
    )


def _costs(found: list[Measured]) -> str:
    lines = ["| policy | us a step | tables | source |", "| --- | ---: | ---: | --- |"]
    for name in NAMES:
        (one,) = (m for m in found if m.policy == name and m.slots in (8192, _positions(found)))
        how = "" if one.native else " (by operators, in Python)"
        nbytes = _tables(Contender.parse(name, REGISTRY), one.slots)
        cost = one.row(1)["us_per_step"]
        lines.append(f"| {name} | {cost:,.0f}{how} | {nbytes / 1024:,.0f} KiB | {SOURCES[name]} |")
    return "\n".join(lines) + "\n"


def _positions(found: list[Measured]) -> int:
    return next(m.slots for m in found if m.policy == UNBOUNDED)


def _tables(contender: Contender, slots: int) -> int:
    """Bytes for one request and group."""
    trace = synthesize("stack")
    return contender.component.footprint(
        contender.options, PolicyRun.check(contender, slots, trace)
    )


if __name__ == "__main__":
    main()
