"""Pages as seen from outside: who holds which, and what a block table says."""

from dataclasses import replace

import pytest
import torch

from tierkv.errors import CapacityError
from tierkv.testing.assemble import Shape, assemble

SHAPE = Shape(pages=10, lanes=3)


@pytest.fixture
def cache():
    with assemble(SHAPE) as made:
        yield made


def held(cache):
    """Lane -> pages in order; the rest of its block table must be unmapped."""
    tables = {}
    for lane, row in enumerate(cache.paging.block_table.tolist()):
        pages = [page for page in row if page >= 0]
        assert row == pages + [-1] * (len(row) - len(pages)), "a hole"
        tables[lane] = pages
    return tables


def check(cache):
    pages = [page for row in held(cache).values() for page in row]
    assert len(set(pages)) == len(pages), "a page is held twice"
    assert all(0 <= page < SHAPE.pages for page in pages)
    assert cache.stats().pages_used == len(pages)


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (16, 1), (17, 2), (96, 6)])
def test_a_reservation_takes_the_pages_it_needs(cache, tokens, pages):
    lane = cache.admit("request", reserve=tokens)
    assert len(held(cache)[lane]) == pages
    check(cache)


def test_pages_never_move_while_a_request_grows(cache):
    lane = cache.admit("request")
    seen = []
    for kv_len in range(1, 60):
        with cache.step([lane], [kv_len]) as step:
            for layer in range(3):
                step.append(layer, torch.zeros((1, 1, 64), dtype=torch.uint8))
                ids = torch.full((1, 1, 6), -1, dtype=torch.int32)
                step.select(layer, ids if layer < 2 else None)
        pages = held(cache)[lane]
        assert pages[: len(seen)] == seen
        assert len(pages) == -(-kv_len // 16)
        seen = pages
    check(cache)


def test_begin_gives_the_batch_the_lanes_own_tables(cache):
    lanes = [cache.admit(name, reserve=40) for name in range(2)]
    with cache.step([lanes[1], -1, lanes[0]], [0, 0, 0]) as step:
        table = step.batch.block_table.tolist()
    assert table[0] == cache.paging.block_table[lanes[1]].tolist()
    assert table[2] == cache.paging.block_table[lanes[0]].tolist()


def test_begin_says_where_each_query_is_written(cache):
    lane = cache.admit("request", reserve=40)
    pages = held(cache)[lane]
    for layer in range(3):
        cache.prefill("request", layer, torch.zeros((15, 64), dtype=torch.uint8))
    with cache.step([-1, lane], [7, 17], q_len=[3, 2], queries=3) as step:
        rows = step.batch.rows.tolist()
    assert rows == [[-1, -1, -1], [-1, pages[0] * 16 + 15, pages[1] * 16]]
    other = cache.admit("short")
    with cache.step([other], [1], queries=3) as step:  # two of its queries lie before position 0
        assert step.batch.rows.tolist() == [[-1, -1, held(cache)[other][0] * 16]]


def test_released_pages_are_free_again(cache):
    for name in range(3):
        cache.admit(name, reserve=48)
    check(cache)
    cache.release(1)
    check(cache)
    cache.admit("next", reserve=64)
    check(cache)
    assert cache.stats().pages_used == 10
    with pytest.raises(CapacityError):
        cache.prefill("next", 0, torch.zeros((65, 64), dtype=torch.uint8))
    check(cache)


def test_truncate_keeps_the_page_it_ends_in(cache):
    lane = cache.admit("request")
    for layer in range(3):
        cache.prefill("request", layer, torch.zeros((60, 64), dtype=torch.uint8))
    pages = held(cache)[lane]
    cache.truncate("request", 33)
    assert held(cache)[lane] == pages[:3]
    cache.truncate("request", 32)
    assert held(cache)[lane] == pages[:2]
    cache.truncate("request", 0)
    assert held(cache)[lane] == []
    check(cache)


@pytest.mark.parametrize("page", [16, 32, 128])
def test_any_page_size_serves_the_same(page):
    shape = replace(SHAPE, page=page, pages=3 * -(-96 // page))
    with assemble(shape) as cache:
        lane = cache.admit("request")
        data = torch.arange(70 * 64).to(torch.uint8).view(70, 64)
        for layer in range(3):
            cache.prefill("request", layer, data)
        with cache.step([lane], [71]) as step:
            for layer in range(3):
                step.append(layer, torch.zeros((1, 1, 64), dtype=torch.uint8))
                ids = torch.tensor([[[0, 15, 16, 31, 32, 69]]], dtype=torch.int32)
                kv = step.select(layer, ids if layer < 2 else None)
                assert torch.equal(kv.records[0, 0], data[[0, 15, 16, 31, 32, 69]])


def test_a_copy_that_failed_is_made_again(cache, monkeypatch):
    """What the lane held alone before the fork is not taken for granted after it."""
    lane = cache.admit("request")
    for layer in range(3):
        cache.prefill("request", layer, torch.zeros((20, 64), dtype=torch.uint8))
    cache.step([lane], [24], queries=3)  # it is not entered: this only makes room
    other = cache.fork("request", "copy")

    def fail(copies):
        raise OSError("no page can be copied")

    with monkeypatch.context() as patch:
        patch.setattr(cache.store, "copy_pages", fail)
        with pytest.raises(OSError, match="no page"):
            cache.step([lane], [24], queries=3)
    cache.step([lane], [24], queries=3)
    mine, yours = held(cache)[lane], held(cache)[other]
    assert mine[0] == yours[0]
    assert mine[1] != yours[1]
