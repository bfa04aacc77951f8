"""The file format: round trips, defaults, streaming, and every way a file can be wrong."""

import io
import json
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierkv.errors import TierKVError, TraceError
from tierkv.trace import Trace, TraceWriter, layout, open_trace

ROWS = ("kv_len", "q_len", "stable", "request")


def minimal(**arrays):
    """The least that is a trace: 3 steps of 4 ids."""
    ids = np.arange(12, dtype=np.int32).reshape(3, 1, 1, 1, 4)
    kv_len = np.array([[20], [21], [22]], np.int32)
    return {"ids": ids, "kv_len": kv_len, "format": "tierkv-trace", "version": 1} | arrays


def write(path, arrays):
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def random_trace(seed, shape=(7, 2, 3, 2, 4)):
    random = np.random.default_rng(seed)
    steps, _, lanes, queries, _ = shape
    kv_len = random.integers(queries, 50, (steps, lanes), np.int32)
    q_len = random.integers(1, queries, (steps, lanes), np.int32, endpoint=True)
    return Trace.from_arrays(
        random.integers(-1, 50, shape, np.int32), kv_len, q_len=q_len,
        stable=random.integers(0, kv_len - q_len, dtype=np.int32, endpoint=True),
        request=random.integers(-1, 3, (steps, lanes), np.int32),
        meta={"seed": seed, "model": "Modell ß"},
    )  # fmt: skip


def assert_equal(one, other):
    np.testing.assert_array_equal(one.ids(), other.ids())
    for name in ROWS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.meta == other.meta


@given(seed=st.integers(0, 2**32), compress=st.booleans(), most=st.integers(1, 9))
def test_round_trip(tmp_path_factory, seed, compress, most):
    path = tmp_path_factory.mktemp("trace") / "a.npz"
    random = np.random.default_rng(seed)
    trace = random_trace(seed, tuple(random.integers(1, 6, 5)))
    trace.save(path, compress=compress)
    read = open_trace(path)
    assert_equal(read, trace)
    chunks = list(read.chunks(most))
    assert [len(chunk) for chunk in chunks[:-1]] == [most] * (len(chunks) - 1)
    np.testing.assert_array_equal(np.concatenate([chunk.ids for chunk in chunks]), trace.ids())
    np.testing.assert_array_equal(np.concatenate([c.kv_len for c in chunks]), trace.kv_len)


def test_numpy_reads_it_without_pickles(tmp_path):
    random_trace(0).save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"ids_0000", *ROWS, "format", "version", "meta"}
        assert (str(arrays["format"]), int(arrays["version"])) == ("tierkv-trace", 1)
        assert json.loads(str(arrays["meta"])) == {"seed": 0, "model": "Modell ß"}


def test_equal_traces_are_equal_files(tmp_path):
    random_trace(0).save(tmp_path / "a.npz")
    random_trace(0).save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_the_minimum(tmp_path):
    trace = open_trace(write(tmp_path / "a.npz", minimal()))
    assert (trace.steps, trace.groups, trace.lanes, trace.queries, trace.top_k) == (3, 1, 1, 1, 4)
    assert trace.q_len.tolist() == [[1], [1], [1]]
    assert trace.stable.tolist() == [[19], [20], [21]]
    assert trace.request.tolist() == [[0], [0], [0]]
    assert trace.meta == {}
    assert trace.positions == 22


def test_defaults_of_several_lanes_and_queries():
    trace = Trace.from_arrays(np.zeros((2, 1, 2, 3, 4), np.int32), np.array([[2, 9]] * 2, np.int32))
    assert trace.q_len.tolist() == [[3, 3]] * 2
    assert trace.stable.tolist() == [[0, 6]] * 2
    assert trace.request.tolist() == [[0, 1]] * 2


def test_chunks_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "CHUNK_BYTES", 2 * 4 * 48)  # two steps
    trace = random_trace(3)
    trace.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as arrays:
        found = sorted(name for name in arrays if name.startswith("ids"))
        assert found == ["ids_0000", "ids_0001", "ids_0002", "ids_0003"]
        assert len(arrays["ids_0003"]) == 1
    assert_equal(open_trace(tmp_path / "a.npz"), trace)


def test_more_chunks_than_four_digits_count(tmp_path):
    ids = {f"ids_{number:04}": minimal()["ids"][:1] + number for number in range(10_001)}
    kv_len = np.full((10_001, 1), 20_000, np.int32)
    trace = open_trace(write(tmp_path / "a.npz", minimal(ids=None, kv_len=kv_len) | ids))
    assert trace.ids()[:, 0, 0, 0, 0].tolist() == list(range(10_001))


