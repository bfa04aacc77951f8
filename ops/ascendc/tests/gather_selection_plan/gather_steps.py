"""Steps of lanes whose selections stay in their buffers, on the reference and on the kernel."""

import random

import torch

from tierkv.constants import Counter
from tierkv.ops import REFERENCE

CORES = (1, 2, 5, 24, 48)
SMALL_K = (1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 100)
BIG = 2**31 - 1


def ints(*shape, fill=0, dtype=torch.int32):
    return torch.full(shape, fill, dtype=dtype)


class World:
    """Lanes that grow, shrink and change rows, and what they select.

    Parameters
    ----------
    fresh
        Share of a query's ids that the step before did not have.
    odd, twice
        Shares of ids that are no positions, or repeat another of the query.
    shuffled
        Whether lanes change rows now and then.
    settled
        Whether lanes keep one length, all pages are there, and what is selected is stable.
    """

    def __init__(self, seed, **given):
        self.rng = rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

        def choose(name, values):
            value = rng.choice(values)
            return given.get(name, value)

        self.lanes = choose("lanes", range(1, 9))
        self.rows = choose("rows", range(1, self.lanes + 1))
        self.most_queries = max(choose("most_queries", range(1, 5)), given.get("queries", 1))
        self.queries = choose("queries", range(1, self.most_queries + 1))
        self.top_k = choose("top_k", SMALL_K)
        self.page = choose("page", (16, 128, 256))
        self.pages = choose("pages", range(1, 5))
        self.fresh = choose("fresh", (0.0, 0.1, 0.5, 1.0))
        self.odd = choose("odd", (0.0, 0.02, 0.2))
        self.twice = choose("twice", (0.0, 0.0, 0.1, 0.5))
        self.shuffled = choose("shuffled", (False, True))
        self.settled = given.get("settled", False)
        self.context = self.page * self.pages
        self.first_row = rng.randint(0, self.lanes - self.rows)
        self.stable = [0] * self.lanes
        self.last = torch.full((self.lanes, self.queries, self.top_k), -1, dtype=torch.int32)
        places = (self.lanes, self.most_queries * self.top_k)
        self.state = {
            "id_at": ints(*places, fill=-1),
            "row_of": ints(self.lanes, fill=-1),
            "counters": torch.arange(len(Counter), dtype=torch.int64) << 40,
        }

    @property
    def shape(self):
        return self.rows, self.queries, self.top_k

    def draw(self, low, high, *shape):
        return torch.randint(low, high, shape, dtype=torch.int32, generator=self.generator)

    def chance(self, share, *shape):
        return torch.rand(shape, generator=self.generator) < share

    def step(self):
        """Give the inputs of one step, and `across`."""
        lanes = list(range(self.first_row, self.first_row + self.rows))
        if self.shuffled and self.rng.random() < 0.6:
            lanes = self.rng.sample([*range(self.lanes), *[-1] * self.rows], self.rows)
        kv_len, q_len, stable = [], [], []
        for lane in lanes:
            low = min(self.stable[max(lane, 0)], self.context - 1)
            kv_len.append(
                self.rng.choice([low, low + 1, self.rng.randint(low, self.context), self.context])
            )
            q_len.append(self.rng.randint(1, self.queries))
            stable.append(self.rng.randint(low, max(low, kv_len[-1] - q_len[-1])))
            if self.settled:
                kv_len[-1], q_len[-1] = self.context, self.queries
                stable[-1] = self.context - self.queries
            if lane >= 0:
                self.stable[lane] = stable[-1]
        pages = self.draw(0, 2 * self.rows * self.pages, self.rows, self.pages)
        pages[self.chance(0.0 if self.settled else 0.05, *pages.shape)] = -1
        batch = (torch.tensor(x, dtype=torch.int32) for x in (lanes, kv_len, q_len, stable))
        names = ("lanes", "kv_len", "q_len", "stable")
        inputs = {"ids": self.ids(lanes, kv_len), **dict(zip(names, batch, strict=True))}
        return {**inputs, "block_table": pages}, self.rng.random() < 0.5

    def ids(self, lanes, kv_len):
        ids = torch.empty(self.shape, dtype=torch.int32)
        for row, (lane, length) in enumerate(zip(lanes, kv_len, strict=True)):
            drawn = self.selection(max(length - self.settled * self.queries, 1))
            keep = ~self.chance(self.fresh, *drawn.shape) & (self.last[lane] >= 0)
            ids[row] = torch.where(keep, self.last[lane], drawn)
            order = torch.rand(ids[row].shape, generator=self.generator).argsort(-1)
            self.last[lane] = ids[row] = ids[row].gather(-1, order)
        strange = torch.tensor([-1, -7, -(2**31), BIG, BIG - 1, self.context, self.context - 1])
        odd = strange[self.draw(0, len(strange), *self.shape).long()].int()
        ids = torch.where(self.chance(self.odd, *self.shape), odd, ids)
        again = ids.gather(-1, self.draw(0, self.top_k, *self.shape).long())
        return torch.where(self.chance(self.twice, *self.shape), again, ids)

    def selection(self, length):
        """Draw ids below `length`, most of them once."""
        shape = (self.queries, self.top_k)
        if length < self.top_k:
            return self.draw(0, length + 2, *shape)
        return torch.stack(
            [
                torch.randperm(length, generator=self.generator)[: self.top_k]
                for _ in range(shape[0])
            ]
        ).int()

    def outputs(self):
        flat = (self.rows, self.queries * self.top_k)
        return {
            "out_ids": ints(*self.shape),
            "kind": ints(*self.shape, dtype=torch.int8),
            "index": ints(*self.shape),
            "length": ints(self.rows, self.queries),
            "miss_id": ints(*flat),
            "miss_from": ints(*flat),
            "miss_count": ints(self.rows),
            "source": ints(self.rows),
            "work": ints(*flat),
            "work_count": ints(self.rows),
        }

    def reference(self, inputs, across):
        out, state = self.outputs(), self.state
        REFERENCE.plan_gather(
            *inputs.values(), self.page, self.first_row, across, state["id_at"], state["row_of"],
            *out.values(), state["counters"],
        )  # fmt: skip
        return {**out, "counters": state["counters"]}

    def place(self, inputs, plan):
        """Let the plan's places be known to the next step."""
        flat = (self.rows, self.queries * self.top_k)
        names = ("out_ids", "kind", "miss_from")
        REFERENCE.place_gather(
            inputs["lanes"], *(plan[name] for name in names), self.first_row, self.state["id_at"],
            self.state["row_of"], ints(*flat), ints(self.rows), self.state["counters"],
        )  # fmt: skip

    def forget(self, step):
        """Truncate a lane, as requests do between steps."""
        lane, start = step % self.lanes, self.rng.choice([0, 5])
        held = self.state["id_at"][lane]
        held[held >= start] = -1


def run(kernel, world, inputs, across, state, **options):
    out = world.outputs()
    attrs = {"page": world.page, "first_row": world.first_row, "across": across}
    report = kernel.run({**inputs, **state}, out, attrs, **options)
    return report, {**out, "counters": state["counters"]}


def check(kernel, world, steps, **options):
    """Run some steps; gives the largest peak of UB."""
    peak = 0
    for step in range(steps):
        inputs, across = world.step()
        state = {name: tensor.clone() for name, tensor in world.state.items()}
        report, got = run(kernel, world, inputs, across, state, **options)
        assert not report.faults, f"step {step}: {report.faults[0]}"
        known = world.reference(inputs, across)
        for name, wanted in known.items():
            assert torch.equal(got[name], wanted), (
                f"step {step}: {name}\n{got[name].tolist()}\nnot\n{wanted.tolist()}"
            )
        world.place(inputs, known)
        if step % 3 == 2:
            world.forget(step)
        peak = max(peak, report.ub_peak)
    assert peak < 192 * 1024
    return peak
