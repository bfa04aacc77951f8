"""With one id a step the policies are the classical ones: hits as libCacheSim counts them."""

import time

import numpy as np
import pytest

from tierkv.config import make_registry
from tierkv.ops import NATIVE, REFERENCE
from tierkv.replay import Contender
from tierkv.replay.run import PolicyRun
from tierkv.trace import Shape, Trace, synthesize

libcachesim = pytest.importorskip("libcachesim")
REGISTRY = make_registry()
OPS = NATIVE or REFERENCE
THEIRS = {
    "lru": libcachesim.LRU,
    "fifo": libcachesim.FIFO,
    "sieve": libcachesim.Sieve,
    "s3-fifo": libcachesim.S3FIFO,
    "clock:ways=all": libcachesim.Clock,
}
RECORD = [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]  # "oracleGeneral"


def requests(kind, count):
    """Give ids [count] int32."""
    if kind == "zipf":
        shape = Shape(steps=count, context=count // 20, top_k=1)
        return synthesize("zipf", shape).ids().ravel()
    if kind == "stack":  # a selection after the other
        steps = -(-count // 256)
        ids = synthesize("stack", Shape(steps=steps, context=8192, top_k=256)).ids()
        return ids.ravel()[:count]
    return (np.arange(count) % 1100).astype(np.int32)


def trace_of(ids):
    kv_len = np.full((len(ids), 1), ids.max() + 2, np.int32)
    return Trace.from_arrays(ids.reshape(-1, 1, 1, 1, 1), kv_len)


def ours(name, ids, slots):
    run = PolicyRun(Contender.parse(name, REGISTRY), slots, trace_of(ids), OPS)
    start = time.perf_counter()
    for chunk in run.trace.chunks():
        run.step(chunk)
    return run.counts()[0]["hits"], time.perf_counter() - start


def theirs(name, ids, slots, folder):
    records = np.zeros(len(ids), RECORD)
    records["id"], records["size"], records["next"] = ids, 1, -1
    records.tofile(folder / "requests.bin")
    reader = libcachesim.TraceReader(
        str(folder / "requests.bin"),
        libcachesim.TraceType.ORACLE_GENERAL_TRACE,
        libcachesim.ReaderInitParam(ignore_obj_size=True),
    )
    pool = THEIRS[name](slots)
    start = time.perf_counter()
    missed, _ = pool.process_trace(reader)
    return len(ids) - round(missed * len(ids)), time.perf_counter() - start


@pytest.mark.parametrize("slots", [100, 1000])
@pytest.mark.parametrize("kind", ["zipf", "stack", "cyclic"])
@pytest.mark.parametrize("name", THEIRS)
def test_hits_equal(name, kind, slots, tmp_path):
    ids = requests(kind, 60_000 if NATIVE else 3_000)
    assert ours(name, ids, slots)[0] == theirs(name, ids, slots, tmp_path)[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["zipf", "stack", "cyclic"])
@pytest.mark.parametrize("name", THEIRS)
def test_hits_equal_over_a_million(name, kind, tmp_path):
    ids = requests(kind, 1_000_000)
    assert ours(name, ids, 1000)[0] == theirs(name, ids, 1000, tmp_path)[0]


@pytest.mark.long
@pytest.mark.skipif(NATIVE is None, reason="the native operators are not built")
@pytest.mark.parametrize("name", ["lru", "fifo", "s3-fifo"])
def test_ten_million_requests_are_as_fast(name, tmp_path):
    """Interleaved, the best of three each: the machine has other work."""
    ids = requests("zipf", 10_000_000)
    runs = [(ours(name, ids, 8192), theirs(name, ids, 8192, tmp_path)) for _ in range(3)]
    assert runs[0][0][0] == runs[0][1][0]
    mine, other = (min(run[side][1] for run in runs) for side in (0, 1))
    print(f"{name}: {len(ids) / mine / 1e6:.1f} against {len(ids) / other / 1e6:.1f} million a s")
    assert mine <= other
