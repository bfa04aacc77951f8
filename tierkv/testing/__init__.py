"""Contract suites for every interface: derive a pytest class and name what is yours.

Whole configurations are tested by ``pytest --pyargs tierkv.testing.conformance``.
``class TestMru(tierkv.testing.PolicyContract): make = Mru``. They need pytest.
"""

import pytest

pytest.register_assert_rewrite(
    "tierkv.testing.audit",
    "tierkv.testing.conformance",
    "tierkv.testing.driver",
    "tierkv.testing.harness",
    "tierkv.testing.invariants",
    "tierkv.testing.mirror",
    "tierkv.testing.policy_contract",
    "tierkv.testing.flaky_tier",
    "tierkv.testing.ledger",
    "tierkv.testing.scheme_contract",
    "tierkv.testing.serving",
    "tierkv.testing.tier_contract",
)

from tierkv.testing.policy_contract import PolicyContract  # noqa: E402 - after the rewrite hook
from tierkv.testing.scheme_contract import SchemeContract  # noqa: E402
from tierkv.testing.tier_contract import TierContract  # noqa: E402

__all__ = ["PolicyContract", "SchemeContract", "TierContract"]
