"""Stock and tiered decoding agree, over a pairwise cover of everything that may matter."""

import itertools
from typing import NamedTuple

import pytest
import torch

from tierkv.config import make_registry
from tierkv.integrations.transformers import tiered_cache

TOP_K, TOKENS, LOOKUP_TOKENS, DRAFTS = 64, 6, 14, 3
MOST_RUNS = 60
OWN_PROMPT = 1000
"""Longest context that both caches compute themselves; a longer one starts from a stock cache."""
FACTORS = {
    "family": ["glm_moe_dsa", "deepseek_v32"],
    "scheme": ["glm52-indexshare", "dsv32-gather"],
    "context": [64, 1000, 4096],
    "batch": [1, 3],
    "padding": [0, 7, 300],
    "decoding": ["greedy", "lookup"],
    "pool": [1, 2, 8],
    "policy": make_registry().names("policy"),
    "tier": ["host", "file"],
}
Run = NamedTuple("Run", [(name, object) for name in FACTORS])


def allowed(run):
    """Transformers drafts for one row only; the gather scheme has a policy of its own."""
    own = run.scheme == "dsv32-gather"
    return (run.decoding == "greedy" or run.batch == 1) and (not own or run.policy == "last-step")


def pairs(run):
    return set(itertools.combinations(enumerate(run), 2))


def values(run):
    return {(name, getattr(run, name)) for name in FACTORS if name not in ("context", "policy")}


def choose(runs, parts):
    """Choose runs until all `parts` of any of them occur. Greedy, the first of equals."""
    left = {run: parts(run) for run in runs}
    missing, chosen = set().union(*left.values()), []
    while missing:
        best = max(left, key=lambda run: len(left[run] & missing))
        missing -= left.pop(best)
        chosen.append(best)
    return chosen


RUNS = list(filter(allowed, map(Run._make, itertools.product(*FACTORS.values()))))
COVER = choose(RUNS, pairs)
SHORT = [run for run in COVER if run.context <= OWN_PROMPT]
LOWEST = list(dict.fromkeys(choose(SHORT, values) + SHORT))[:6]
"""Run on the lowest supported release of transformers too."""


def test_cover():
    assert set().union(*map(pairs, COVER)) == set().union(*map(pairs, RUNS))
    assert len(COVER) <= MOST_RUNS
    for name, known in FACTORS.items():
        for value in known:
            assert sum(getattr(run, name) == value for run in COVER) >= 2
    assert set().union(*map(values, LOWEST)) == set().union(*map(values, RUNS))


@pytest.fixture(scope="session")
def expected(stock_of):
    """Give prompt and result of a stock run, each worked out once."""
    known = {}

    def give(run):
        key = run.family, run.context, run.batch, run.padding, run.decoding
        if key not in known:
            stock = stock_of(run.family)
            lengths = [run.context, run.context * 3 // 4, run.context * 11 // 16][: run.batch]
            ids, mask, held = stock.batch(lengths, run.padding)
            held = stock.empty() if run.context <= OWN_PROMPT else held
            known[key] = ids, mask, stock.generate(ids, mask, held, **options(run))
        return known[key]

    return give


def options(run):
    if run.decoding == "greedy":
        return {"tokens": TOKENS}
    return {
        "tokens": LOOKUP_TOKENS, "prompt_lookup_num_tokens": DRAFTS, "max_matching_ngram_size": 3,
    }  # fmt: skip


def make(run, model, tokens):
    slots = tokens if run.policy == "unbounded" else run.pool * TOP_K
    config = {
        "scheme": run.scheme, "policy": run.policy, "backing": {"use": run.tier},
        "pool": {"slots": slots}, "debug": True,
    }  # fmt: skip
    queries = 1 + DRAFTS if run.decoding == "lookup" else 1
    return tiered_cache(model, config, batch=run.batch, max_tokens=tokens, queries=queries)


@pytest.mark.parametrize(
    "run",
    [pytest.param(run, marks=[pytest.mark.lowest] * (run in LOWEST)) for run in COVER],
    ids=lambda run: "-".join(map(str, run)),
)
def test_equals_stock(run, stock_of, expected):
    stock = stock_of(run.family)
    ids, mask, (tokens, logits) = expected(run)
    crops = []
    with make(run, stock.model, ids.shape[1] + options(run)["tokens"] + DRAFTS) as cache:
        crop = cache.crop
        cache.crop = lambda number: (crops.append(number), crop(number))
        if run.context > OWN_PROMPT:
            lengths = [int(row) for row in mask.sum(1)]
            cache.adopt(stock.batch(lengths, run.padding)[2])
        found = stock.generate(ids, mask, cache, attention="tierkv", **options(run))
        counts = cache.tiered.stats()
    assert torch.equal(found[0], tokens)
    torch.testing.assert_close(found[1], logits, atol=1e-5, rtol=0)
    assert counts.steps > 0
    if run.decoding == "lookup":
        assert len(crops) < LOOKUP_TOKENS, "no draft was accepted"
        assert min(crops) < 0, "no draft was rejected"
