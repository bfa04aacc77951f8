"""Random small steps by the million, each compared with the model in dictionaries.

``python -m tierkv.testing.soak --steps 1000000 --seed 0``. Seeds follow one another, 500 steps
each; a run that was stopped goes on from the seed it has printed.
"""

import random
import time
from dataclasses import dataclass

import click
import torch

from tierkv.errors import ConfigError
from tierkv.ops import NATIVE
from tierkv.testing.assemble import INDEXED, Shape
from tierkv.testing.model_policies import MODELS
from tierkv.testing.subject import Subject
from tierkv.testing.traffic import Traffic

STEPS = 500
"""Of each seed."""

WAYS = {"set-fifo": (1, 2, 4, 16), "clock": (1, 4, 8, 64, "all"), "set-lru": (1, 4, 16)}
"""Options that are drawn for the policies that have sets."""


@dataclass(frozen=True)
class Draw:
    """What one seed runs on."""

    config: dict[str, object]
    shape: Shape
    external: bool

    def __str__(self) -> str:
        shape, words = self.shape, [f"{value}" for value in self.config.values()]
        words.append("external" if self.external else "own pages")
        return f"K {shape.top_k}, P {shape.slots}, Q {shape.queries}, {', '.join(words)}"


def draw(seed: int) -> Draw:
    """Draw policy, tier, schedule, operators and sizes: K up to 32, P up to 64."""
    chance = random.Random(seed)
    policy = chance.choice(list(MODELS))
    options: dict[str, object] = {"use": policy}
    if policy in WAYS:
        options["ways"] = chance.choice(WAYS[policy])
        if policy != "set-lru":
            options["hash"] = chance.choice(["multiplicative", "low-bits"])
    config: dict[str, object] = {
        "policy": options,
        "backing": {"use": chance.choice(["host", "host", "file", "device"])},
        "installer": {"schedule": chance.choice(["inline", "worker"])},
        "server": {"depth": chance.choice([0, 1, 2])},
        "ops": chance.choice(["native", "native", "reference"]) if NATIVE else "reference",
    }
    top_k = chance.choice([1, 2, 4, 8, 16, 32])
    tokens = 64 if policy == "unbounded" else chance.choice([48, 64, 96])
    shape = Shape(
        lanes=3, batch=2, queries=chance.randint(1, 3), top_k=top_k, max_tokens=tokens, pages=14,
        slots=64 if policy == "unbounded" else chance.randint(1, 64), layout=INDEXED,
        groups=chance.choice([((0,), (1, 2)), ((0, 1),), ((0,), (1,))]),
    )  # fmt: skip
    return Draw(config, shape, chance.random() < 0.15)


def soak(seed: int, steps: int) -> tuple[Draw, int]:
    """Run a seed; give what it ran on, and its steps: fewer sizes than drawn may fit a policy."""
    drawn = draw(seed)
    subject = Subject(drawn.config, drawn.external)
    try:
        shape = subject.shape(drawn.shape)
    except ConfigError:
        return drawn, 0
    with subject.open(drawn.shape) as driver:
        traffic = Traffic(driver, shape, seed)
        traffic.run(steps)
        traffic.look()
    return Draw(drawn.config, shape, drawn.external), traffic.steps


@click.command()
@click.option("--steps", default=1_000_000, show_default=True, help="Steps to make at least.")
@click.option("--seed", default=0, show_default=True, help="Seed to begin with.")
@click.option("--minutes", type=float, help="Stop after so many, if that comes first.")
def main(steps: int, seed: int, minutes: float | None) -> None:
    """Make random small steps on small caches and compare each with the model."""
    torch.set_num_threads(1)
    done, first, start, told = 0, seed, time.monotonic(), 0.0
    while done < steps:
        try:
            done += soak(seed, min(STEPS, steps - done))[1]
        except BaseException:
            click.echo(f"seed {seed} failed ({draw(seed)}), after {done:,} steps from seed {first}")
            raise
        seed += 1
        spent = time.monotonic() - start
        if spent - told > 10:
            told = spent
            click.echo(f"{done:,} steps, {spent:,.0f} s, next: --seed {seed}")
        if minutes is not None and spent > 60 * minutes:
            break
    click.echo(f"{done:,} steps equal the model, seeds {first} to {seed - 1}; next: --seed {seed}")


if __name__ == "__main__":
    main()
