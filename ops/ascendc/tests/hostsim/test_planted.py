"""Every kind of fault, planted alone in a small kernel, is found, and its good twin is clean."""

from pathlib import Path

import pytest
import torch
from hostsim import RefusedError

OPS = Path(__file__).parent / "ops"
EVENTS = [
    *("MTE2_V", "V_MTE2", "MTE2_S", "S_MTE2", "MTE3_V", "V_MTE3"),
    *("MTE3_S", "S_MTE3", "V_S", "S_V", "MTE2_MTE3", "MTE3_MTE2"),
]
ORDER = {
    **{event: (i, "race", "without order") for i, event in enumerate(EVENTS)},
    "V after V": (12, "race", "V writes without order what V"),
    "MTE2 after MTE2": (13, "race", "WAW on UB"),
    "MTE3 after MTE3": (14, "race", "WAW on y"),
    "edge by way of V": (15, "race", "MTE3 reads without order what MTE2 writes"),
    "load what was stored": (16, "race", "RAW on y"),
    "flag left set": (17, "flag", "still set at the end"),
    "flag set twice": (18, "flag", "set twice"),
    "flag never set": (19, "flag", "hangs"),
    "nine event ids": (20, "flag", "all 8 event ids"),
    "event id 8": (21, "flag", "0 to 7"),
    "in place after a reader": (22, "race", "WAR on UB"),
    "scalar behind a barrier of V": (23, "race", "S reads without order what V writes"),
    "MTE3 behind a barrier of V": (24, "race", "MTE3 reads without order what V writes"),
    "scalar before a clear": (25, "race", "V writes without order what S writes"),
    "the wrong half of two": (26, "race", "WAR on UB"),
}
MEMORY = {
    "past the tensor": (100, "bounds", "of x, which has 1024"),
    "past the GlobalTensor": (101, "bounds", "ends before"),
    "before the tensor": (102, "bounds", "bytes -32"),
    "past the buffer": (103, "bounds", "of a UB tensor of 256"),
    "scalar past the buffer": (104, "bounds", "bytes 256 to 260"),
    "gather past the buffer": (105, "bounds", "bytes 256 to 260"),
    "misaligned address": (106, "alignment", "multiple of 32"),
    "odd length": (107, "alignment", "multiple of 32"),
    "compare odd length": (108, "alignment", "multiple of 256"),
    "compare integers": (109, "type", "EQ only"),
    "too much UB": (110, "ub", "asked for"),
    "buffer where Select works": (111, "ub", "8 KiB"),
    "read unwritten": (112, "undefined", "GetValue"),
    "store unwritten": (113, "undefined", "DataCopyPad"),
    "read the padding": (114, "undefined", "GetValue"),
    "no blocks": (115, "alignment", "blockCount"),
    "queue too full": (116, "queue", "no buffer is free"),
    "queue not freed": (117, "queue", "never freed"),
    "queue empty": (118, "queue", "hangs"),
    "overlap": (119, "overlap", "in part"),
    "cast in place": (120, "overlap", "overlaps a source"),
    "copy to a misaligned address": (121, "alignment", "multiple of 32"),
    "scalar to a misaligned address": (122, "alignment", "its size"),
}
VALUES = {
    "past the tensor into the next": (150, "bounds", "outside of every tensor"),
    "load of unwritten workspace": (151, "undefined", "DataCopy uses"),
    "load of an unwritten output": (152, "undefined", "DataCopy uses"),
    "read of an unwritten output": (153, "undefined", "GetValue of bytes never written: y +12"),
    "workspace of the system": (154, "bounds", "outside of every tensor"),
    "gather from the target": (155, "overlap", "gathered from"),
    "gather backwards": (156, "bounds", "past UB"),
    "compress onto the mask": (157, "overlap", "the mask"),
    "mask of unwritten values": (158, "undefined", "bits of a mask"),
    "select by unwritten values": (159, "undefined", "DataCopyPad"),
    "tensor of before Reset": (160, "bounds", "before TPipe::Reset"),
    "65 buffers": (161, "ub", "more than 64"),
    "a work buffer too small": (162, "bounds", "bytes 0 to 128 of a UB tensor of 96"),
}
CORES = {
    "handover": (200, "cores", "on core 0"),
    "same bytes": (201, "cores", "WAW on y"),
    "overwrite what others read": (202, "cores", "WAR on z"),
    "missing SyncAll": (203, "sync", "ends without"),
    "false sharing": (204, "cache", "line of 64"),
    "never cleaned": (205, "cache", "never cleaned"),
    "stale read": (206, "cache", "DataCacheCleanAndInvalid"),
    "copy meets cache": (207, "cache", "still in a scalar cache"),
    "neighbours": (208, "race", "WAW on y +8: MTE3"),
    "scalar beside a copy": (209, "cache", "what MTE3 of core 0 wrote"),
    "stale write": (210, "cache", "what MTE3 of core 0 wrote"),
    "stale neighbour": (211, "cache", "DataCacheCleanAndInvalid"),
}
CASES = {**ORDER, **MEMORY, **VALUES, **CORES}


