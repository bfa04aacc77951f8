"""``tierkv replay`` from outside."""

import csv
import json
import sys

import numpy as np
import pytest

from tierkv.config import make_registry
from tierkv.replay import Comparison
from tierkv.trace import Shape, synthesize

HEADS = ["policy", "slots", "hit %", "p10", "worst", "unique %", "misses", "installs"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "stack.npz"
    synthesize("stack", Shape(steps=60, context=2048, top_k=64, groups=2)).save(path)
    return path


def report(invoke, *arguments):
    result = invoke("replay", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.output)


def test_every_registered_policy_and_the_bounds(invoke, trace):
    found = report(invoke, trace)
    assert found["complete"]
    assert found["trace"]["warmup"] == 20
    names = {row["policy"] for row in found["policies"]}
    assert names == {*make_registry().names("policy"), "belady"}
    sizes = {row["slots"] for row in found["policies"] if row["policy"] == "lru"}
    assert sizes == {64, 128, 256, 512}
    bounds = [row["policy"] for row in found["policies"] if row["bound"]]
    assert set(bounds) == {"belady", "unbounded"}
    best = max(row["unique_hit_rate"] for row in found["policies"] if row["slots"] == 256)
    assert best == next(
        row["unique_hit_rate"]
        for row in found["policies"]
        if row["slots"] == 256 and row["policy"] == "belady"
    )


def test_people_get_a_table(invoke, trace):
    result = invoke("replay", trace, "--policy", "clock:ways=16", "--slots", "64,128", "--by-group")
    assert result.exit_code == 0
    assert result.stderr == ""
    title, head, *rows = result.output.splitlines()
    assert "40 steps counted, 2 groups, 1 lanes, 1 x 64 ids a step" in title
    assert all(word in head for word in HEADS)
    assert [row.split()[0] for row in rows[:5]] == ["clock:ways=16"] * 2 + ["belady"] * 2 + [
        "unbounded"
    ]
    assert len(rows) == 5 + 2 + 10


def test_groups_and_files(invoke, trace, tmp_path):
    table = tmp_path / "out.csv"
    found = report(invoke, trace, "--policy", "lru", "--slots", 128, "--by-group", "--csv", table)
    assert [(row["policy"], row["group"]) for row in found["groups"]][:2] == [
        ("lru", 0),
        ("lru", 1),
    ]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["group"] for row in rows] == ["0", "1"] * 3
    assert float(rows[0]["hit_rate"]) == found["groups"][0]["hit_rate"]


def test_drafts(invoke, trace):
    one = report(invoke, trace, "--policy", "lru", "--slots", 256)
    found = report(invoke, trace, "--policy", "lru", "--slots", 256, "--queries", 2, "--accept", 1)
    assert found["trace"]["queries"] == 2
    assert found["trace"]["steps"] == 30
    assert found["policies"][0]["hit_rate"] == pytest.approx(
        one["policies"][0]["hit_rate"], abs=0.05
    )


def test_plots(invoke, trace, tmp_path):
    pytest.importorskip("matplotlib")
    for name, start in (("a.png", b"\x89PNG"), ("a.html", b"<!DOCTYPE html>")):
        path = tmp_path / name
        result = invoke("replay", trace, "--policy", "lru", "--slots", "64,128", "--plot", path)
        assert result.exit_code == 0, result.stderr
        assert path.read_bytes().startswith(start)
    assert "belady" in (tmp_path / "a.html").read_text()
    assert "<svg" in (tmp_path / "a.html").read_text()


def test_without_matplotlib_it_says_what_to_install(invoke, trace, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    result = invoke("replay", trace, "--plot", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "pip install 'tierkv[plots]'" in result.stderr


def test_interrupted_keeps_what_is_done(invoke, trace, monkeypatch):
    measure = Comparison.measure

    def some(self, told=None):
        for number, found in enumerate(measure(self, told)):
            if number == 2:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(Comparison, "measure", some)
    result = invoke("replay", trace, "--policy", "lru", "--json")
    assert result.exit_code == 130
    assert "not complete" in result.stderr
    found = json.loads(result.output[: result.output.rindex("}") + 1])
    assert not found["complete"]
    assert len(found["policies"]) == 2


def test_sizes_that_a_policy_cannot_have(invoke, trace):
    result = invoke("replay", trace, "--slots", 96)
    assert result.exit_code == 0
    assert "clock at 96 slots is left out: pool.slots: must be divisible" in result.stderr
    result = invoke("replay", trace, "--slots", 96, "--policy", "clock")
    assert result.exit_code == 2
    assert "must be divisible by policy.ways 64" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "lruu"], ("'lruu'", "did you mean lru?")),
        (["--policy", "clock:wayz=3"], ("policy clock", "wayz", "did you mean ways?")),
        (["--policy", "clock:ways=many"], ("policy clock.ways", "many")),
        (["--policy", "clock:ways=["], ("policy clock", "YAML")),
        (["--slots", "12,x"], ("--slots", "12,x")),
        (["--slots", "0"], ("--slots", "'0'")),
        (["--warmup", "60"], ("--warmup", "60 steps")),
        (["--plot", "a.gif"], ("--plot", ".png, .html")),
        (
            ["--csv", "/nowhere/a.csv", "--policy", "lru"],
            ("--csv", "no such directory", "/nowhere"),
        ),
        (["--accept", "2"], ("--accept",)),
    ],
)
def test_bad_arguments(invoke, trace, arguments, words):
    result = invoke("replay", trace, *arguments)
    assert result.exit_code == 2
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_bad_traces(invoke, trace, tmp_path):
    (tmp_path / "text.npz").write_text("nothing")
    (tmp_path / "cut.npz").write_bytes(trace.read_bytes()[:1000])
    np.savez(tmp_path / "newer.npz", format="tierkv-trace", version=2)
    for name in ("text.npz", "cut.npz", "newer.npz", "missing.npz"):
        result = invoke("replay", tmp_path / name)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert name in result.stderr
