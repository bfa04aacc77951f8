"""Layer groups and layouts of GLM-5.2, from each of the three ways to say them."""

import pytest
import torch
from glm52_indexshare import tierkv_model
from glm52_indexshare.model import glm52_spec, indexer_types

from tierkv import ConfigError

BASE = {
    "model_type": "glm_moe_dsa", "num_hidden_layers": 8, "index_topk": 2048, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "index_head_dim": 128,
}  # fmt: skip
OWNERS_78 = [0, 1, 2, *range(6, 75, 4)]


def owners(**config):
    return [group.owner for group in glm52_spec(BASE | config).groups]


def test_78_layers_of_freq_4_and_offset_3_make_21_groups():
    config = {"num_hidden_layers": 78, "index_topk_freq": 4, "index_skip_topk_offset": 3}
    spec = glm52_spec(BASE | config)
    assert len(spec.groups) == 21
    assert [group.owner for group in spec.groups] == OWNERS_78
    assert [len(group.layers) for group in spec.groups] == [1, 1] + [4] * 19
    assert [layer for group in spec.groups for layer in group.layers] == list(range(78))
    assert spec.groups[-1].last == 77


def test_the_three_ways_agree():
    types = ["full" if layer in OWNERS_78 else "shared" for layer in range(78)]
    pattern = "".join(kind[0].upper() for kind in types)
    layers = {"num_hidden_layers": 78}
    assert owners(**layers, indexer_types=types) == OWNERS_78
    assert owners(**layers, index_topk_pattern=pattern) == OWNERS_78
    assert owners(**layers, index_topk_freq=4, index_skip_topk_offset=3) == OWNERS_78


def test_the_list_wins_over_the_pattern_and_the_pattern_over_the_numbers():
    types, pattern = ["full"] * 3 + ["shared"] * 5, "FSSSSSSS"
    every = {"indexer_types": types, "index_topk_pattern": pattern, "index_topk_freq": 2}
    assert owners(**every) == [0, 1, 2]
    assert owners(**every | {"indexer_types": None}) == [0]
    assert owners(**every | {"indexer_types": None, "index_topk_pattern": None}) == [0, 1, 3, 5, 7]


@pytest.mark.parametrize(
    ("freq", "offset", "wanted"),
    [
        (1, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (4, 3, [0, 1, 2, 6]),
        (4, 1, [0, 4]),
        (2, 2, [0, 1, 3, 5, 7]),
        (100, 3, [0, 1, 2]),
        (4, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_freq_and_offset(freq, offset, wanted):
    assert owners(index_topk_freq=freq, index_skip_topk_offset=offset) == wanted


def test_without_a_word_every_layer_selects_for_itself():
    assert owners() == list(range(8))


def test_rows_hold_nope_and_rope_and_owners_their_index_keys():
    spec = glm52_spec(BASE | {"index_topk_pattern": "FSSSFSSS"})
    for layer, layout in enumerate(spec.layouts):
        assert [(part.name, part.width) for part in layout.tiered] == [("nope", 512), ("rope", 64)]
        assert layout.stride == 1152
        keys = [(part.name, part.width) for part in layout.device]
        assert keys == ([("index", 128)] if layer in (0, 4) else [])
    assert spec.top_k == 2048
    assert spec.layouts[0].parts[0].dtype == torch.bfloat16


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
@pytest.mark.parametrize("name", ["float32", "torch.float32"])
def test_the_dtype_may_be_written_either_way(key, name):
    assert glm52_spec(BASE | {key: name}).layouts[0].stride == 2304


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"indexer_types": ["full"] * 7}, r"model\.indexer_types: must name 8 layers, got 7"),
        ({"indexer_types": ["full"] * 7 + ["ful"]}, r"indexer_types.*'ful'.*full.*did you mean"),
        ({"indexer_types": ["shared"] + ["full"] * 7}, r"first layer has no one to follow"),
        ({"indexer_types": "full"}, r"model\.indexer_types: expected a list of 8"),
        ({"index_topk_pattern": "FSSS"}, r"model\.index_topk_pattern: must name 8 layers, got 4"),
        ({"index_topk_pattern": "FXSSSSSS"}, r"model\.index_topk_pattern: unknown type, got 'X'"),
        ({"index_topk_pattern": "SFSSSSSS"}, r"first layer has no one to follow"),
        ({"index_topk_freq": 0}, r"model\.index_topk_freq: .*at least 1, got 0"),
        ({"index_topk_freq": 2.5}, r"model\.index_topk_freq.*got 2\.5"),
        ({"index_skip_topk_offset": -1}, r"model\.index_skip_topk_offset.*got -1"),
        ({"num_hidden_layers": 0}, r"model\.num_hidden_layers.*got 0"),
        ({"num_hidden_layers": None}, r"model\.num_hidden_layers: is missing"),
        ({"index_topk": True}, r"model\.index_topk.*got True"),
        ({"index_topk": None}, r"model\.index_topk: is missing"),
        ({"kv_lora_rank": "512"}, r"model\.kv_lora_rank.*got '512'"),
        ({"qk_rope_head_dim": None}, r"model\.qk_rope_head_dim: is missing"),
        ({"index_head_dim": None}, r"model\.index_head_dim: is missing"),
        ({"dtype": "int8"}, r"model\.dtype: unknown dtype, got 'int8'"),
        ({"dtype": "float33"}, r"model\.dtype: unknown dtype.*did you mean float32"),
    ],
)  # fmt: skip
def test_what_is_wrong_names_its_key(config, message):
    with pytest.raises(ConfigError, match=message):
        glm52_spec(BASE | config)


def test_other_families_are_left_to_others():
    assert tierkv_model(BASE | {"model_type": "deepseek_v32"}) is None
    assert tierkv_model({}) is None
    assert tierkv_model(BASE).name == "glm_moe_dsa"


def test_types_are_a_copy():
    given = ["full"] * 8
    assert indexer_types({"indexer_types": given}, 8) is not given
