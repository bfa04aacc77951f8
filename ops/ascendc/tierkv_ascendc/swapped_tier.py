"""Host memory that the device's kernels address."""

import torch
from torch import Tensor

from tierkv.errors import CapacityError, say
from tierkv.tiers import HostTier


class SwappedTier(HostTier):
    """Main memory in the device's address space; to torch, tensors of the device.

    So the host reads and writes it by the device's own operators too, in the order of the stream.
    """

    def memory(self, rows: int, stride: int) -> Tensor:
        import torch_npu

        shape = (rows, stride)
        try:
            memory: Tensor = torch_npu.empty_with_swapped_memory(
                shape, dtype=torch.uint8, device=self.device
            )
        except RuntimeError as error:
            wrong = f"{rows * stride:,} bytes of swapped memory were refused"
            why = str(error).splitlines()[0]
            raise CapacityError(
                say("backing.capacity", f"{wrong}, {why}", do="lower it, or free host memory")
            ) from None
        return memory
