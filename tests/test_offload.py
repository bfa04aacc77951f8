"""Prompts are copied to the backing while the caller goes on."""

import random
import threading
import time

import pytest
import torch

from tierkv import offload
from tierkv.errors import StateError, TierError
from tierkv.plain import CopyInstaller
from tierkv.testing.assemble import INDEXED, Shape, assemble, choice
from tierkv.tiers import FileTier, HostTier

SHAPE = Shape(max_tokens=96, pages=18, layout=INDEXED)
LAYERS, STRIDE = 3, 64


class Gate:
    """Writes wait until it is opened; the one it is told to breaks."""

    def __init__(self):
        self.open, self.fails, self.written = threading.Event(), None, []

    def tier(self, base):
        class Gated(base):
            def write(inner, layer, rows, records):
                if threading.current_thread() is threading.main_thread():
                    return base.write(inner, layer, rows, records)
                self.open.wait(10)
                self.written.append(layer)
                if self.fails == layer:
                    raise OSError("the disk is full")
                return base.write(inner, layer, rows, records)

        return choice(Gated)


@pytest.fixture(params=[HostTier, FileTier])
def gated(request):
    gate = Gate()
    worker = choice(CopyInstaller, {"schedule": "worker"})
    with assemble(SHAPE, backing=gate.tier(request.param), installer=worker) as cache:
        yield cache, gate
        gate.open.set()


def made(tokens, fill):
    return torch.full((tokens, STRIDE), fill, dtype=torch.uint8)


def keys(tokens, fill):
    return {"index": torch.full((tokens, 4), fill, dtype=torch.int16)}


def holds(cache, request, layer, tokens, fill, start=0):
    parts = cache.read(request, layer, start, start + tokens)
    return all(bool((part.view(torch.uint8) == fill).all()) for part in
               (parts["key"], parts["value"]))  # fmt: skip


def finish_soon(gate):
    threading.Timer(0.05, gate.open.set).start()


def test_a_layer_is_copied_while_the_caller_goes_on(gated):
    cache, gate = gated
    cache.admit("one")
    given = made(50, 7)
    cache.prefill("one", 0, given)
    given.fill_(0)  # was packed
    cache.prefill("one", 0, keys(50, 1))  # device parts do not wait
    assert not gate.written
    finish_soon(gate)
    cache.prefill("one", 1, made(50, 8))  # the staging buffer is needed
    assert gate.written[:1] == [0]
    assert holds(cache, "one", 0, 50, 7)
    assert holds(cache, "one", 1, 50, 8)


def test_only_what_is_under_way_is_waited_for(gated):
    cache, gate = gated
    gate.open.set()
    cache.admit("one")
    for layer in range(LAYERS):
        cache.prefill("one", layer, made(20, layer))
        cache.prefill("one", layer, keys(20, layer))
    cache.settle()
    gate.open.clear()
    cache.prefill("one", 1, made(20, 9), start=20)
    assert holds(cache, "one", 1, 20, 1)  # the past
    assert holds(cache, "one", 2, 20, 2)
    assert gate.written == [0, 1, 2]
    finish_soon(gate)
    assert holds(cache, "one", 1, 20, 9, start=20)
    assert gate.written == [0, 1, 2, 1]


