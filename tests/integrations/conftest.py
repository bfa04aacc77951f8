"""Small models of both families, and what the stock cache makes of them, once a session."""

from functools import cache

import pytest
import torch

from tierkv.integrations.transformers import CACHE_ARGUMENT, build_model, tiered_cache
from tierkv.integrations.transformers.library import VERSION, DynamicCache

VOCABULARY, LONGEST, TAIL, CHUNK = 32, 4096, 40, 512
# Few index heads give exact ties of zeros, and then even stock runs disagree with each other.
_SHAPE = {
    "seed": 0, "dtype": "float32", "index_topk": 64, "index_n_heads": 32, "index_head_dim": 64,
    "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32,
    "q_lora_rank": 32, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
    "num_key_value_heads": 2, "n_group": 1, "topk_group": 1, "vocab_size": VOCABULARY,
}  # fmt: skip
FAMILIES = {
    "glm_moe_dsa": {
        "num_hidden_layers": 3, "first_k_dense_replace": 3, "head_dim": 32,
        "indexer_types": ["full", "shared", "full"],
    },
    "deepseek_v32": {"num_hidden_layers": 2, "first_k_dense_replace": 2},
}  # fmt: skip


def pytest_report_header():
    return f"transformers: {'.'.join(map(str, VERSION))}"


class Stock:
    """One family's model, and prompts of any length whose stock cache costs nothing more.

    A prompt ends in tokens that the model itself chose, so that looked-up drafts are sometimes
    right. Its cache is a piece of one long prompt's.
    """

    def __init__(self, family):
        self.model = build_model({**_SHAPE, **FAMILIES[family], "family": family}, LONGEST + 512)
        self.model.generation_config.update(eos_token_id=None, pad_token_id=0)
        self.model.register_forward_pre_hook(_skip_cached, with_kwargs=True)
        self.generator = torch.Generator().manual_seed(1)
        self.base = self.random(1, LONGEST)
        self.row = cache(self._row)
        self.long = cache(self._long)

    def random(self, rows, tokens):
        """Give random tokens, [rows, tokens]."""
        return torch.randint(VOCABULARY, (rows, tokens), generator=self.generator)

    def forward(self, cache, ids, attention="sdpa", **options):
        """Run the model once: logits [B, S, V]."""
        self.model.set_attn_implementation(attention)
        with torch.no_grad():
            return self.model(ids, **{CACHE_ARGUMENT: cache}, use_cache=True, **options).logits

    def empty(self):
        """Give an empty stock cache."""
        return DynamicCache(config=self.model.config)

    def _long(self):
        """Run the longest prompt: its cache, and the logits of its last token."""
        held = self.empty()
        for chunk in self.base[:, : LONGEST - TAIL].split(CHUNK, dim=1):
            logits = self.forward(held, chunk, logits_to_keep=1)
        return held, logits

    def piece(self, tokens):
        """Give the stock cache of the first tokens of the longest prompt."""
        piece = self.empty()
        for layer, whole in zip(piece.layers, self.long()[0].layers, strict=True):
            layer.update(whole.keys[:, :, :tokens], whole.values[:, :, :tokens])
            if whole.indexer_keys is not None:
                layer.update_indexer(whole.indexer_keys[:, :tokens])
        return piece

    def _row(self, tokens):
        """Give a prompt, [1, tokens], and the stock cache of all but its last token."""
        held, ids = self.piece(tokens - TAIL - 1), self.base[:, : tokens - TAIL]
        for _ in range(TAIL):
            following = self.forward(held, ids[:, -1:])[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, following], dim=1)
        return ids, held

    def batch(self, lengths, padding):
        """Lay prompts side by side, padded on the left.

        Gives ids and attention mask, [B, padding + longest], and the stock cache of all but the
        last token, which may be used once.
        """
        total = padding + max(lengths)
        rows = [self.row(length) for length in lengths]
        ids, mask = (torch.zeros(len(rows), total, dtype=torch.long) for _ in range(2))
        for row, (tokens, _) in enumerate(rows):
            ids[row, -tokens.shape[1] :] = tokens
            mask[row, -tokens.shape[1] :] = 1
        held = self.empty()
        for number, layer in enumerate(held.layers):
            layers = [row.layers[number] for _, row in rows]
            layer.update(
                _left([one.keys for one in layers], total - 1),
                _left([one.values for one in layers], total - 1),
            )
            if layers[0].indexer_keys is not None:
                layer.update_indexer(_left([one.indexer_keys for one in layers], total - 1))
        return ids, mask, held

    def generate(self, ids, mask, cache, tokens, attention="sdpa", **options):
        """Generate greedily: all tokens [B, T + tokens], and logits [tokens, B, V]."""
        self.model.set_attn_implementation(attention)
        out = self.model.generate(
            ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False,
            output_logits=True, return_dict_in_generate=True, **{CACHE_ARGUMENT: cache}, **options,
        )  # fmt: skip
        return out.sequences, torch.stack(out.logits)