def test_big_endian(tmp_path):
    arrays = minimal()
    arrays |= {name: arrays[name].astype(">i4") for name in ("ids", "kv_len")}
    trace = open_trace(write(tmp_path / "a.npz", arrays))
    assert trace.ids().dtype == np.int32
    np.testing.assert_array_equal(trace.ids(), minimal()["ids"])


@pytest.mark.parametrize("compress", [False, True])
def test_memory_is_bounded(tmp_path, compress):
    """64 MB of ids in one array, read and written with a few megabytes."""
    path, steps = tmp_path / "a.npz", 8192
    block = np.zeros((64, 1, 1, 1, 2048), np.int32)
    kv_len = np.full((steps, 1), 4096, np.int32)
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        with archive.open("ids.npy", "w") as out:
            header = {"descr": "<i4", "fortran_order": False, "shape": (steps, 1, 1, 1, 2048)}
            np.lib.format.write_array_header_1_0(out, header)
            for _ in range(steps // len(block)):
                out.write(block)
        for name, array in {**minimal(kv_len=kv_len), "ids": None}.items():
            if array is not None:
                with archive.open(f"{name}.npy", "w") as out:
                    np.lib.format.write_array(out, np.array(array))
    tracemalloc.start()
    try:
        trace = open_trace(path)
        with TraceWriter(tmp_path / "b.npz", (1, 1, 1, 2048)) as writer:
            for chunk in trace.chunks(64):
                writer.write(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert writer.steps == steps
    assert peak < 24 << 20  # the writer holds a chunk, and its bytes when it writes them


def fault(path):
    """The one line that reading a whole file raises."""
    with pytest.raises(TraceError) as caught:
        for _ in open_trace(path).chunks(1):
            pass
    text = str(caught.value)
    assert text.startswith(str(path))
    assert len(text.splitlines()) == 1
    assert isinstance(caught.value, TierKVError)
    return text


OBJECTS = np.array([{}, None])
ONE = np.array([[1], [1], [1]], np.int32)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": None}, "is no tierkv-trace"),
        ({"format": "other-trace"}, "is no tierkv-trace"),
        ({"format": np.array(3)}, "format: must be text, got 'int64'"),
        ({"version": None}, "version: is missing"),
        ({"version": 2}, "version: must be 1, got 2 (upgrade tierkv)"),
        ({"version": 0}, "version: must be 1, got 0"),
        ({"version": "1"}, "version: must be a whole number"),
        ({"version": np.array([1, 1])}, "version: must be one value, got [2]"),
        ({"ids": None}, "ids: must be one array ids, or ids_0000"),
        ({"ids": None, "ids_0001": minimal()["ids"]}, "ids: must be one array ids, or ids_0000"),
        ({"ids_0000": minimal()["ids"]}, "ids: must be one array ids, or ids_0000"),
        ({"ids": minimal()["ids"].astype(np.int64)}, "ids: must be int32 in C order, got 'int64,"),
        ({"ids": np.asfortranarray(np.ones((3, 2, 2, 1, 4), np.int32))}, "Fortran order"),
        ({"ids": OBJECTS}, "ids: must be int32"),
        ({"ids": minimal()["ids"][0]}, "ids: must be [steps, groups, lanes, queries, top-k]"),
        ({"ids": minimal()["ids"][:0], "kv_len": ONE[:0]}, "each at least 1"),
        (
            {"ids": None, "ids_0000": minimal()["ids"], "ids_0001": minimal()["ids"][..., :2]},
            "ids_0001: must be [steps, groups, lanes, queries, top-k] like ids_0000",
        ),
        ({"kv_len": None}, "kv_len: is missing"),
        ({"kv_len": OBJECTS}, "Object arrays cannot be loaded"),
        ({"kv_len": ONE.astype(np.float32)}, "kv_len: must be int32 [3, 1]"),
        ({"kv_len": ONE[:2]}, "kv_len: must be int32 [3, 1], got 'int32 [2, 1]'"),
        ({"kv_len": -ONE}, "kv_len: must be at least 0 in step 0, lane 0, got -1"),
        ({"q_len": ONE + 1}, "q_len: must be 1 to 1 in step 0, lane 0, got 2"),
        ({"q_len": ONE - 1}, "q_len: must be 1 to 1 in step 0, lane 0, got 0"),
        ({"stable": ONE * 20}, "stable: must be 0 to 19 in step 0, lane 0, got 20"),
        ({"request": ONE - 3}, "request: must be at least -1 in step 0, lane 0, got -2"),
        ({"meta": "no"}, "meta: is not JSON"),
        ({"meta": "[]"}, "meta: must be a JSON object"),
        ({"meta": OBJECTS}, "Object arrays cannot be loaded"),
        ({"meta": "x" * (1 << 20)}, "meta: is larger than"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, changes, said):
    assert said in fault(write(tmp_path / "a.npz", minimal(**changes)))


def test_idle_lanes_may_hold_anything():
    trace = Trace.from_arrays(
        minimal()["ids"], -ONE, q_len=ONE * 9, stable=ONE * 9, request=ONE - 2
    )
    assert trace.positions == 0


def test_every_cut_is_noticed(tmp_path):
    random_trace(1).save(tmp_path / "whole.npz", compress=False)
    whole = (tmp_path / "whole.npz").read_bytes()
    path = tmp_path / "a.npz"
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        fault(path)


@pytest.mark.parametrize("compress", [False, True])
def test_every_flipped_byte_of_ids_is_noticed(tmp_path, compress):
    random_trace(1).save(tmp_path / "whole.npz", compress=compress)
    whole = bytearray((tmp_path / "whole.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "whole.npz") as archive:
        info = archive.getinfo("ids_0000.npy")
    start = info.header_offset + 30 + len(info.filename) + 20
    path = tmp_path / "a.npz"
    for at in range(start, start + info.compress_size, 23):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        fault(path)


def test_random_damage_never_raises_anything_else(tmp_path):
    random_trace(1).save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    random, path = np.random.default_rng(0), tmp_path / "a.npz"
    for _ in range(500):
        damaged = bytearray(whole)
        for at in random.integers(0, len(whole), 3):
            damaged[at] = random.integers(256)
        path.write_bytes(damaged)
        with suppress(TraceError):
            open_trace(path).ids()


def test_a_header_that_promises_too_much(tmp_path):
    head = io.BytesIO()
    shape = (1 << 40, 1, 1, 1, 1 << 20)
    header = {"descr": "<i4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, header)
    write(tmp_path / "a.npz", minimal(ids=None))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("ids.npy", head.getvalue())
    assert "is damaged" in fault(tmp_path / "a.npz")


def test_no_file_and_a_folder(tmp_path):
    assert "cannot be read, No such file" in fault(tmp_path / "none.npz")
    assert "cannot be read, Is a directory" in fault(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert "is no trace, damaged or cut short" in fault(tmp_path / "empty")


class TestWriter:
    def test_another_shape(self, tmp_path):
        chunk = next(random_trace(0).chunks())
        with (
            pytest.raises(TraceError, match=r"each step must be \[1, 1, 1, 4\], got"),
            TraceWriter(tmp_path / "a.npz", (1, 1, 1, 4)) as writer,
        ):
            writer.write(chunk)
        assert list(tmp_path.iterdir()) == []

    def test_nothing_written(self, tmp_path):
        with pytest.raises(TraceError, match="each at least 1"):
            TraceWriter(tmp_path / "a.npz", (1, 1, 1, 4)).close()
        assert list(tmp_path.iterdir()) == []

    def test_an_error_keeps_the_old_file(self, tmp_path):
        random_trace(0).save(tmp_path / "a.npz")
        old = (tmp_path / "a.npz").read_bytes()
        with (
            pytest.raises(KeyError),
            TraceWriter(tmp_path / "a.npz", (2, 3, 2, 4)) as writer,
        ):
            writer.write({}["no chunk"])
        assert (tmp_path / "a.npz").read_bytes() == old
        assert len(list(tmp_path.iterdir())) == 1

    def test_where_nothing_can_be_written(self, tmp_path):
        with pytest.raises(TraceError, match="cannot be written, No such file"):
            TraceWriter(tmp_path / "none" / "a.npz", (1, 1, 1, 4))

    def test_a_full_disk(self, tmp_path, monkeypatch):
        def full(*arguments, **options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np.lib.format, "write_array", full)
        with pytest.raises(TraceError, match="No space left on device"):
            random_trace(0).save(tmp_path / "a.npz")
        assert list(tmp_path.iterdir()) == []
