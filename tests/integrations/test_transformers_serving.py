"""Requests of any length in one forward, each as if it were alone."""

import importlib.util
import sys
import threading
from pathlib import Path

import pytest
import torch

from tierkv import CapacityError, ShapeError, StateError, TierError
from tierkv.integrations.transformers import serving_cache
from tierkv.integrations.transformers.passes import Decode

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve.py"
PAGE, QUERIES = 16, 4


class Loop:
    """A serving cache, and a stock cache for each request alone."""

    def __init__(self, stock, cache):
        self.stock, self.cache, self.alone = stock, cache, {}

    def admit(self, name, tokens, **options):
        """Admit a prompt, [T]; give how many tokens are there already."""
        found = self.cache.admit(name, tokens.tolist(), **options)
        self.alone[name] = self.stock.empty()
        if found:
            self.stock.forward(self.alone[name], tokens[None, :found])
        return found

    def release(self, name):
        self.cache.release(name)
        del self.alone[name]

    def forward(self, rows):
        """Run name -> new tokens, [S]; compare each row with the stock's run of it."""
        starts = [self.alone[name].get_seq_length() for name in rows]
        inputs = self.cache.batch(list(rows), starts, [row.tolist() for row in rows.values()])
        logits = self.run(inputs)
        for row, (name, tokens) in enumerate(rows.items()):
            wanted = self.stock.forward(self.alone[name], tokens[None])[0]
            torch.testing.assert_close(logits[row, -len(tokens) :], wanted, atol=1e-5, rtol=0)

    def run(self, inputs):
        self.stock.model.set_attn_implementation("tierkv")
        with torch.no_grad():
            return self.stock.model(**inputs).logits

    def step(self, *names):
        """Run one random token of some requests."""
        self.forward({name: self.stock.random(1, 1)[0] for name in names})

    def pages(self):
        return self.cache.tiered.stats().pages_used


@pytest.fixture
def loop_of(stock_of):
    """Make a :class:`Loop`."""
    made = []

    def make(family="glm_moe_dsa", requests=4, max_tokens=320, **config):
        stock = stock_of(family)
        settings = {
            "scheme": "glm52-indexshare", "pool": {"slots": 256}, "policy": "lru", "debug": True,
        }  # fmt: skip
        config["backing"] = {"page": PAGE, **config.get("backing", {})}
        cache = serving_cache(
            stock.model, settings | config, requests=requests, max_tokens=max_tokens,
            queries=QUERIES,
        )  # fmt: skip
        made.append(cache)
        return Loop(stock, cache)

    yield make
    for cache in made:
        cache.close()


CASES = [
    ("glm_moe_dsa", "host", "inline"), ("glm_moe_dsa", "file", "worker"),
    ("deepseek_v32", "host", "worker"), ("deepseek_v32", "file", "inline"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "tier", "schedule"), CASES)
def test_rows_of_any_length(loop_of, family, tier, schedule):
    """Prompts in chunks while others decode, drafts, rows in any order, one that ends early."""
    loop = loop_of(family, backing={"use": tier}, installer={"schedule": schedule})
    random = lambda tokens: loop.stock.random(1, tokens)[0]  # noqa: E731
    for name, tokens in {"a": 3, "b": 200, "c": 90}.items():
        assert loop.admit(name, random(tokens)) == 0
    loop.forward({"a": random(3), "b": random(130)})
    loop.forward({"b": random(70), "c": random(90)})
    loop.step("c", "a", "b")
    loop.forward({"b": random(1), "c": random(4), "a": random(2)})
    for name, rejected in {"b": 0, "c": 3, "a": 1}.items():
        loop.alone[name].crop(-rejected)
    loop.admit("d", random(40))
    loop.forward({"d": random(40)})
    loop.forward({"a": random(2), "d": random(1), "c": random(3)})
    loop.release("b")
    loop.admit("e", random(100))
    loop.forward({"c": random(30), "e": random(100)})
    loop.step("e", "d", "c", "a")


