"""One decode, the same calls for every cache: lanes come and go, drafts are rejected."""

import functools
import random

import torch

import tierkv

TYPES = ["full", "shared", "full", "shared", "shared", "shared", "full", "shared"]
MODEL = {
    "family": "glm_moe_dsa", "dtype": "bfloat16", "num_hidden_layers": len(TYPES),
    "indexer_types": TYPES, "index_topk": 32, "index_n_heads": 2, "index_head_dim": 16,
    "kv_lora_rank": 64, "qk_rope_head_dim": 16,
}  # fmt: skip
"""GLM-5.2's shape, three groups of layers, its sizes reduced."""
GATHER = {
    "family": "deepseek_v32", "dtype": "bfloat16", "num_hidden_layers": 3, "index_topk": 32,
    "index_n_heads": 2, "index_head_dim": 16, "kv_lora_rank": 64, "qk_rope_head_dim": 16,
}  # fmt: skip
"""DeepSeek V3.2's, whose layers select each for itself."""
LANES, ROWS, SLOTS, TOKENS, STEPS = 4, 3, 128, 320, 50
OWNERS = [layer for layer, kind in enumerate(TYPES) if kind == "full"]


def make(device="npu:0", queries=1, **settings):
    """A cache; `settings` go over the scheme's."""
    operators = {"use": "ascendc"} if device == "npu:0" else {"use": "reference"}
    return tierkv.load(
        {"scheme": "glm52-indexshare", "model": MODEL, "ops": operators, "debug": False,
         "pool": {"slots": SLOTS}, "backing": {"page": 32}} | settings,
        device=device, lanes=LANES, max_tokens=TOKENS, queries=queries,
    )  # fmt: skip


def forward(step, new, ids):
    """Every layer of a model: what attention makes of [B, Q, K, stride] each, here its inverse.

    A mere clone is no computation to npugraph_ex, which gives the selection's buffer instead.
    """
    seen, cache = [], step.cache
    for layer, group in enumerate(cache.limits.spec.group_of):
        step.append(layer, new[layer])
        kv = step.select(layer, ids[group] if layer == cache.owner_of[layer] else None)
        seen.append(kv.records.bitwise_not())
    return seen


