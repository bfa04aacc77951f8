"""The attention functions on their own."""

from types import SimpleNamespace

import pytest
import torch

from tierkv import ShapeError
from tierkv.integrations.transformers.attention import absorbed, register
from tierkv.types import Selection


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "queries"), [(1, 1), (3, 1), (2, 4)])
def test_absorbed_equals_expanded(batch, queries, dtype):
    heads, rank, rope, nope, width, top_k = 4, 64, 16, 24, 40, 32
    weight = torch.nn.Linear(rank, heads * (nope + width), bias=False, dtype=dtype)
    module = SimpleNamespace(
        kv_b_proj=weight, kv_lora_rank=rank, qk_nope_head_dim=nope, v_head_dim=width,
        qk_rope_head_dim=rope,
    )  # fmt: skip
    query = torch.randn(batch, heads, queries, nope + rope, dtype=dtype)
    records = torch.randn(batch, queries, top_k, rank + rope, dtype=dtype)
    length = torch.randint(1, top_k + 1, (batch, queries), dtype=torch.int32)
    for row in range(batch):
        for place in range(queries):
            records[row, place, length[row, place] :] = 0
    parts = {"nope": records[..., :rank], "rope": records[..., rank:]}
    ids = torch.zeros(batch, queries, top_k, dtype=torch.int32)
    found = absorbed(module, query, Selection(records, ids, length, parts), 0.2)
    assert found.shape == (batch, queries, heads, width)
    for row in range(batch):
        for place in range(queries):
            seen = records[row, place, : length[row, place]]
            up = weight(seen[:, :rank]).view(-1, heads, nope + width).transpose(0, 1)
            keys = torch.cat([up[..., :nope], seen[:, rank:].expand(heads, -1, -1)], dim=-1)
            wanted = torch.nn.functional.scaled_dot_product_attention(
                query[row, :, place : place + 1], keys, up[..., nope:], scale=0.2
            )
            atol = 1e-5 if dtype == torch.float32 else 2e-2
            torch.testing.assert_close(found[row, place], wanted[:, 0], atol=atol, rtol=0)


def test_other_caches_see_stock_attention(stock):
    register()
    caches = [stock.empty(), stock.empty()]
    for tokens in (80, 1, 3):
        ids = stock.random(2, tokens)
        wanted = stock.forward(caches[0], ids)
        assert torch.equal(stock.forward(caches[1], ids, "tierkv"), wanted)


def test_additive_masks_are_refused(stock, twins):
    one = twins()
    mask = torch.zeros(1, 1, 1, 201)
    with pytest.raises(ShapeError, match="attention_mask: must be boolean"):
        stock.forward(one.tiered, stock.random(1, 1), "tierkv", attention_mask=mask)
    one.forward()


def test_masked_keys_are_not_selected(stock, twins):
    """Holes anywhere, not only padding on the left."""
    one = twins(rows=2)
    mask = torch.rand(2, 201, generator=stock.generator) > 0.3
    mask[:, -1] = True
    ids = stock.random(2, 1)
    wanted = stock.forward(one.held, ids, attention_mask=mask.long())
    found = stock.forward(one.tiered, ids, "tierkv", attention_mask=mask.long())
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
