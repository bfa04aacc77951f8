"""The bound."""

from typing import Any

from tierkv.errors import ConfigError, say
from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy


class Unbounded(OperatorPolicy):
    """Nothing leaves: every id has its own slot. No policy hits more."""

    operator = "unbounded"

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        for slots in limits.slots:
            if slots < limits.max_tokens:
                raise ConfigError(
                    say("pool.slots", f"unbounded needs max_tokens {limits.max_tokens}", got=slots)
                )
        return super().footprint(options, limits)
