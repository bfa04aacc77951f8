"""``tierkv trace``, and what ``tierkv run`` does with traces."""

import json
from pathlib import Path

import numpy as np
import pytest

from tierkv.cli.trace import KINDS
from tierkv.trace import MODELS, Trace, open_trace

TRACES = sorted((Path(__file__).parents[2] / "benchmarks" / "traces").glob("smollm-*.npz"))
SMALL = """
scheme: glm52-indexshare
model:
  family: glm_moe_dsa
  num_hidden_layers: 5
  hidden_size: 64
  intermediate_size: 64
  moe_intermediate_size: 32
  num_attention_heads: 2
  num_key_value_heads: 2
  n_routed_experts: 4
  n_shared_experts: 1
  num_experts_per_tok: 2
  first_k_dense_replace: 5
  vocab_size: 100
  q_lora_rank: 32
  kv_lora_rank: 32
  qk_rope_head_dim: 16
  qk_nope_head_dim: 16
  v_head_dim: 16
  index_topk: 16
  index_n_heads: 32
  index_head_dim: 64
  seed: 1
pool: {slots: 64}
"""


def test_the_commands_choices_are_the_models():
    assert set(MODELS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_synth_and_info(invoke, tmp_path, kind):
    path = tmp_path / "a.npz"
    sizes = ("--steps", 20, "--context", 10_000, "--top-k", 100, "--groups", 2, "--seed", 5)
    made = json.loads(invoke("trace", "synth", kind, path, *sizes, "--json").output)
    assert made["bytes"] == path.stat().st_size
    told = json.loads(invoke("trace", "info", path, "--json").output)
    assert told["meta"] == made["meta"]
    assert (told["steps"], told["groups"], told["top_k"]) == (20, 2, 100)
    assert told["kv_len"] == [10_000, 10_019]
    assert len(told["by_group"]) == 2
    assert told["meta"]["seed"] == 5


def test_people_get_words(invoke, tmp_path):
    path = tmp_path / "a.npz"
    result = invoke("trace", "synth", "zipf", path, "--steps", 5, "--top-k", 10)
    assert result.exit_code == 0
    assert result.output.startswith(f"{path}: 5 steps of 10 ids, 1 groups, 1 lanes, ")
    result = invoke("trace", "info", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "of the ids were in the query before" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("info", "none.npz"), "none.npz: cannot be read, No such file or directory"),
        (("info", __file__), "is no trace, damaged or cut short"),
        (("synth", "stack", "a.npz", "--context", 9), "trace stack, context: must be at least"),
        (("synth", "stak", "a.npz"), "'stak' is not one of 'stack'"),
        (("synth", "zipf", "none/a.npz", "--steps", 1), "cannot be written"),
        (("smollm", "a.npz", "--text", "none.txt"), "--text: cannot be read, No such file"),
        (("record", "a.npz", "none.yaml"), "none.yaml: cannot be read"),
    ],
)
def test_a_fault_is_one_line(invoke, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "smollm":
        pytest.importorskip("transformers")
    result = invoke("trace", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_traces_of_real_attention(invoke, path):
    told = json.loads(invoke("trace", "info", path, "--json").output)
    assert (told["groups"], told["top_k"]) == (30, 128)
    assert told["kv_len"][0] > 6000
    assert 0.5 < told["previous"] < 0.8
    assert told["meta"]["source"] == "smollm"


def test_there_are_two_of_them_and_they_are_small():
    assert len(TRACES) == 2
    assert sum(path.stat().st_size for path in TRACES) < 4 << 20


class TestForce:
    @pytest.fixture(autouse=True)
    def config(self, tmp_path, monkeypatch):
        pytest.importorskip("transformers")
        monkeypatch.chdir(tmp_path)
        Path("small.yaml").write_text(SMALL)

    def save(self, lanes=1):
        """Eight tokens after 99, each with ids of its own."""
        random = np.random.default_rng(0)
        ids = np.full((8, 2, lanes, 1, 24), -1, np.int32)
        for place in np.ndindex(8, 2, lanes):
            ids[place][0, :20] = random.permutation(99)[:20]
        kv_len = np.repeat(np.arange(100, 108, dtype=np.int32)[:, None], lanes, axis=1)
        Trace.from_arrays(ids, kv_len).save("forced.npz")
        return ids

    def test_what_is_forced_is_what_is_recorded(self, invoke):
        ids = self.save(lanes=2)
        result = invoke("run", "small.yaml", "--force", "forced.npz", "--batch", 2, "--record",
                        "recorded.npz", "--json")  # fmt: skip
        assert result.exit_code == 0, result.output
        outcome = json.loads(result.output)
        assert outcome["tokens_equal"]
        assert (outcome["context"], outcome["steps"]) == (99, 8)
        trace = open_trace("recorded.npz")
        assert trace.meta["dropped"] == 0
        recorded = trace.ids()
        assert recorded.shape[-1] == 24
        for step, group, lane in np.ndindex(8, recorded.shape[1], 2):
            row = recorded[step, group, lane, 0]
            np.testing.assert_array_equal(row[:20], ids[step, group % 2, lane, 0, :20])
            others = [at for at in range(99 + step, -1, -1) if at not in row[:20]]
            assert row[20:].tolist() == others[:4]

    def test_trace_record_is_run_record(self, invoke):
        self.save()
        arguments = ("--force", "forced.npz", "--context", 101, "--tokens", 3, "--json")
        result = invoke("trace", "record", "recorded.npz", "small.yaml", *arguments)
        assert result.exit_code == 0, result.output
        assert json.loads(result.output)["steps"] == 3
        assert open_trace("recorded.npz").kv_len[:, 0].tolist() == [102, 103, 104]

    def test_without_force_the_indexers_are_recorded(self, invoke):
        result = invoke("run", "small.yaml", "--context", 40, "--tokens", 4, "--record", "a.npz")
        assert result.exit_code == 0, result.output
        trace = open_trace("a.npz")
        assert (trace.steps, trace.top_k) == (4, 16)
        assert (trace.ids() >= 0).all()

    @pytest.mark.parametrize("given", [("--context", 98), ("--tokens", 9), ("--context", 107)])
    def test_positions_that_the_trace_does_not_know(self, invoke, given):
        self.save()
        result = invoke("run", "small.yaml", "--force", "forced.npz", *given)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith("force: forced.npz knows positions 99 to 106, got (")
