"""Each tier beyond the contract: full disks, crashes, offsets, what a refusal names."""

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest
import torch

import tierkv
from tierkv import CapacityError, SupportsView, TierError
from tierkv.testing.assemble import Shape, assemble, choice
from tierkv.tiers import DeviceTier, FileTier, HostTier, file_tier
from tierkv.tiers.file_tier import FileOptions

LIMITS = Shape().limits
ROWS, STRIDES = (40, 24), (64, 96)


def made(kind, **options):
    return kind(kind.Options(**options), LIMITS)


def open_files():
    return len(os.listdir("/proc/self/fd"))


# --- file ---


def test_the_file_has_no_name_once_it_is_mapped(tmp_path):
    tier = made(FileTier, path=str(tmp_path))
    tier.allocate(ROWS, STRIDES)
    assert list(tmp_path.iterdir()) == []
    rows = torch.arange(40)
    records = torch.arange(40 * 64).to(torch.uint8).view(40, 64)
    tier.write(0, rows, records).wait()
    out = torch.empty_like(records)
    tier.read(0, rows, out).wait()
    assert torch.equal(out, records)
    tier.close()


def test_the_file_is_reserved_before_it_is_mapped(tmp_path, monkeypatch):
    """A file that merely has a size would be a fatal signal once the disk is full."""
    order = []
    reserve, map_file = os.posix_fallocate, torch.from_file

    def reserved(file, start, size):
        order.append("reserve")
        reserve(file, start, size)
        assert os.fstat(file).st_blocks * 512 >= size

    def mapped(name, **how):
        order.append("map")
        assert how["shared"], "a private mapping lives in main memory"
        return map_file(name, **how)

    monkeypatch.setattr(file_tier.os, "posix_fallocate", reserved)
    monkeypatch.setattr(file_tier.torch, "from_file", mapped)
    tier = made(FileTier, path=str(tmp_path))
    tier.allocate((2**12, 2**12), STRIDES)
    tier.close()
    assert order == ["reserve", "map"]


def test_reads_announce_their_rows(tmp_path, monkeypatch):
    tier = made(FileTier, path=str(tmp_path))
    tier.allocate((100, 100), (64, 4096))
    announced = []
    monkeypatch.setattr(file_tier.os, "posix_fadvise", lambda *call: announced.append(call[1:]))
    tier.read(1, torch.tensor([7, 3, 7]), torch.empty((3, 4096), dtype=torch.uint8)).wait()
    start = 8192  # layer 0 takes 6400 bytes, layers start on pages
    wanted = {(start + row * 4096, 4096, os.POSIX_FADV_WILLNEED) for row in (3, 7)}
    assert set(announced) == wanted
    tier.close()


def test_a_full_disk_is_a_capacity_error(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_tier.os, "posix_fallocate", full)
    tier, before = made(FileTier, path=str(tmp_path)), open_files()
    message = r"backing\.capacity: .*bytes do not fit: No space left"
    with pytest.raises(CapacityError, match=message):
        tier.allocate(ROWS, STRIDES)
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before


def test_the_system_refuses_for_real(tmp_path):
    """No mock: the process may not write so large a file."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    tier, before = made(FileTier, path=str(tmp_path)), open_files()
    try:
        message = r"backing\.capacity: 4,194,304 bytes.*backing\.path"
        with pytest.raises(CapacityError, match=message):
            tier.allocate((2**15, 2**15), (64, 64))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before
    tier.allocate(ROWS, STRIDES)  # it may be tried again, smaller
    tier.close()


def test_an_address_space_that_is_full_is_a_capacity_error(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("unable to mmap 4096 bytes: Cannot allocate memory (12)")

    monkeypatch.setattr(file_tier.torch, "from_file", refuse)
    tier, before = made(FileTier, path=str(tmp_path)), open_files()
    with pytest.raises(CapacityError, match=r"backing\.capacity.*mmap"):
        tier.allocate(ROWS, STRIDES)
    assert list(tmp_path.iterdir()) == []
    assert open_files() == before


@pytest.mark.parametrize("where", ["missing", "a-file", "/proc"])
def test_a_path_that_cannot_be_written_is_a_tier_error(tmp_path, where):
    (tmp_path / "a-file").write_text("")
    path = str(tmp_path / where)
    with pytest.raises(TierError, match=rf"backing\.path: cannot create a file.*{where}"):
        made(FileTier, path=path).allocate(ROWS, STRIDES)


def test_a_cache_that_gets_no_file_keeps_nothing(tmp_path, monkeypatch):
    closed = []
    close = DeviceTier.close
    monkeypatch.setattr(DeviceTier, "close", lambda tier: (closed.append(tier), close(tier)))
    with pytest.raises(TierError, match=r"backing\.path"):
        assemble(Shape(), backing=choice(FileTier, {"path": str(tmp_path / "missing")}))
    assert len(closed) == 1


def test_a_crash_leaves_nothing_behind(tmp_path):
    program = f"""
