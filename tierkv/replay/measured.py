"""What a replay counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tierkv.types import GroupStats


@dataclass(frozen=True)
class Measured:
    """One policy at one size over one trace, behind the warm-up."""

    policy: str
    """As asked for, options included."""
    slots: int
    """P of each group."""
    bound: bool
    """Whether no servable policy can hit more."""
    native: bool
    """Whether compiled kernels ran, step after step; else operators, called one by one."""
    steps: int
    groups: tuple[GroupStats, ...]
    rates: tuple[npt.NDArray[np.float32], ...]
    """Of each group, [steps that selected anything]: hit rate per entry of every step."""
    seconds: float
    """Of CPU spent in plan and place, all groups."""

    def rate(self, unique: bool = False) -> float:
        """Give the hit rate per entry, or per distinct id of a lane and step; 0 of nothing."""
        hits = sum(g.unique_hits if unique else g.hits for g in self.groups)
        misses = sum(g.unique_misses if unique else g.misses for g in self.groups)
        return hits / max(hits + misses, 1)

    @property
    def p10(self) -> float:
        """Hit rate per entry that nine tenths of the steps reach."""
        return _p10(self.rates)

    @property
    def worst(self) -> float:
        """Hit rate of the worst group."""
        return min(group.hit_rate for group in self.groups)

    def row(self, record_bytes: int) -> dict[str, Any]:
        """Give the figures of a table, JSON or CSV; what is "a step" is one of one group."""
        each = 1 / max(self.steps * len(self.groups), 1)
        return {
            "policy": self.policy,
            "slots": self.slots,
            "bound": self.bound,
            "native": self.native,
            "hit_rate": self.rate(),
            "hit_rate_p10": self.p10,
            "hit_rate_worst_group": self.worst,
            "unique_hit_rate": self.rate(unique=True),
            **_moved(self.groups, each, record_bytes),
            "us_per_step": 1e6 * self.seconds * each,
        }

    def group_rows(self, record_bytes: int) -> list[dict[str, Any]]:
        """Give the figures group by group."""
        return [
            {
                "policy": self.policy,
                "slots": self.slots,
                "group": number,
                "hit_rate": group.hit_rate,
                "hit_rate_p10": _p10((self.rates[number],)),
                "unique_hit_rate": group.unique_hit_rate,
                **_moved((group,), 1 / max(self.steps, 1), record_bytes),
            }
            for number, group in enumerate(self.groups)
        ]


def _p10(rates: tuple[npt.NDArray[np.float32], ...]) -> float:
    every = np.concatenate(rates)
    return float(np.quantile(every, 0.1)) if len(every) else 0.0


def _moved(groups: tuple[GroupStats, ...], each: float, record_bytes: int) -> dict[str, float]:
    def a_step(name: str) -> float:
        return float(sum(getattr(group, name) for group in groups)) * each

    rows = a_step("fetched") + a_step("installs")
    return {
        "misses_per_step": a_step("unique_misses"),
        "installs_per_step": a_step("installs"),
        "superseded_per_step": a_step("superseded"),
        "bypassed_per_step": a_step("bypassed"),
        "rows_per_step": rows,
        "bytes_per_step": rows * record_bytes,
    }
