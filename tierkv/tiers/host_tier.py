"""Host memory."""

import torch
from torch import Tensor

from tierkv.tiers import memory
from tierkv.tiers.view_tier import ViewTier


class HostTier(ViewTier):
    """Main memory, in huge pages; page-locked where the cache's device is an accelerator."""

    def memory(self, rows: int, stride: int) -> Tensor:
        pinned = self.device.type != "cpu"
        return memory.allocate("backing.capacity", (rows, stride), torch.device("cpu"), pinned)