import os
from tierkv.testing.assemble import Shape
from tierkv.tiers import FileTier
from tierkv.tiers.file_tier import FileOptions
tier = FileTier(FileOptions(path={str(tmp_path)!r}), Shape().limits)
tier.allocate((40, 24), (64, 96))
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_default_path_is_the_systems(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert FileOptions().path == str(tmp_path)


def test_only_memory_can_be_viewed():
    assert not isinstance(made(FileTier), SupportsView)
    assert isinstance(made(HostTier), SupportsView)
    assert isinstance(made(DeviceTier), SupportsView)
    with pytest.raises(tierkv.ConfigError, match=r"pool\.use: kernels cannot address it.*'file'"):
        assemble(Shape(), pool="file")


# --- memory ---


@pytest.mark.parametrize(
    ("kind", "setting"), [(HostTier, r"backing\.capacity"), (DeviceTier, r"pool\.slots")]
)
def test_memory_that_is_refused_names_its_setting(kind, setting):
    tier = made(kind)
    with pytest.raises(CapacityError, match=rf"{setting}: 72,057,594,037,927,936 bytes"):
        tier.allocate((2**50,), (64,))
    tier.close()


@pytest.mark.parametrize("kind", [HostTier, DeviceTier])
def test_case_17_rows_past_two_gibibytes(kind):
    stride = 1152
    count = 2**31 // stride + 5
    tier = made(kind)
    tier.allocate((4, count), (stride, stride))  # never touched but at its end
    rows = torch.tensor([count - 1, 0, count - 3])
    assert int(rows[0]) * stride > 2**31
    records = torch.arange(3 * stride).to(torch.uint8).view(3, stride)
    tier.write(1, rows, records).wait()
    out = torch.empty((2, stride), dtype=torch.uint8)
    tier.read(1, rows[[2, 0]], out).wait()
    assert torch.equal(out, records[[2, 0]])
    assert torch.equal(tier.view(1)[-1], records[0])
    tier.close()


# --- main memory of a cache on an accelerator ---


class Elsewhere(HostTier):
    """As if the cache were on another device; here its memory is what it is."""

    def __init__(self, options, limits):
        super().__init__(options, limits)
        self.device = torch.device("cuda", 0)

    def memory(self, rows, stride):
        return torch.zeros((rows, stride), dtype=torch.uint8)


def test_the_host_waits_for_kernels_that_may_write_its_memory(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    rows, records = torch.arange(4), torch.ones((4, 64), dtype=torch.uint8)
    for kind, times in ((HostTier, 0), (Elsewhere, 2)):
        tier = made(kind)
        tier.allocate(ROWS, STRIDES)
        tier.write(0, rows, records)
        tier.read(0, rows, torch.empty_like(records))
        assert waited == [torch.device("cuda", 0)] * times


def test_records_are_read_to_where_they_are_wanted():
    tier = made(DeviceTier)
    tier.allocate(ROWS, STRIDES)
    out = torch.empty((4, 64), dtype=torch.uint8, device="meta")
    tier.read(0, torch.arange(4), out).wait()
