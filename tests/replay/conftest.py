import numpy as np
import pytest

from tierkv.trace import Trace


@pytest.fixture(scope="session")
def random_trace():
    """Make a trace with everything that may be odd about one."""

    def make(seed, *, steps=30, groups=2, lanes=3, queries=2, top_k=6, positions=64, whole=False):
        random = np.random.default_rng(seed)
        shape = (steps, groups, lanes, queries, top_k)
        hot = random.integers(0, positions // 2, (groups, 1, lanes, 8))
        picks = random.integers(0, 8, (steps, groups, lanes, queries * top_k))
        ids = np.take_along_axis(
            np.broadcast_to(np.moveaxis(hot, 1, 0), (steps, groups, lanes, 8)), picks, 3
        ).reshape(shape)
        far = random.random(shape) < 0.4
        ids = np.where(far, random.integers(-2, positions + 8, shape), ids).astype(np.int32)
        grown = np.arange(steps)[:, None] + random.integers(0, 3, (steps, lanes))
        kv_len = np.clip(positions - steps - 4 + grown, queries, positions).astype(np.int32)
        q_len = random.integers(1, queries + 1, (steps, lanes)).astype(np.int32)
        request = np.repeat(np.arange(lanes, dtype=np.int32)[None], steps, 0)
        if not whole:
            request = request + lanes * (np.arange(steps)[:, None] // random.integers(7, 19, lanes))
            request = np.where(random.random((steps, lanes)) < 0.1, -1, request).astype(np.int32)
        return Trace.from_arrays(ids, kv_len, q_len=q_len, request=request, name=f"seed {seed}")

    return make
