"""What a trace is made of: some of its steps."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive steps of a trace: ``T`` of them, starting at ``start``."""

    start: int
    """Number of the first step."""
    ids: Ints
    """[T, groups, lanes, Q, K] positions in order of rank; -1 is none.

    A group whose entries are all -1, in all lanes, did not step.
    """
    kv_len: Ints
    """[T, lanes] tokens including the step's; query ``q`` sits at ``kv_len - Q + q``."""
    q_len: Ints
    """[T, lanes] live queries, the last ones; 1 to Q."""
    stable: Ints
    """[T, lanes] leading positions that can no longer change."""
    request: Ints
    """[T, lanes] number of the request that steps there; -1 is none, and the lane's other values
    mean nothing. A lane is cold when its number differs from its last one that was not -1."""

    def __len__(self) -> int:
        """Steps."""
        return len(self.ids)

    def __getitem__(self, steps: slice) -> "Chunk":
        """Give some of the steps, as views."""
        first = steps.indices(len(self))[0]
        return Chunk(
            self.start + first,
            self.ids[steps],
            self.kv_len[steps],
            self.q_len[steps],
            self.stable[steps],
            self.request[steps],
        )
