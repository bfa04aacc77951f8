"""Layouts of DeepSeek V3.2: every layer selects for itself."""

import pytest
from dsv32_gather import tierkv_model
from dsv32_gather.model import dsv32_spec

from tierkv import ConfigError

BASE = {
    "model_type": "deepseek_v32", "num_hidden_layers": 61, "index_topk": 2048, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "index_head_dim": 128,
}  # fmt: skip


def test_each_layer_is_a_group_of_its_own():
    spec = dsv32_spec(BASE)
    assert [group.layers for group in spec.groups] == [(layer,) for layer in range(61)]
    assert {layout.stride for layout in spec.layouts} == {1152}
    assert {layout.device[0].width for layout in spec.layouts} == {128}
    assert spec.top_k == 2048


@pytest.mark.parametrize(
    "key",
    ["num_hidden_layers", "index_topk", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim"],
)
@pytest.mark.parametrize("value", [None, 0, -3, 1.5, True, "8"])
def test_what_is_wrong_names_its_key(key, value):
    with pytest.raises(ConfigError, match=rf"model\.{key}: "):
        dsv32_spec(BASE | {key: value})


def test_other_families_are_left_to_others():
    assert tierkv_model(BASE | {"model_type": "glm_moe_dsa"}) is None
    assert tierkv_model(BASE).name == "deepseek_v32"
