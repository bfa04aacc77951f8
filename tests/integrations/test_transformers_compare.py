"""The comparison that ``tierkv run`` makes, and what it is made of."""

import attrs
import pytest
import torch

from tierkv import ConfigError
from tierkv import config as configuration
from tierkv.errors import LibraryError
from tierkv.integrations.transformers import build_model, compare, library, tiered_cache
from tierkv.integrations.transformers.passes import Decode

SMALL = {"num_hidden_layers": 4, "first_k_dense_replace": 4, "index_topk": 32, "kv_lora_rank": 64}


@pytest.mark.parametrize("scheme", ["glm52-indexshare", "dsv32-gather"])
def test_compare(scheme):
    config = configuration.read({"scheme": scheme, "pool": {"slots": 64}, "model": SMALL})
    calls = []
    result = compare(
        config, context=200, tokens=5, batch=2, on_progress=lambda *call: calls.append(call)
    )
    assert result.tokens_equal
    assert result.max_logit_diff < 1e-5
    assert (result.steps, result.context, result.batch) == (5, 200, 2)
    assert [layer for group in result.groups for layer in group["layers"]] == [0, 1, 2, 3]
    owners = len(result.groups)
    assert result.stock_kv_bytes == 2 * 205 * 4 * (4 * (64 + 64) + owners * 64)
    assert 0 < result.device_kv_bytes < result.stock_kv_bytes
    assert 0 < result.hit_rate < 1
    assert result.misses_per_step == sum(group["misses_per_step"] for group in result.groups)
    fetched = sum(group["fetched_per_step"] * len(group["layers"]) for group in result.groups)
    assert result.bytes_fetched_per_step == pytest.approx(fetched * 4 * (64 + 64))
    assert min(result.ms_per_step, result.stock_ms_per_step) > 0
    assert ("prefill", 200, 200) in calls
    assert calls[-1] == ("decode", 5, 5)


def test_difference_is_seen(monkeypatch):
    """A cache that serves wrong records is found out."""
    config = configuration.read(
        {"scheme": "glm52-indexshare", "pool": {"slots": 64}, "model": SMALL}
    )
    select = Decode.select

    def wrong(self, layer, mask, ids):
        selection = select(self, layer, mask, ids)
        selection["nope"].mul_(-1)
        return selection

    monkeypatch.setattr(Decode, "select", wrong)
    result = compare(config, context=100, tokens=3)
    assert not result.tokens_equal
    assert result.max_logit_diff > 1e-3


def test_model_is_needed():
    config = configuration.read({"scheme": "glm52-indexshare"})
    with pytest.raises(ConfigError, match="model: is missing"):
        compare(attrs.evolve(config, model=None))


def test_model_is_the_same_each_time():
    mapping = configuration.read({"scheme": "glm52-indexshare", "model": SMALL}).model
    before = torch.get_rng_state()
    one, two = (build_model(mapping, 64).state_dict() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "glm_moe_das"}, "model: transformers refuses it"),
        ({"hidden_size": "many"}, "model: transformers refuses it"),
        ({"dtype": "float33"}, "model.dtype: unknown dtype, got 'float33'"),
    ],
)
def test_models_that_cannot_be(change, words):
    mapping = configuration.read({"scheme": "glm52-indexshare", "model": SMALL}).model
    with pytest.raises(ConfigError, match=words) as found:
        build_model({**mapping, **change}, 64)
    assert len(str(found.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("version", "words"), [("4.57.1", "5.18 and below 6"), (None, "installed")]
)
def test_unsupported_release(monkeypatch, version, words):
    def find(name):
        if version is None:
            raise library.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(library.metadata, "version", find)
    with pytest.raises(LibraryError, match=words) as found:
        library._installed()
    assert isinstance(found.value, ImportError)


def test_configuration_forms(stock, tmp_path):
    """A file, a mapping and a checked configuration give the same."""
    path = tmp_path / "small.yaml"
    path.write_text("scheme: glm52-indexshare\npool: {slots: 64}\nqueries: 3\nlanes: 5\n")
    mapping = {"scheme": "glm52-indexshare", "pool": {"slots": 64}, "queries": 3, "lanes": 5}
    for config in (path, mapping, configuration.read(path)):
        with tiered_cache(stock.model, config, batch=2, max_tokens=100) as cache:
            limits = cache.tiered.limits
            assert (limits.lanes, limits.max_tokens, limits.queries) == (2, 100, 3)
            assert limits.spec.layouts[0].tiered[0].dtype == torch.float32


def test_refused_configuration_leaves_the_model_alone(stock):
    stock.model.set_attn_implementation("sdpa")
    with pytest.raises(ConfigError):
        tiered_cache(stock.model, {"scheme": "glm52-indexshare", "pool": {"slots": 65}})
    assert stock.model.config._attn_implementation == "sdpa"
