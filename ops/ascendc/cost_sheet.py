"""Writes docs/ascend-cost.md: the work of every operator in one step, counted by the core model.

    python ops/ascendc/cost_sheet.py

The text stands below; figures are counted anew. Nothing is random but by seed, nothing is timed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cost_steps import WAYS, Call, append_call, gather_step, pool_step, selections
from hostsim import Costs, Kernel, Report
from torch import Tensor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ascend-cost.md"
CORES = 48
LAYERS = 4
"""Of a group."""
POOLS = [(policy, slots) for slots in (8192, 16384) for policy in WAYS]

INTRO = """# Cost of the AscendC operators

What each operator of `ops/ascendc` does in one step. **These are counts of a model of the vector
cores, `ops/ascendc/hostsim`. Nothing here was run on an NPU, and no time was measured:** how long a
burst or a scalar operation takes, and what overlaps, the model does not know. The page is
generated, text and figures, by

```console
$ python ops/ascendc/cost_sheet.py
```

The step is one of GLM-5.2's at the size of production: 4 lanes of 64K tokens, 4 queries of 2,048
ids each, records of 1,152 bytes in bf16, pages of 128, 48 cores; `set-fifo` with 16 ways and
`clock` with 64, P slots a lane, all taken. Selections are the trace `stack` of
[traces.md](traces.md), which is fitted to published figures of that model; of the 4 tokens that a
step decodes 3 stay. `DsaAppend`, `DsaServe`, `DsaInstall` and `GatherSelectionKvCache` run once a
layer, the others once a group of layers. Whole records are one tensor here; where they are split
into parts, the operators that run once a layer run for each part.

What such a step finds:

| pool | entries that hit | records to copy |
| --- | ---: | ---: |
"""

WORK = """
## Work

* *scalar*: the accesses of the scalar unit to memory (GetValue, SetValue), flags, barriers,
  SyncAll, and what it issues to other units. Its arithmetic and branches are not seen. Of all cores
  together, and of the core that has most.
* *vector*: instructions, and the bytes of their results.
* *flags*: SetFlag and WaitFlag. *SyncAll*: how often all cores wait for each other.
* *UB*: the unified buffer of the fullest core, which has 192 KiB.

| operator | pool | cores | scalar | one core | vector | KiB | flags | barriers | SyncAll | UB KiB |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""

BYTES = """
## Bytes

MTE2 copies into the cores, MTE3 out of them; a burst is one block of a copy. The few values that
the scalar unit reads from global memory itself are not in them. *Least* is what an operator cannot
do without:

* read: the arguments of the batch; of lists, what is not padding; every record that is asked for,
  once, by how many queries it may be; of tables that stay, only what the result depends on: of
  `slot_of` an entry for each id that a lane selects, of block tables one for each page of those, of
  `id_at` one for each slot that gets another id, of `hand` one for each set whose hand moves,
  `visited` in full, and `id_at` of the fused gather in full;
* written: outputs in full, with their padding; of tables that stay, the entries whose value
  changes; a record for each place that gets one.

| operator | pool | MTE2 KiB | least | ratio | bursts | MTE3 KiB | least | ratio | bursts |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""

REASONS = """
Where more moves than must:

* `DsaServe` reads a record from the pool for every query that asks for it. From the backing it is
  read once: what queries share does not cross the link to the host twice.
* `DsaPlan`, `DsaCommit` and `GatherSelectionPlan` bring whole tables in bursts, for the vector
  unit: `slot_of` of a lane once a query, a row's hits to every core that counts different ones, its
  misses (under `clock`, its whole plan) to every core that has some of its sets. Entry by entry,
  each would be an access of the scalar unit. What cores tell each other goes through workspace. All
  of it is far less than the records that `DsaServe` moves, once a layer.
* In the fused gather every query has its own buffer. A record that several miss is read from
  backing once, and copied from there to the other places.
* `DsaAppend` reads a row for each of its two targets.
"""

GROUP = f"""
## Placement once a group

The selection of one indexer serves a group of {LAYERS} layers, whose pools hold the same ids.
`DsaCommit` places once, `DsaInstall` copies in each layer. The alternative is a kernel that finds
the victims anew in each layer, then copies: the work of `DsaCommit` {LAYERS} times, and the same
installs. It is given the list of different misses, which `DsaPlan` makes once a group, for nothing.
All figures are scalar operations; the second ratio takes, of each operator, the core that has most.

| pool | commit | install | once a group | in every layer | ratio | one core | at most 1/3 |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""

PARTS = """
Placement alone is a quarter. The installs are the same on both sides: the whole is at most a third
only where an install takes no more than an eighth of a commit. These operations are

| operator | pool | copies issued | vector issued | UB accesses | GM accesses | order | a record |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

VERDICT = """
where *order* is flags, barriers and SyncAll, and the last column is all of them by the records that
are installed.

* With `clock` the ratios are {clock}, below a third. A commit marks what is hit, entry by
  entry.
* With `set-fifo` they are {fifo}, **above a third**. Hits cost nothing there, so a commit is
  little more than its misses, a few operations each, and an install is a copy in and a copy out of
  each. Even an install that did nothing but issue these copies would give {floor}.
