"""A forward that raises half-way leaves the cache as it was."""

import pytest
import torch

PLACES = ["layers.0.self_attn.indexer", "layers.0.mlp", "layers.1.mlp", "layers.2.self_attn.o_proj"]
"""Before the first attention, after a group, inside a group's first layers, after the last."""


class Broken(Exception):
    pass


def fail(stock, place, cache, tokens):
    """Run a forward that raises in the module at `place`."""

    def hook(*_):
        raise Broken

    handle = stock.model.model.get_submodule(place).register_forward_pre_hook(hook)
    try:
        with pytest.raises(Broken):
            stock.forward(cache, stock.random(1, tokens), "tierkv")
    finally:
        handle.remove()


@pytest.mark.parametrize("place", PLACES[:3])
@pytest.mark.parametrize("tokens", [1, 4, 40])
@pytest.mark.parametrize("past", [0, 200])
def test_forward_raises(stock, twins, place, tokens, past):
    one = twins(tokens=past)
    if past:
        one.forward(4)
    before = one.tiered.get_seq_length()
    fail(stock, place, one.tiered, tokens)
    assert one.tiered.get_seq_length() == before
    one.forward(3)
    fail(stock, place, one.tiered, tokens)
    one.forward(30)
    one.forward()


def test_after_the_last_attention_the_forward_counts(stock, twins):
    """As with the stock cache: all layers hold the tokens."""
    one = twins()
    fail(stock, PLACES[3], one.tiered, 1)
    assert one.tiered.get_seq_length() == 201
    one.tiered.crop(-1)
    one.forward()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("crop", (-5,)), ("reorder_cache", (torch.tensor([0]),)), ("batch_repeat_interleave", (1,))],
)
@pytest.mark.parametrize("tokens", [2, 40])
def test_then_another_call(stock, twins, method, arguments, tokens):
    one = twins()
    fail(stock, PLACES[1], one.tiered, tokens)
    one.both(method, *arguments)
    one.forward(2)


@pytest.mark.parametrize("tokens", [2, 40])
def test_then_reset(stock, twins, tokens):
    one = twins()
    fail(stock, PLACES[1], one.tiered, tokens)
    one.both("reset")
    one.forward(70, rows=2)
    one.forward(2, rows=2)


@pytest.mark.parametrize("place", PLACES[:2])
@pytest.mark.parametrize("tokens", [1, 40])
def test_then_a_stock_cache(stock, twins, place, tokens):
    """What the broken forward left does not reach another cache's attention."""
    one = twins()
    fail(stock, place, one.tiered, tokens)
    ids = stock.random(1, 50)
    wanted = stock.forward(stock.empty(), ids)
    assert torch.equal(stock.forward(stock.empty(), ids, "tierkv"), wanted)
    one.forward()


def test_full_backing_while_a_prompt_is_written(stock, twins):
    one = twins()
    prefill, calls = one.tiered.tiered.prefill, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError("no space left")
        prefill(*arguments)

    one.tiered.tiered.prefill = full
    with pytest.raises(OSError, match="no space"):
        stock.forward(one.tiered, stock.random(1, 40), "tierkv")
    one.forward(40)
    one.forward()
