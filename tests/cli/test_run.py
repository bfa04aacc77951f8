import json
import sys
from importlib import metadata

import attrs
import pytest

pytest.importorskip("transformers")

KEYS = {
    "tokens_equal", "max_logit_diff", "hit_rate", "groups", "device_kv_bytes", "stock_kv_bytes",
    "bytes_fetched_per_step", "misses_per_step", "ms_per_step", "stock_ms_per_step",
}  # fmt: skip
TINY = """
scheme: glm52-indexshare
pool: {slots: 32}
model:
  num_hidden_layers: 4
  index_topk: 16
  hidden_size: 64
  q_lora_rank: 32
  intermediate_size: 64
  first_k_dense_replace: 4
  num_attention_heads: 4
  num_key_value_heads: 4
  vocab_size: 128
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


@pytest.mark.parametrize("batch", [1, 2])
def test_json(invoke, tiny, batch):
    result = invoke("run", tiny, "--context", 80, "--tokens", 6, "--batch", batch, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""  # no bar in a pipe
    report = json.loads(result.output)
    assert set(report) >= KEYS
    assert report["tokens_equal"] is True
    assert report["max_logit_diff"] < 1e-5
    assert report["steps"] == 6
    assert report["batch"] == batch
    assert 0 < report["hit_rate"] < 1
    assert [group["layers"] for group in report["groups"]] == [[0], [1], [2, 3]]
    assert report["bytes_fetched_per_step"] > 0


def test_people_get_words(invoke, tiny):
    result = invoke("run", tiny, "--context", 80, "--tokens", 3)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[-1] == "tokens equal: yes"
    for words in ("hit rate", "misses a step", "device KV", "decode step", "logit difference"):
        assert words in result.output


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("seed: abc", ("model.seed: ", "'abc'", "a whole number of at least 0")),
        ("hidden_size: abc", ("model: transformers refuses it", "hidden_size", "'abc'")),
        ("vocab_size: -5", ("model: transformers refuses it", "-5", "'glm_moe_dsa'")),
        ("family: deepseek_v32", ("model.kv_lora_rank: is missing",)),
    ],
)
def test_a_model_that_cannot_be_built(invoke, tiny, line, parts):
    key, _, _ = line.partition(":")
    kept = [old for old in TINY.splitlines() if not old.startswith(f"  {key}:")]
    tiny.write_text("\n".join([*kept, f"  {line}\n"]))
    result = invoke("run", tiny)
    assert result.exit_code == 2
    (fault,) = result.stderr.splitlines()
    for part in parts:
        assert part in fault


@pytest.mark.parametrize("more", ["backing: file", "policy: lru", "policy: clock"])
def test_other_parts(invoke, tiny, more):
    tiny.write_text(f"{TINY.replace('slots: 32', 'slots: 64')}\n{more}\n")
    assert invoke("run", tiny, "--context", 80, "--tokens", 3).exit_code == 0


@pytest.fixture
def outcome(monkeypatch):
    """Let the comparison come out as told."""
    compare = pytest.importorskip("tierkv.integrations.transformers.compare")

    def pretend(**fields):
        group = {"layers": [0, 1], "hit_rate": 0.5, "hits_per_step": 1.0, "misses_per_step": 1.0,
                 "fetched_per_step": 1.0}  # fmt: skip
        values = {"groups": [group]}
        for field in attrs.fields(compare.Comparison):
            values.setdefault(field.name, fields.get(field.name, 1))
        made = compare.Comparison(**values)
        monkeypatch.setattr(compare, "compare", lambda config, **_: made)

    return pretend


def test_other_tokens_exit_with_1(invoke, tiny, outcome):
    outcome(tokens_equal=False)
    result = invoke("run", tiny)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "tokens equal: no"
    result = invoke("run", tiny, "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["tokens_equal"] is False


def test_without_a_file_it_takes_the_default_scheme(invoke, outcome, monkeypatch):
    outcome(tokens_equal=True)
    seen = []
    compare = sys.modules["tierkv.integrations.transformers.compare"]
    stub = compare.compare
    monkeypatch.setattr(
        compare, "compare", lambda config, **more: seen.append((config, more)) or stub(config)
    )
    assert invoke("run").exit_code == 0
    ((config, more),) = seen
    assert config.general.scheme == "glm52-indexshare"
    assert config.general.max_tokens == 4096 + 32
    assert (more["context"], more["tokens"], more["batch"]) == (4096, 32, 1)


@pytest.mark.parametrize("installed", [None, "5.17.0"])
def test_without_its_extra_it_says_what_to_install(invoke, tiny, monkeypatch, installed):
    for name in [name for name in sys.modules if name.startswith("tierkv.integrations.trans")]:
        monkeypatch.delitem(sys.modules, name)
    real = metadata.version

    def version(name):
        if name != "transformers":
            return real(name)
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(metadata, "version", version)
    result = invoke("run", tiny)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("transformers: ")
    assert "pip install 'tierkv[transformers]'" in line


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    from tierkv.cli.output import progress

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("prefill", "decode") as report:
        report("prefill", 1, 2)
        report("decode", 3, 3)
    assert "prefill" in capsys.readouterr().err