CALLS = {
    "length": lambda cache: cache.length("one"),
    "read": lambda cache: cache.read("one", 2, 0, 40),
    "fork": lambda cache: cache.fork("one", "two"),
    "admit": lambda cache: cache.admit("two", tokens=list(range(40))),
    "warm": lambda cache: cache.warm("one", 1, torch.zeros(6, dtype=torch.int32)),
    "prefill": lambda cache: cache.prefill("one", 2, made(4, 4), start=40),
    "begin": lambda cache: cache.step([0], [40]),
    "settle": lambda cache: cache.settle(),
    "release": lambda cache: cache.release("one"),
    "truncate": lambda cache: cache.truncate("one", 20),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_comes_next_waits(gated, call):
    cache, gate = gated
    prompt(cache, gate)
    finish_soon(gate)
    CALLS[call](cache)
    assert gate.written[-1] == 2


def prompt(cache, gate):
    """Prefill a request; the last layer's copy is under way."""
    cache.admit("one", tokens=list(range(40)))
    gate.open.set()
    for layer in range(LAYERS):
        if layer == LAYERS - 1:
            cache.settle()
            gate.open.clear()
        cache.prefill("one", layer, made(40, layer))
        cache.prefill("one", layer, keys(40, layer))


def test_pages_are_shared_once_they_are_written(gated):
    cache, gate = gated
    prompt(cache, gate)
    assert not cache.paging.index.match(list(range(40)), None)
    finish_soon(gate)
    cache.admit("two", tokens=list(range(40)))
    assert cache.length("two") == 32


def test_pages_of_another_request_are_not_waited_for(gated):
    """Two prompts a layer at a time, tiered parts first, as a batch brings them."""
    cache, gate = gated
    gate.open.set()
    prompts = {"one": list(range(40)), "two": list(range(50, 90))}
    for name, tokens in prompts.items():
        cache.admit(name, tokens=tokens)
    for layer in range(LAYERS):
        for name in prompts:
            cache.prefill(name, layer, made(40, layer))
        for name in prompts:
            cache.prefill(name, layer, keys(40, layer))
    cache.settle()
    for tokens in prompts.values():
        assert len(cache.paging.index.match(tokens, None)) == 2


@pytest.mark.parametrize("call", ["length", "fork", "admit", "warm", "prefill", "begin", "settle"])
def test_a_failed_copy_is_named_by_what_comes_next(gated, call):
    cache, gate = gated
    cache.admit("other")
    gate.open.set()
    for layer in range(LAYERS):
        cache.prefill("other", layer, made(30, 5))
        cache.prefill("other", layer, keys(30, 5))
    prompt(cache, gate)
    gate.fails = 2
    gate.open.set()
    words = "prefill 'one', layer 2: its records from 0 on were not written: the disk is full"
    with pytest.raises(TierError, match=words):
        CALLS[call](cache)
    gate.fails = None
    assert cache.length("one") == 0  # once
    assert holds(cache, "one", 1, 40, 1)
    assert holds(cache, "other", 2, 30, 5)
    with pytest.raises(StateError, match="range"):
        cache.read("one", 2, 0, 1)
    cache.prefill("one", 2, made(40, 6))
    cache.prefill("one", 2, keys(40, 6))
    assert cache.length("one") == 40
    assert holds(cache, "one", 2, 40, 6)


@pytest.mark.parametrize("call", ["release", "truncate"])
def test_nobody_misses_what_was_to_go(gated, call):
    cache, gate = gated
    prompt(cache, gate)
    gate.fails = 2
    gate.open.set()
    if call == "release":
        cache.release("one")
    else:
        cache.truncate("one", 0)
    cache.settle()


def test_large_prompts_go_in_pieces(gated, monkeypatch):
    monkeypatch.setattr(offload, "STAGED", 16)
    cache, gate = gated
    gate.open.set()
    cache.admit("one")
    given = torch.arange(50, dtype=torch.uint8)[:, None].repeat(1, STRIDE)
    cache.prefill("one", 0, given)
    found = cache.read("one", 0, 0, 50)
    assert torch.equal(found["key"].view(torch.uint8), given[:, :32])
    assert gate.written == [0] * 4
    assert cache.offload._staging.nbytes == 16 * STRIDE


def test_an_earlier_piece_fails(gated, monkeypatch):
    monkeypatch.setattr(offload, "STAGED", 16)
    cache, gate = gated
    gate.open.set()
    gate.fails = 0
    cache.admit("one")
    with pytest.raises(TierError, match="prefill 'one', layer 0"):
        cache.prefill("one", 0, made(50, 7))
    gate.fails = None
    cache.prefill("one", 0, made(50, 8))
    assert holds(cache, "one", 0, 50, 8)


def test_close_waits(gated):
    cache, gate = gated
    prompt(cache, gate)
    finish_soon(gate)
    cache.close()
    assert gate.written[-1] == 2
    cache.close()


def test_random_delays_change_nothing():
    """Requests come, grow and go; every byte is the last one written there."""
    gate = Gate()
    gate.open.set()

    class Late(gate.tier(HostTier).component):
        def write(self, layer, rows, records):
            time.sleep(random.random() / 1000)
            return super().write(layer, rows, records)

    worker = choice(CopyInstaller, {"schedule": "worker"})
    generator = random.Random(0)
    with assemble(SHAPE, backing=choice(Late), installer=worker) as cache:
        wanted = {}
        for turn in range(200):
            name = generator.choice("abc")
            if name in wanted and generator.random() < 0.2:
                cache.release(name)
                del wanted[name]
                continue
            if name not in wanted:
                cache.admit(name)
                wanted[name] = []
            start = generator.randint(0, len(wanted[name]))
            tokens = generator.randint(1, 96 - start) if start < 96 else 0
            for layer in range(LAYERS):
                cache.prefill(name, layer, made(tokens, turn), start=start)
                cache.prefill(name, layer, keys(tokens, turn), start=start)
            wanted[name][start:] = [turn] * tokens
            if turn % 3 == 0:
                for other, fills in wanted.items():
                    for layer in range(LAYERS):
                        found = cache.read(other, layer, 0, len(fills))["key"].view(torch.uint8)
                        assert found[:, 0].tolist() == fills
