"""Pages shared by prefix and by fork: copied when written, evicted when nobody holds them."""

import pytest
import torch

import tierkv

LAYOUT = tierkv.KVLayout(
    (tierkv.Part("kv", 8, torch.int32), tierkv.Part("key", 4, torch.int32, "device"))
)
SPEC = tierkv.ModelSpec.uniform("test", 8, [[0], [1, 2]], LAYOUT)
PAGE, LAYERS = 16, 3


@pytest.fixture(params=["host", "file"])
def cache(request):
    with load(request.param) as cache:
        yield cache


def load(tier="host", pages=24, **config):
    capacity = pages * PAGE * LAYOUT.stride * LAYERS
    settings = {
        "pool": {"slots": 64}, "policy": "lru",
        "backing": {"use": tier, "page": PAGE, "capacity": capacity}, **config,
    }  # fmt: skip
    return tierkv.load(settings, model=SPEC, lanes=4, max_tokens=pages * PAGE, queries=2)


def records(layer, tokens):
    """Rows that tell token and layer."""
    row = torch.tensor(tokens, dtype=torch.int32)[:, None] * 10 + layer
    return {"kv": row.expand(-1, 8).contiguous(), "key": row.expand(-1, 4).contiguous()}


def prefill(cache, request, tokens, start=0):
    for layer in range(LAYERS):
        cache.prefill(request, layer, records(layer, tokens[start:]), start=start)


def check(cache, request, tokens):
    for layer in range(LAYERS):
        found, wanted = cache.read(request, layer, 0, len(tokens)), records(layer, tokens)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def step(cache, lanes, kv_len, tokens):
    """Append one token a row; every layer selects the newest eight positions."""
    with cache.step(lanes, kv_len) as step:
        for layer in range(LAYERS):
            rows = [records(layer, [token]) for token in tokens]
            step.append(layer, {name: torch.stack([r[name] for r in rows]) for name in rows[0]})
            ids = torch.stack([torch.arange(n - 8, n, dtype=torch.int32) for n in kv_len])
            step.select(layer, None if layer == 2 else ids[:, None])


def test_a_prefix_is_matched_by_full_pages_and_leaves_a_token(cache):
    tokens = list(range(100, 148))  # three pages exactly
    cache.admit("a", tokens=tokens)
    assert cache.length("a") == 0
    prefill(cache, "a", tokens)
    used = cache.paging.used
    cache.admit("same", tokens=tokens)
    assert cache.length("same") == 32, "the last token is left to compute"
    cache.admit("longer", tokens=[*tokens, 7])
    assert cache.length("longer") == 48
    check(cache, "longer", tokens)
    cache.admit("other", tokens=[*tokens[:20], *range(40)])
    assert cache.length("other") == 16
    assert cache.paging.used == used, "nothing was copied"


def test_salts_and_exact_tokens_keep_prefixes_apart(cache):
    tokens = list(range(40))
    cache.admit("a", tokens=tokens, salt="tenant")
    prefill(cache, "a", tokens)
    for request, salt, other in (
        ("b", None, tokens),
        ("c", "tenant", [tokens[0] + 1, *tokens[1:]]),
    ):
        cache.admit(request, tokens=other, salt=salt)
        assert cache.length(request) == 0


def test_a_page_is_offered_only_once_every_layer_and_part_has_written_it(cache):
    tokens = list(range(40))
    cache.admit("a", tokens=tokens)
    for layer in range(LAYERS):
        rows = records(layer, tokens)
        cache.prefill("a", layer, {"kv": rows["kv"]})
        cache.admit(("kv", layer), tokens=tokens)
        assert cache.length(("kv", layer)) == 0
        cache.release(("kv", layer))
        cache.prefill("a", layer, {"key": rows["key"]})
    cache.admit("b", tokens=tokens)
    assert cache.length("b") == 32


def test_one_of_two_truncates_into_a_shared_page_and_goes_on(cache):
    tokens = list(range(200, 240))
    cache.admit("a", tokens=tokens)
    prefill(cache, "a", tokens)
    lane = cache.admit("b", tokens=tokens)
    prefill(cache, "b", tokens, start=32)
    cache.truncate("b", 20)
    step(cache, [lane], [21], [7])
    check(cache, "b", [*tokens[:20], 7])
    check(cache, "a", tokens)
    cache.release("a")
    check(cache, "b", [*tokens[:20], 7])
    cache.admit("c", tokens=tokens)
    assert cache.length("c") == 32, "an indexed page is never written"
    check(cache, "c", tokens[:32])


def test_forks_share_until_they_write_and_each_keeps_its_own(cache):
    tokens = list(range(300, 340))
    one = cache.admit("a")
    prefill(cache, "a", tokens)
    used = cache.paging.used
    other = cache.fork("a", "b")
    assert cache.paging.used == used
    step(cache, [one, other], [41, 41], [1, 2])
    assert cache.paging.used == used + 1, "the last page was copied, once"
    check(cache, "a", [*tokens, 1])
    check(cache, "b", [*tokens, 2])
    cache.release("a")
    check(cache, "b", [*tokens, 2])


def test_what_nobody_holds_is_evicted_by_last_use_and_never_a_held_page():
    cache = load(pages=6)
    texts = {name: list(range(start, start + 33)) for name, start in (("a", 0), ("b", 100))}
    for name, tokens in texts.items():
        cache.admit(name, tokens=tokens)
        prefill(cache, name, tokens)
        cache.release(name)
    assert cache.paging.used == 0
    cache.admit("a", tokens=texts["a"])  # used last
    cache.admit("big", reserve=4 * PAGE)  # needs b's pages
    assert cache.length("a") == 32
    check(cache, "a", texts["a"][:32])
    cache.release("big")
    cache.admit("b", tokens=texts["b"])
    assert cache.length("b") == 0
    with pytest.raises(tierkv.CapacityError, match=r"backing\.capacity"):
        cache.admit("bigger", reserve=5 * PAGE)
    check(cache, "a", texts["a"][:32])


def test_tokens_changed_after_admission_are_not_offered_under_the_prompt(cache):
    tokens = list(range(40))
    cache.admit("a", tokens=tokens)
    prefill(cache, "a", tokens[:12])
    cache.truncate("a", 10)
    prefill(cache, "a", [*tokens[:10], *range(70, 100)], start=10)
    cache.admit("b", tokens=tokens)
    assert cache.length("b") == 0


def test_a_named_page_keeps_its_tokens_when_its_writer_takes_them_back(cache):
    tokens = list(range(40))
    cache.admit("a", tokens=tokens)
    prefill(cache, "a", tokens[:20])
    cache.truncate("a", 10)
    prefill(cache, "a", [*tokens[:10], *range(70, 100)], start=10)
    cache.admit("b", tokens=tokens)
    assert cache.length("b") == 16
    check(cache, "b", tokens[:16])
    check(cache, "a", [*tokens[:10], *range(70, 100)])


def test_three_thousand_shared_tokens_lie_once():
    cache = load(pages=400)
    tokens = [number % 997 for number in range(3000)]
    for request in ("a", "b"):
        cache.admit(request, tokens=[*tokens, ord(request)])
        prefill(cache, request, [*tokens, ord(request)], start=cache.length(request))
    full = 3000 // PAGE
    assert cache.paging.used == full + 2 * 1
    cache.release("a")
    check(cache, "b", [*tokens, ord("b")])
