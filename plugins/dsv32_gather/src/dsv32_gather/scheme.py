"""The scheme's defaults, in the form of a configuration."""

SCHEME = {
    "backing": {"use": "host", "page": 128},
    "pool": {"use": "device", "slots": 2048},
    "policy": {"use": "last-step"},
    "planner": {"use": "gather"},
    "server": {"use": "gather"},
    "installer": {"use": "gather"},
    # A small model of DeepSeek V3.2's shape: its KV rows, everything else reduced.
    "model": {
        "family": "deepseek_v32",
        "seed": 0,
        "dtype": "float32",
        "num_hidden_layers": 8,
        "index_topk": 256,
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
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 8,
        "vocab_size": 1024,
    },
}