@pytest.fixture(scope="module")
def run(sim):
    kernel = sim("planted", OPS)

    def run(which, bad, blocks=1, cores=48, **options):
        x, y, z = (torch.zeros(256, dtype=torch.int32) for _ in range(3))
        attrs = {"which": which, "bad": bad, "blocks": blocks}
        return kernel.run({"x": x, "z": z}, {"y": y}, attrs, cores=cores, **options)

    run.kernel = kernel
    return run


@pytest.mark.parametrize("case", CASES)
def test_found(run, case):
    which, kind, text = CASES[case]
    blocks = 2 if which >= 200 else 1
    assert not run(which, False, blocks).faults
    faults = run(which, True, blocks).faults
    assert {fault.kind for fault in faults} == {kind}
    assert any(text in fault.text for fault in faults)
    assert all("planted" in fault.file and fault.line for fault in faults)


def test_races_name_both_sides(run):
    (fault,) = run(10, True).faults
    assert fault.text.startswith("RAW on UB of tests/hostsim/ops/planted/op_kernel/planted.h:")
    assert "MTE2 writes at tests/hostsim/ops/planted/op_kernel/planted_order.h:" in fault.text


def test_more_blocks_than_cores(run):
    assert not run(203, False, 4, 4).faults
    (fault,) = run(203, False, 4, 3).faults
    assert "more blocks than cores" in fault.text


def test_left_out(run):
    assert not run(17, False).faults
    sites = [site for site in run.kernel.sync_sites if "planted_order" in site[0]]
    loop = {site: run(17, False, skip=site).faults for site in sites}
    lines = (OPS / "planted/op_kernel/planted_order.h").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if " Loop(" in line)
    in_loop = [s for s in sites if first < s[1] <= first + 12]
    assert len(in_loop) == 6
    assert all(loop[site] for site in in_loop)
    assert not any(loop[site] for site in sites if site not in in_loop)


def test_endless_loop(run):
    (fault,) = run(299, True).faults
    assert fault.kind == "hang"


def test_stops_at_the_first(run):
    report = run(201, True, 8, stop_at_first=True)
    assert len(report.faults) == 1
    assert report.costs[7].pipes["MTE3"].instructions == 0


def test_planted_field(run):
    assert run(0, False).tiling.fields == {"which": 0, "bad": 0, "unused": (7, 8, 9), "wide": -1}
    assert run(0, False, plant={"bad": 1}).faults


def test_optional_input(run):
    tensors = {name: torch.zeros(256, dtype=torch.int32) for name in "xz"}
    optional = torch.zeros(1, 2, dtype=torch.int8)
    with pytest.raises(RefusedError, match="optional: is not taken, got 2 dimensions"):
        run.kernel.tile({**tensors, "optional": optional}, {"which": 0})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": None}, "x is missing"),
        ({"x": torch.zeros(4)}, "not defined for x float32"),
        ({"x": torch.zeros(4, 4, dtype=torch.int32).T}, "not contiguous"),
        ({"w": torch.zeros(4)}, "has no w"),
    ],
)
def test_calls_that_do_not_fit(run, change, text):
    tensors = {name: torch.zeros(256, dtype=torch.int32) for name in "xz"}
    with pytest.raises(RefusedError, match=text):
        run.kernel.tile({**tensors, **change}, {"which": 0})
    with pytest.raises(RefusedError, match="attribute which is missing"):
        run.kernel.tile(tensors)