def _skip_cached(model, arguments, options):
    """Drop tokens that the cache holds: assisted generation feeds the whole prompt regardless."""
    held = options[CACHE_ARGUMENT].get_seq_length()
    whole = options.get("attention_mask")
    if "input_ids" in options and whole is not None and options["input_ids"].shape == whole.shape:
        for name in ("input_ids", "position_ids"):
            if options.get(name) is not None:
                options[name] = options[name][:, held:]
    return arguments, options


def _left(tensors, total):
    """Pad [1, ..., T, width] to `total` on the left, and stack: [B, ..., total, width]."""
    pads = [
        torch.nn.functional.pad(tensor, (0, 0, total - tensor.shape[-2], 0)) for tensor in tensors
    ]
    return torch.cat(pads)


@pytest.fixture(scope="session")
def stock_of():
    """Give the :class:`Stock` of a family."""
    return cache(Stock)


@pytest.fixture
def stock(stock_of):
    """The family with layers that share a selection."""
    return stock_of("glm_moe_dsa")


class Twins:
    """A stock and a tiered cache that hold the same, driven by the same calls."""

    def __init__(self, stock, tiered, tokens, rows):
        self.stock, self.tiered = stock, tiered
        self.held = stock.piece(tokens) if tokens else stock.empty()
        if rows > 1:  # of different content
            for layer in self.held.layers:
                layer.batch_repeat_interleave(rows)
                for held in filter(torch.is_tensor, (layer.keys, layer.indexer_keys)):
                    held.add_(torch.randn(held.shape, generator=stock.generator), alpha=0.1)
        if tokens:
            tiered.adopt(self.held)

    def forward(self, tokens=1, rows=None):
        """Run random tokens through both, and compare."""
        rows = rows or (len(self.held.layers[0].keys) if self.held.get_seq_length() else 1)
        ids = self.stock.random(rows, tokens)
        wanted = self.stock.forward(self.held, ids)
        found = self.stock.forward(self.tiered, ids, "tierkv")
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
        assert self.tiered.get_seq_length() == self.held.get_seq_length()

    def both(self, name, *arguments):
        """Call the same method of both caches."""
        for twin in (self.held, self.tiered):
            getattr(twin, name)(*arguments)


@pytest.fixture
def twins(stock):
    """Make :class:`Twins` of the first family; sizes and configuration as wanted."""
    made = []

    def make(tokens=200, rows=1, queries=4, batch=4, max_tokens=512, **config):
        settings = {"scheme": "glm52-indexshare", "pool": {"slots": 128}, "debug": True} | config
        tiered = tiered_cache(
            stock.model, settings, batch=batch, max_tokens=max_tokens, queries=queries
        )
        made.append(tiered)
        return Twins(stock, tiered, tokens, rows)

    yield make
    for tiered in made:
        tiered.close()
