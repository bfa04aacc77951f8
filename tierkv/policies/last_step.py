"""The last selection."""

from typing import Any

from tierkv.errors import ConfigError, say
from tierkv.limits import Limits
from tierkv.policies.operator_policy import OperatorPolicy


class LastStep(OperatorPolicy):
    """Keep exactly the stable ids of the last live query.

    Source: the DeepSeek V3.2 gather of CANN recipes, which reuses the previous step's selection.
    """

    operator = "last_step"

    @classmethod
    def footprint(cls, options: Any, limits: Limits) -> int:
        for slots in limits.slots:
            if slots < limits.spec.top_k:
                raise ConfigError(
                    say(
                        "pool.slots",
                        f"last-step needs at least top_k {limits.spec.top_k}",
                        got=slots,
                    )
                )
        return super().footprint(options, limits)