class Decode:
    """Drives a cache; random, but alike for the same `queries` and `seed`."""

    def __init__(self, cache, queries, seed=0):
        self.cache, self.queries, self.device = cache, queries, cache.limits.device
        self.random, self.bytes = random.Random(seed), torch.Generator().manual_seed(seed)
        self.stepper = cache.stepper(ROWS, queries)
        self.lane, self.length, self.drafts, self.number = {}, {}, {}, 0
        layouts = cache.limits.spec.layouts
        self.new = [
            {part.name: self._zeros(ROWS, queries, part.width, dtype=part.dtype)
             for part in layout.parts}
            for layout in layouts
        ]  # fmt: skip
        """What each layer appends, in static tensors."""
        top_k = cache.limits.spec.top_k
        groups = cache.limits.spec.groups
        self.ids = [self._zeros(ROWS, queries, top_k, dtype=torch.int32) for _ in groups]

    def _zeros(self, *shape, dtype):
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _rows(self, layer, *lead):
        """Random bytes for every part of a layer, on the CPU."""
        layout = self.cache.limits.spec.layouts[layer]
        return {
            part.name: torch.randint(
                0, 256, (*lead, part.nbytes), generator=self.bytes, dtype=torch.uint8
            ).view(part.dtype)
            for part in layout.parts
        }

    def admit(self):
        request, tokens = self.number, self.random.randint(1, 150)
        self.number += 1
        self.lane[request], self.length[request] = self.cache.admit(request), tokens
        self.drafts[request] = 0
        for layer in range(len(self.new)):
            self.cache.prefill(request, layer, self._rows(layer, tokens))

    def release(self, request):
        self.cache.release(request)
        del self.lane[request], self.length[request]

    def _come_and_go(self):
        for request in list(self.lane):
            if self.random.random() < 0.05 or self.length[request] + self.queries > TOKENS:
                self.release(request)
        while len(self.lane) < 2 or (len(self.lane) < LANES and self.random.random() < 0.3):
            self.admit()

    def _ids(self, kv_len):
        """Selections that mostly stay near the last ones; some name the future, or nothing."""
        ids = torch.full(self.ids[0].shape, -1, dtype=torch.int32)
        for row, stop in enumerate(kv_len):
            for query in range(self.queries):
                count = self.random.randint(0, min(stop + 4, ids.shape[2]))
                known = list(range(max(0, stop - 60), stop + 4)) * 3 + list(range(stop))
                chosen = list(dict.fromkeys(self.random.choices(known, k=count)))
                ids[row, query, : len(chosen)] = torch.tensor(chosen, dtype=torch.int32)
        return ids

    def begin(self):
        """Fill the static tensors and open a step."""
        self._come_and_go()
        rows = self.random.sample(sorted(self.lane), k=min(len(self.lane), ROWS))
        kv_len, q_len = [], []
        for request in rows:
            rejected = self.random.randint(0, self.drafts[request])
            live = self.random.randint(1, self.queries)
            self.length[request] += live - rejected
            self.drafts[request] = live - 1
            kv_len.append(self.length[request])
            q_len.append(live)
        padding = ROWS - len(rows)
        lanes = [self.lane[request] for request in rows] + [-1] * padding
        kv_len, q_len = kv_len + [0] * padding, q_len + [1] * padding
        for buffer in self.ids:
            buffer.copy_(self._ids(kv_len))
        for layer, parts in enumerate(self.new):
            for name, rows in self._rows(layer, ROWS, self.queries).items():
                parts[name].copy_(rows)
        return self.stepper.begin(lanes, kv_len, q_len)

    def steps(self, run=lambda step, decode: forward(step, decode.new, decode.ids), count=STEPS):
        """Make `count` steps; after each give what its layers read, on the CPU."""
        for _ in range(count):
            with self.begin() as step:
                seen = run(step, self)
            yield [records.cpu() for records in seen]

    def left_behind(self):
        """Tables, counters and resident records, on the CPU."""
        self.cache.installer.drain()
        kept, site = [site_counters(self.cache)], self.cache.site
        for group, policy in zip(self.cache.limits.spec.groups, site.policies, strict=True):
            tables = getattr(policy, "tables", [policy.id_at])
            resident = policy.id_at.cpu() >= 0
            kept += [table.cpu() for table in tables]
            if len(tables) > 1:
                kept += [site.pool_view(layer).cpu()[resident] for layer in group.layers]
        return kept


def site_counters(cache):
    return cache.site.counters.cpu()


def settings_of(policy):
    """Settings for a policy of a table, or for the fused gather, ``last-step``."""
    if policy == "last-step":
        return {"scheme": "dsv32-gather", "model": GATHER}
    ways = {"set-fifo": 16, "clock": 32}
    return {"policy": {"use": policy, "ways": ways[policy]} if policy in ways else {"use": policy}}


@functools.cache
def expected(queries, policy="set-fifo"):
    """What the reference reads in each step on the CPU, and what it leaves behind."""
    with make("cpu", queries, **settings_of(policy)) as cache:
        decode = Decode(cache, queries)
        return list(decode.steps()), decode.left_behind()


def equals_reference(cache, queries, policy="set-fifo", **how):
    """Drive `cache`; every selection, and what is left behind, must be the reference's."""
    wanted, behind = expected(queries, policy)
    decode = Decode(cache, queries)
    for number, seen in enumerate(decode.steps(**how)):
        for layer, records in enumerate(seen):
            assert torch.equal(records, wanted[number][layer]), f"step {number}, layer {layer}"
    if how.get("count", STEPS) == STEPS:
        for mine, yours in zip(decode.left_behind(), behind, strict=True):
            assert torch.equal(mine, yours)
    return decode
