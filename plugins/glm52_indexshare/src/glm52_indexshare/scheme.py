"""The scheme's defaults, in the form of a configuration."""

SCHEME = {
    "backing": {"use": "host", "page": 128},
    "pool": {"use": "device", "slots": 8192},
    "policy": {"use": "set-fifo", "ways": 16},
    "planner": {"use": "indexshare"},
    "server": {"use": "indexshare", "depth": 2},
    "installer": {"use": "indexshare"},
    # A small model of GLM-5.2's shape: its KV rows, four layers a group, everything else reduced.
    "model": {
        "family": "glm_moe_dsa",
        "seed": 0,
        "dtype": "float32",
        "num_hidden_layers": 12,
        "index_topk": 256,
        "index_topk_freq": 4,
        "index_skip_topk_offset": 3,
        "index_n_heads": 32,
        "index_head_dim": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 64,
        "v_head_dim": 64,
        "q_lora_rank": 128,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "first_k_dense_replace": 12,
        "vocab_size": 1024,
    },
}
