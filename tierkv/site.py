"""What planners, servers and installers are built from."""

from dataclasses import dataclass, field

from torch import Tensor

from tierkv.interfaces.policy import Policy
from tierkv.interfaces.tier import Tier
from tierkv.limits import Limits
from tierkv.ops import Ops


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The allocated pieces of a cache."""

    limits: Limits
    ops: Ops
    backing: Tier
    pool: Tier
    """Rows are ``lane * P + slot``; it has the power ``SupportsView``."""
    policies: tuple[Policy, ...]
    """One a group."""
    counters: Tensor
    """[groups, len(Counter)] int64, on the device."""
    counters_of: tuple[Tensor, ...]
    """One a group, its row of ``counters``: the very tensor that its policy has. To a compiler two
    views of one memory are two inputs that alias."""
    _pools: dict[int, Tensor] = field(default_factory=dict)

    def pool_view(self, layer: int) -> Tensor:
        """Give a layer's pool as [lanes, P, stride] uint8, the same tensor to all."""
        if layer not in self._pools:
            view: Tensor = self.pool.view(layer)  # type: ignore[attr-defined]  # probed at build
            self._pools[layer] = view.view(self.limits.lanes, -1, view.shape[1])
        return self._pools[layer]