@pytest.mark.parametrize("family", ["glm_moe_dsa", "deepseek_v32"])
def test_a_shared_prefix_is_not_run_again(loop_of, family):
    loop = loop_of(family)
    prefix = loop.stock.random(1, 5 * PAGE + 3)[0]
    one, two = (torch.cat([prefix, loop.stock.random(1, n)[0]]) for n in (40, 60))
    loop.admit("one", one)
    loop.forward({"one": one})
    before = loop.pages()
    assert loop.admit("two", two) == 5 * PAGE
    assert loop.pages() - before == -(-len(two) // PAGE) - 5
    loop.forward({"two": two[5 * PAGE :]})
    loop.step("one", "two")
    loop.release("one")
    loop.step("two")
    assert loop.admit("one", one) == len(one) // PAGE * PAGE
    loop.forward({"one": one[len(one) // PAGE * PAGE :]})
    assert loop.admit("other", two, salt="adapter") == 0


def test_one_that_is_there_already_but_for_its_last_token(loop_of):
    """The rest is a step, not a prompt."""
    loop = loop_of()
    prompt = loop.stock.random(1, 4 * PAGE + 1)[0]
    loop.admit("one", prompt)
    loop.forward({"one": prompt})
    assert loop.admit("two", prompt) == 4 * PAGE
    loop.forward({"two": prompt[-1:], "one": prompt[:2]})


def test_preempted_and_admitted_again(loop_of):
    row = 3 * (64 + 32) * 4
    loop = loop_of(max_tokens=160, backing={"capacity": 12 * PAGE * row})
    prompts = {name: loop.stock.random(1, 5 * PAGE)[0] for name in ("one", "two")}
    for name, prompt in prompts.items():
        loop.admit(name, prompt)
        loop.forward({name: prompt})
    with pytest.raises(CapacityError, match=r"backing\.capacity"):
        loop.admit("three", loop.stock.random(1, 3 * PAGE)[0])
    loop.admit("three", loop.stock.random(1, PAGE)[0])
    with pytest.raises(CapacityError, match=r"backing\.capacity.*release a request and retry"):
        loop.step("one", "two")
    loop.release("two")
    loop.step("one")
    loop.release("three")
    assert loop.admit("two", prompts["two"]) >= 3 * PAGE  # less what room the others took
    loop.forward({"two": prompts["two"][loop.alone["two"].get_seq_length() :]})
    loop.step("two", "one")


def test_the_first_step_after_a_prompt_is_warm(loop_of):
    loop = loop_of()
    prompt = loop.stock.random(1, 200)[0]
    loop.admit("one", prompt)
    loop.forward({"one": prompt})
    assert not any(group.hits or group.misses for group in loop.cache.tiered.stats().groups)
    loop.step("one")
    for group in loop.cache.tiered.stats().groups:
        assert group.hits > 0.8 * (group.hits + group.misses)


def test_a_chunk_within_a_prompt_warms_nothing(loop_of, monkeypatch):
    loop, calls = loop_of(), []
    monkeypatch.setattr(loop.cache.tiered, "warm", lambda *call: calls.append(call[:2]))
    prompt = loop.stock.random(1, 100)[0]
    loop.admit("one", prompt)
    loop.forward({"one": prompt[:60]})
    assert not calls
    loop.forward({"one": prompt[60:]})
    assert calls == [("one", 0), ("one", 2)]


def test_a_forward_that_raises_is_undone(loop_of):
    loop = loop_of()
    prompt = loop.stock.random(1, 100)[0]
    loop.admit("one", prompt)

    def fail(*_):
        raise ZeroDivisionError

    for tokens in (prompt, loop.stock.random(1, 2)[0]):
        held = loop.alone["one"].get_seq_length()
        inputs = loop.cache.batch(["one"], [held], [tokens.tolist()])
        handle = loop.stock.model.model.layers[1].mlp.register_forward_pre_hook(fail)
        with pytest.raises(ZeroDivisionError):
            loop.run(inputs)
        handle.remove()
        loop.forward({"one": tokens})
    loop.step("one")


@pytest.mark.parametrize("tokens", [1, 30])
def test_a_prompt_is_taken_back_in_part(loop_of, tokens):
    """What is resident behind the new start is dropped."""
    loop = loop_of()
    prompt = loop.stock.random(1, 100)[0]
    loop.admit("one", prompt)
    loop.forward({"one": prompt})
    loop.step("one")
    loop.alone["one"].crop(-20)
    loop.forward({"one": loop.stock.random(1, tokens)[0]})
    loop.step("one")


@pytest.mark.parametrize("tier", ["host", "file"])
def test_a_prompt_that_cannot_be_copied(loop_of, monkeypatch, tier):
    """In the background: the forward says so, and the request may be run again."""
    loop = loop_of(backing={"use": tier}, installer={"schedule": "worker"})
    prompts = [loop.stock.random(1, 60)[0] for _ in range(2)]
    for name, prompt in enumerate(prompts):
        loop.admit(name, prompt)
    loop.forward({0: prompts[0]})
    backing = loop.cache.tiered.site.backing
    write = backing.write

    def full(layer, rows, records):
        if layer == 2 and threading.current_thread() is not threading.main_thread():
            raise OSError("no space left")
        return write(layer, rows, records)

    monkeypatch.setattr(backing, "write", full)
    with pytest.raises(TierError, match=r"prefill 1, layer 2: .*no space left"):
        loop.run(loop.cache.batch([1], [0], [prompts[1].tolist()]))
    loop.step(0)
    monkeypatch.undo()
    loop.forward({1: prompts[1]})
    loop.step(0, 1)


def test_a_batch_that_is_never_run_changes_nothing(loop_of):
    loop = loop_of()
    prompt = loop.stock.random(1, 50)[0]
    loop.admit("one", prompt)
    loop.cache.batch(["one"], [0], [prompt.tolist()])
    loop.forward({"one": prompt})
    loop.cache.batch(["one"], [50], [[1, 2]])
    loop.step("one")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((["who"], [0], [[1]]), StateError, "batch, 'who': is not running .admit it first"),
        ((["one"], [51], [[1]]), StateError, "batch, 'one': start must be 0 to 50, got 51"),
        ((["one"], [50], [[]]), ShapeError, "at least one token each"),
        ((["one"], [50], []), ShapeError, "at least one token each"),
        (([], [], []), ShapeError, "at least one token each"),
        ((["one", "one"], [50, 50], [[1], [1]]), StateError, "a request stands twice"),
    ],
)
def test_batches_that_cannot_be(loop_of, arguments, error, words):
    loop = loop_of()
    prompt = loop.stock.random(1, 50)[0]
    loop.admit("one", prompt)
    loop.forward({"one": prompt})
    with pytest.raises(error, match=words):
        loop.cache.batch(*arguments)
    loop.step("one")


def test_forwards_without_their_batch(loop_of):
    loop = loop_of()
    loop.admit("one", loop.stock.random(1, 50)[0])
    inputs = loop.cache.batch(["one"], [0], [[1, 2, 3]])
    loop.run(inputs)
    with pytest.raises(StateError, match="no batch is open"):
        loop.run(inputs)
    loop.cache.batch(["one"], [3], [[1]])
    with pytest.raises(StateError, match=r"the open batch is \[1, 1\], got \[1, 3\]"):
        loop.run(inputs)
    with pytest.raises(StateError, match="no batch is open"):
        loop.stock.forward(loop.cache, loop.stock.random(1, 2), "tierkv")


@pytest.fixture
def example(monkeypatch):
    """Run the example with some requests: exit status."""
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "serve", module)  # dataclasses look their module up
    spec.loader.exec_module(module)

    def run(requests):
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--requests", str(requests)])
        return module.main()

    return run


def test_example(example, capsys):
    assert example(14) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line[:16].strip(): line[16:].split()[0] for line in lines}
    assert found["equal outputs"] == "14"
    for name in ("preemptions", "shared tokens", "drafts"):
        assert int(found[name].replace(",", "")) > 0


def test_example_finds_a_difference(example, monkeypatch):
    """Records of another position, once in a while."""
    select = Decode.select

    def wrong(self, layer, mask, ids):
        selection = select(self, layer, mask, ids)
        selection["nope"].copy_(selection["nope"].roll(1, dims=2))
        return selection

    monkeypatch.setattr(Decode, "select", wrong)
    assert example(3) == 1
