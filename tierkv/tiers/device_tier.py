"""Device memory."""

from torch import Tensor

from tierkv.tiers import memory
from tierkv.tiers.view_tier import ViewTier


class DeviceTier(ViewTier):
    """Memory of the cache's device: the pool, or a backing that never leaves it."""

    def memory(self, rows: int, stride: int) -> Tensor:
        return memory.allocate("pool.slots", (rows, stride), self.device)
