"""The soak command, for a moment."""

from click.testing import CliRunner

from tierkv.testing import soak
from tierkv.testing.model_policies import MODELS


def test_it_draws_every_policy_tier_and_size():
    draws = [soak.draw(seed) for seed in range(400)]
    assert {draw.config["policy"]["use"] for draw in draws} == set(MODELS)
    assert {draw.config["backing"]["use"] for draw in draws} == {"host", "file", "device"}
    assert {draw.shape.top_k for draw in draws} == {1, 2, 4, 8, 16, 32}
    assert max(draw.shape.slots for draw in draws) == 64
    assert {draw.external for draw in draws} == {False, True}


def test_it_says_where_to_go_on(monkeypatch):
    monkeypatch.setattr(soak, "STEPS", 20)
    done = CliRunner().invoke(soak.main, ["--steps", "60", "--seed", "7"])
    assert done.exit_code == 0, done.output
    assert "steps equal the model, seeds 7 to" in done.output


def test_a_failure_names_its_seed(monkeypatch):
    def fail(seed, steps):
        raise AssertionError("plan.kind differs")

    monkeypatch.setattr(soak, "soak", fail)
    done = CliRunner().invoke(soak.main, ["--seed", "7"])
    assert done.exit_code == 1
    assert done.output.startswith("seed 7 failed (K ")
