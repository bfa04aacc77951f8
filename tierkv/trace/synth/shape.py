"""How large a synthetic trace is."""

import attrs
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@attrs.frozen
class Shape:
    """Sizes of a synthetic trace of one query a step, one token longer with each."""

    steps: int = 1800
    context: int = 65_536
    """``kv_len`` of the first step, tokens."""
    top_k: int = 2048
    groups: int = 1
    lanes: int = 1
