"""What generate and a user may do with the cache."""

import pytest
import torch

from tierkv import CapacityError, StateError
from tierkv.integrations.transformers import CACHE_ARGUMENT


def resident(twins):
    return max(int(policy.id_at.max()) for policy in twins.tiered.tiered.site.policies)


def test_steps_and_prompts_in_turn(twins):
    one = twins(tokens=0)
    for tokens in (150, 1, 4, 1, 5, 90, 2, 1, 1):
        one.forward(tokens)


def test_longest_prompt(stock, twins):
    one = twins(tokens=0, max_tokens=4096)
    one.held, wanted = stock.long()
    for chunk in stock.base[:, : one.held.get_seq_length()].split(512, dim=1):
        found = stock.forward(one.tiered, chunk, "tierkv", logits_to_keep=1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    one.held = stock.piece(one.held.get_seq_length())
    for tokens in (1, 4, 1):
        one.forward(tokens)


def test_drafts_are_never_installed(twins):
    one = twins(tokens=90)
    for _ in range(6):
        one.forward(4)
        assert resident(one) < one.held.get_seq_length() - 4
        one.both("crop", -3)


def test_rejected_drafts_cost_nothing(twins):
    one = twins()
    one.forward(4)
    calls = []
    one.tiered.tiered.truncate = lambda *arguments: calls.append(arguments)
    one.both("crop", -3)
    one.forward()
    assert not calls


@pytest.mark.parametrize("removed", [0, 1, 3, 4, 100, 207])
def test_crop(twins, removed):
    one = twins()
    for _ in range(3):
        one.forward()
    one.forward(4)
    one.both("crop", -removed)
    assert resident(one) < 207 - removed
    one.forward(2, rows=1)
    one.forward(20)
    one.forward()


def test_crop_to_a_length(twins):
    one = twins()
    one.held.crop(-50)
    one.tiered.crop(150)
    one.forward()
    one.tiered.crop(1000)
    one.forward()


def test_reset_takes_another_batch(twins):
    one = twins(rows=3)
    one.forward()
    one.both("reset")
    assert one.tiered.get_seq_length() == 0
    assert one.tiered.tiered.stats().pages_used == 0
    one.forward(100, rows=2)
    one.forward(rows=2)


@pytest.mark.parametrize("rows", [[2, 1, 0], [2, 2, 0], [1, 1, 1], [0, 1, 2]])
def test_reorder(twins, rows):
    one = twins(rows=3, batch=3)
    one.forward()
    one.both("reorder_cache", torch.tensor(rows))
    one.forward()
    one.both("reorder_cache", torch.tensor(rows))
    one.forward(4)


@pytest.mark.parametrize("rows", [[2, 0], [1], [True, False, True], [2, 2, 1, 0]])
def test_select_rows(twins, rows):
    one = twins(rows=3)
    one.forward()
    one.both("batch_select_indices", torch.tensor(rows))
    one.forward(rows=sum(rows) if rows[0] is True else len(rows))


def test_repeat_rows(twins):
    one = twins(rows=2)
    one.forward()
    one.both("batch_repeat_interleave", 2)
    one.forward(rows=4)


def test_rows_share_nothing_after_a_copy(twins):
    one = twins(rows=1)
    one.both("batch_repeat_interleave", 2)
    one.forward(rows=2)
    one.both("crop", -1)
    one.forward(rows=2)


def test_beam_search(stock, twins):
    one = twins(tokens=0, batch=3)
    ids = stock.random(1, 100)
    mask = torch.ones_like(ids)
    wanted, _ = stock.generate(ids, mask, one.held, 8, num_beams=3)
    found, _ = stock.generate(ids, mask, one.tiered, 8, "tierkv", num_beams=3)
    assert torch.equal(found, wanted)


def test_prompt_in_chunks(stock, twins):
    one = twins(tokens=0)
    ids = stock.random(1, 300)
    mask = torch.ones_like(ids)
    chunks = {"prefill_chunk_size": 70}
    wanted = stock.generate(ids, mask, one.held, 4, **chunks)
    found = stock.generate(ids, mask, one.tiered, 4, "tierkv", **chunks)
    assert torch.equal(found[0], wanted[0])
    torch.testing.assert_close(found[1], wanted[1], atol=1e-5, rtol=0)


def test_answer_is_continued(stock, twins):
    """A second turn goes on from the first one's cache."""
    one = twins(tokens=0, max_tokens=800)
    ids = stock.random(1, 100)
    for _ in range(3):
        mask = torch.ones_like(ids)
        wanted, _ = stock.generate(ids, mask, one.held, 5)
        found, _ = stock.generate(ids, mask, one.tiered, 5, "tierkv")
        assert torch.equal(found, wanted)
        ids = torch.cat([found, stock.random(1, 40)], dim=1)


def test_inference_mode_comes_and_goes(twins):
    one = twins(tokens=0)
    with torch.inference_mode():
        one.forward(100)
        one.forward()
    one.forward()
    one.both("crop", -1)
    with torch.inference_mode():
        one.forward()


def test_gradients_may_be_on(stock, twins):
    one = twins(tokens=0)
    stock.model.set_attn_implementation("tierkv")
    for tokens in (80, 1, 3):
        ids = stock.random(1, tokens)
        found = stock.model(ids, **{CACHE_ARGUMENT: one.tiered}).logits
        torch.testing.assert_close(found, stock.forward(one.held, ids), atol=1e-5, rtol=0)
        stock.model.set_attn_implementation("tierkv")


def test_too_many_rows(twins):
    one = twins(tokens=0, batch=2)
    with pytest.raises(CapacityError, match="batch: the cache has lanes for 2 rows, got 3"):
        one.forward(50, rows=3)
    one.both("reset")
    one.forward(50, rows=2)
    with pytest.raises(CapacityError, match="batch"):
        one.tiered.batch_repeat_interleave(2)
    one.forward()


def test_other_number_of_rows(stock, twins):
    one = twins(rows=2)
    with pytest.raises(StateError, match=r"batch: the cache holds 2 rows, got 1 .*reset"):
        stock.forward(one.tiered, stock.random(1, 1), "tierkv")
    one.forward()


def test_unknown_row(twins):
    one = twins(rows=2)
    with pytest.raises(StateError, match="the cache holds 2 rows"):
        one.tiered.reorder_cache(torch.tensor([0, 2]))
    one.forward()


def test_other_attention(stock, twins):
    one = twins()
    with pytest.raises(StateError, match=r"set_attn_implementation\('tierkv'\)"):
        stock.forward(one.tiered, stock.random(1, 1), "sdpa")
    one.forward()


@pytest.mark.parametrize("tokens", [4, 20])
def test_longest_row(stock, twins, tokens):
    one = twins(max_tokens=203)
    with pytest.raises(CapacityError, match="max_tokens"):
        stock.forward(one.tiered, stock.random(1, tokens), "tierkv")
    one.forward(3)


def test_crowded_backing(stock, twins):
    """Repeated rows share pages until they are written to, and then need some."""
    row = 4 * (64 + 32) * 3
    one = twins(rows=2, max_tokens=256, backing={"capacity": 16 * 27 * row, "page": 16})
    one.both("batch_repeat_interleave", 2)
    with pytest.raises(CapacityError, match=r"backing\.capacity"):
        stock.forward(one.tiered, stock.random(4, 1), "tierkv")
    one.both("batch_select_indices", torch.tensor([1, 2]))
    one.forward()


def test_lanes_that_others_hold(twins):
    one = twins(rows=2, batch=4)
    one.tiered.tiered.admit("mine")
    with pytest.raises(CapacityError, match="lanes for 3 rows, got 4"):
        one.tiered.batch_repeat_interleave(2)
    one.both("batch_select_indices", torch.tensor([0, 1, 1]))
    one.forward()


def test_layer_takes_no_latents(twins):
    with pytest.raises(StateError, match="call update of the cache"):
        twins().tiered.layers[0].update(torch.zeros(1), torch.zeros(1))


def test_layers_in_order(twins):
    one = twins()
    with pytest.raises(StateError, match="from its first layer"):
        one.tiered.update(torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 32), 1)


def test_device_bytes_are_those_predicted(twins):
    one = twins(batch=2)
    dense = 2 * 512 * 64 * 4  # lanes, max_tokens, width, bytes: one owner's at a time
    footprint = one.tiered.tiered.footprint
    assert one.tiered.device_bytes == footprint.device + dense
    assert footprint.device_parts == 2 * dense  # owners


def test_close_gives_memory_back(stock, twins):
    one = twins()
    with one.tiered as cache:
        assert cache is one.tiered
    assert cache._keys is None
    with pytest.raises(StateError, match="cache: is closed"):
        stock.forward(cache, stock.random(1, 1), "tierkv")