"""


@dataclass(frozen=True)
class Counted:
    """A call, and what the model counted."""

    name: str
    pool: str
    call: Call
    report: Report

    @classmethod
    def make(cls, call: Call, pool: str) -> "Counted":
        """Run the call.

        Raises
        ------
        RuntimeError
            If the model finds a fault.
        """
        kernel = Kernel(call.operator)
        report = kernel.run(call.inputs, call.outputs, call.attrs, CORES)
        if report.faults:
            raise RuntimeError(f"{call.operator}: {report.faults[0]}")
        return cls(kernel.definition["name"], pool, call, report)

    def total(self, what: Callable[[Costs], int]) -> int:
        """Sum over cores."""
        return sum(map(what, self.report.costs))

    @property
    def scalar(self) -> int:
        return self.total(lambda core: core.scalar)

    @property
    def most(self) -> int:
        """Scalar operations of the core that has most."""
        return max(core.scalar for core in self.report.costs)

    @property
    def copies(self) -> int:
        return self.total(lambda core: sum(core.pipes[p].instructions for p in ("MTE2", "MTE3")))

    def work(self) -> str:
        """Row of the table of work."""
        return row(
            self.name, self.pool, self.report.tiling.blocks, self.scalar, self.most,
            self.total(lambda core: core.pipes["V"].instructions),
            kib(self.total(lambda core: core.pipes["V"].bytes)),
            self.total(lambda core: core.flags), self.total(lambda core: core.barriers),
            max(core.syncs for core in self.report.costs), kib(self.report.ub_peak),
        )  # fmt: skip

    def bytes(self) -> str:
        """Row of the table of bytes."""
        cells: list[str | int] = []
        for pipe, least in (("MTE2", self.call.reads), ("MTE3", self.call.writes)):
            costs = [core.pipes[pipe] for core in self.report.costs]
            moved = sum(cost.bytes for cost in costs)
            bursts = sum(cost.bursts for cost in costs)
            cells += [kib(moved), kib(least), f"{moved / least:.2f}", bursts]
        return row(self.name, self.pool, *cells)

    def parts(self, records: int) -> str:
        """Row of the table that takes scalar work apart."""
        return row(
            self.name, self.pool, self.copies,
            self.total(lambda core: core.pipes["V"].instructions),
            self.total(lambda core: core.ub_scalar + core.other_scalar),
            self.total(lambda core: core.gm_scalar),
            self.total(lambda core: core.flags + core.barriers + core.syncs),
            f"{self.scalar / records:.1f}",
        )  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Placement of a pool, and one layer's install."""

    commit: Counted
    install: Counted

    def row(self) -> str:
        """Row of the comparison."""
        commit, install = self.commit.scalar, self.install.scalar
        one_core = ratio(self.commit.most, self.install.most)
        reached = "yes" if self.ratio <= 1 / 3 else "no"
        return row(
            self.commit.pool, commit, install, commit + LAYERS * install,
            LAYERS * (commit + install), f"{self.ratio:.3f}", f"{one_core:.3f}", reached,
        )  # fmt: skip

    @property
    def ratio(self) -> float:
        return ratio(self.commit.scalar, self.install.scalar)

    @property
    def floor(self) -> float:
        """The ratio if an install did nothing but issue its copies."""
        return ratio(self.commit.scalar, self.install.copies)


def ratio(commit: int, install: int) -> float:
    """Placing once, by placing in every layer."""
    return (commit + LAYERS * install) / (LAYERS * (commit + install))


def label(policy: str, slots: int) -> str:
    """Name a pool."""
    return f"{policy}, P {slots}"


def document(selected: Tensor) -> str:
    """Count everything; gives the page."""
    steps = {label(*pool): pool_step(*pool, selected) for pool in POOLS}
    steps["fused gather"] = gather_step(selected)
    counted = {
        pool: [Counted.make(call, pool) for call in step.calls] for pool, step in steps.items()
    }
    in_place = counted.pop("fused gather")
    by_operator = list(zip(*counted.values(), strict=True))
    every = [Counted.make(append_call(), "any"), *chain(*by_operator), *in_place]
    _, commits, _, installs = by_operator
    groups = [Group(*each) for each in zip(commits, installs, strict=True)]
    found = (row(pool, f"{100 * step.hit_rate:.1f} %", step.copied) for pool, step in steps.items())
    parts = (each.parts(steps[each.pool].copied) for each in (*commits, *installs))
    return "".join(
        [
            INTRO, *found, WORK, *(each.work() for each in every), BYTES,
            *(each.bytes() for each in every), REASONS, GROUP, *(group.row() for group in groups),
            PARTS, *parts, verdict(groups),
        ]
    )  # fmt: skip


def verdict(groups: Sequence[Group]) -> str:
    """Say how the comparison comes out.

    Raises
    ------
    RuntimeError
        If it does not come out as the text has it.
    """
    fifo, clock = ([g for g in groups if g.commit.pool.startswith(name)] for name in WAYS)
    values = {
        "clock": [group.ratio for group in clock],
        "fifo": [group.ratio for group in fifo],
        "floor": [group.floor for group in fifo],
    }
    if not max(values["clock"]) <= 1 / 3 < min(values["floor"]):
        raise RuntimeError(f"the text says otherwise: {values}")
    return VERDICT.format(
        **{name: " and ".join(f"{x:.3f}" for x in each) for name, each in values.items()}
    )


def row(*cells: str | int) -> str:
    """Make a row of a table."""
    texts = (cell if isinstance(cell, str) else f"{cell:,}" for cell in cells)
    return f"| {' | '.join(texts)} |\n"


def kib(count: int) -> str:
    """Bytes in KiB, to a tenth where that tells something."""
    return f"{count / 1024:,.0f}" if count >= 100 << 10 else f"{count / 1024:,.1f}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(document(selections()), encoding="utf-8")


if __name__ == "__main__":
    main()
