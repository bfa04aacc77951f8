"""No decode step allocates as much as a context's latents, outside the tiers."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tierkv.integrations.transformers.indexer_keys import IndexerKeys

CONTEXT, WIDTH = 2000, 64 + 32
"""Tokens, and elements of a record in the small models."""


class NewStorages(TorchDispatchMode):
    """Notes the size of every storage that an operator makes, in elements.

    What a step needs for the model's own indexer is seen too: its scores of all keys, one for
    each index head, are fewer than a record's elements.
    """

    def __init__(self):
        super().__init__()
        self.known, self.sizes, self.kept = set(), {}, []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        given = tree_leaves((arguments, options or {}))
        self.known.update(map(self.storage, filter(torch.is_tensor, given)))
        out = function(*arguments, **(options or {}))
        for tensor in filter(torch.is_tensor, tree_leaves(out)):
            storage = self.storage(tensor)
            if storage not in self.known:
                self.known.add(storage)
                self.kept.append(tensor)  # or its address comes again
                size = tensor.untyped_storage().nbytes() // 4
                self.sizes[str(function)] = max(size, self.sizes.get(str(function), 0))
        return out

    @staticmethod
    def storage(tensor):
        return tensor.untyped_storage().data_ptr()


def largest_storage(stock, cache, attention, tokens):
    with NewStorages() as seen:
        stock.forward(cache, stock.random(1, tokens), attention)
    return max(seen.sizes.values())


def largest_allocation(stock, cache, attention, tokens):
    """Ask the allocator itself, which sees inside operators too; elements of 4 bytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        stock.forward(cache, stock.random(1, tokens), attention)
    events = profiler.profiler.kineto_results.events()
    return max(event.nbytes() for event in events if event.name() == "[memory]") // 4


MEASURES = [largest_storage, largest_allocation]


@pytest.fixture(params=["host", "file"])
def one(request, twins):
    return twins(tokens=CONTEXT, max_tokens=CONTEXT + 40, batch=1, backing=request.param)


@pytest.mark.parametrize("largest", MEASURES)
@pytest.mark.parametrize("tokens", [1, 2])
def test_steps_allocate_little(stock, one, tokens, largest):
    for _ in range(3):  # the first makes the step's static buffers
        assert largest(stock, one.tiered, "tierkv", tokens) < CONTEXT * WIDTH


@pytest.mark.parametrize("largest", MEASURES)
def test_the_stock_cache_is_found_out(stock, one, largest):
    assert largest(stock, one.held, "sdpa", 1) >= CONTEXT * WIDTH


def test_indexer_keys_are_laid_out_in_one_place(stock, one, monkeypatch):
    places, gather = set(), IndexerKeys.gather

    def noted(*arguments):
        keys = gather(*arguments)
        places.add(keys.data_ptr())
        return keys

    monkeypatch.setattr(IndexerKeys, "gather", noted)
    for _ in range(3):
        stock.forward(one.tiered, stock.random(1, 1), "tierkv")
    assert len(places) == 1
