"""Drive the binding against stand-ins, in a process of its own: a device for PrivateUse1 stays.

``drive.py EXTENSION DEVICE OPAPI`` prints one JSON object, case -> traceback or null.
"""

import ctypes
import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(Path(__file__).parents[2]))
from tierkv_ascendc import binding

from tierkv.constants import Counter
from tierkv.ops import REFERENCE
from tierkv.ops.schemas import SCHEMAS

DEVICE = "privateuseone"
STREAM = 0x7123456789AB
TYPES = {torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.int64: 9}
B, Q, K, LANES, POSITIONS, SLOTS = 2, 3, 4, 5, 64, 8
MISSING = Path("nothing.so")

ours = torch.ops.tierkv


def tensor(*shape, dtype=torch.int32):
    return torch.zeros(shape, dtype=dtype).to(DEVICE)


def plan_outputs():
    flat = (B, Q * K)
    return [
        tensor(B, Q, K), tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K), tensor(B, Q),
        tensor(*flat), tensor(*flat), tensor(B),
    ]  # fmt: skip


def batch():
    """Give lanes, kv_len, q_len, stable, block_table."""
    return [tensor(B) for _ in range(4)] + [tensor(B, 4)]


def counters():
    return tensor(len(Counter), dtype=torch.int64)


def records(*shape, parts=1, width=32):
    return [tensor(*shape, width, dtype=torch.uint8) for _ in range(parts)]


class Library:
    """The stand-in's log."""

    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        self._library.stand_in_log.restype = ctypes.c_char_p
        self.alive, self.fail_with = (
            self._library.stand_in_tensors_alive, self._library.stand_in_fail_with
        )  # fmt: skip

    def calls(self):
        """Give (type, words) of each call since the last look."""
        lines = [json.loads(line) for line in self._library.stand_in_log().decode().splitlines()]
        first, second = lines[::2], lines[1::2]
        assert all(run["right"] and run["stream"] == STREAM for run in second), second
        assert [a["type"] for a in first] == [b["run"] for b in second]
        assert self.alive() == 0, "each tensor is destroyed"
        return [(call["type"], call["words"]) for call in first]


def is_tensor(word, tensor, sizes=None):
    """Say whether a word shows this tensor, as it is or as bytes of `sizes`."""
    kind = TYPES[tensor.dtype] if sizes is None else TYPES[torch.uint8]
    return word == {
        "sizes": list(tensor.shape if sizes is None else sizes), "type": kind, "plain": True,
        "data": tensor.data_ptr(),
    }  # fmt: skip


def check(words, *given):
    assert len(words) == len(given), (len(words), len(given))
    for place, (word, wanted) in enumerate(zip(words, given, strict=True)):
        if isinstance(wanted, torch.Tensor):
            assert is_tensor(word, wanted), (place, word, wanted.shape)
        else:
            assert word == wanted, (place, word, wanted)


def fails(what, call, *arguments):
    try:
        call(*arguments)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        assert what in text, text
    else:
        raise AssertionError(f"no error {what}")


def case_an_operator_before_the_library_is_open(library):
    fails("the operator library is not open", ours.serve, *[tensor(1)] * 3, *[records(1)] * 4)


def case_a_library_that_is_missing(library):
    for arguments in ({"library": MISSING}, {"extension": MISSING}):
        try:
            binding.load(**{"extension": EXTENSION, **arguments})
        except OSError as error:
            assert "nothing.so" in str(error)  # noqa: PT017  # no pytest in this process
            assert "build.sh" in str(error)  # noqa: PT017
        else:
            raise AssertionError("no error")
    binding.load(OPAPI, lambda device: STREAM + device, EXTENSION)


def case_every_operator_of_a_step_is_registered(library):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in SCHEMAS:
        assert has(f"tierkv::{name}", "Meta"), name
        assert not has(f"tierkv_reference::{name}", "PrivateUse1")
    ours_only = {name for name in SCHEMAS if has(f"tierkv::{name}", "PrivateUse1")}
    assert ours_only == {
        "append", "plan", "serve", "install", "place_set_fifo", "place_clock", "plan_gather",
        "place_gather", "gather", "submit", "submit_install", "wait",
    }  # fmt: skip


def case_plan(library):
    ids, fields, slot_of = tensor(B, Q, K), batch(), tensor(LANES, POSITIONS, dtype=torch.int16)
    out, count = plan_outputs(), counters()
    ours.plan(ids, *fields, 16, slot_of, *out, count)
    ((kind, words),) = library.calls()
    assert kind == "DsaPlan"
    check(words, ids, *fields, slot_of, count, 16, *out)


def case_plan_gather(library):
    ids, fields = tensor(B, Q, K), batch()
    id_at, row_of = tensor(LANES, Q * K), tensor(LANES)
    out, count = [*plan_outputs(), tensor(B), tensor(B, Q * K), tensor(B)], counters()
    for across in (False, True):
        ours.plan_gather(ids, *fields, 128, 3, across, id_at, row_of, *out, count)
        ((kind, words),) = library.calls()
        assert kind == "GatherSelectionPlan"
        check(words, ids, *fields, id_at, row_of, count, 128, 3, across, *out)


def case_place_gather(library):
    lanes, ids, kind = tensor(B), tensor(B, Q, K), tensor(B, Q, K, dtype=torch.int8)
    miss_from, id_at, row_of = tensor(B, Q * K), tensor(LANES, Q * K), tensor(LANES)
    slot, count, sums = tensor(B, Q * K), tensor(B), counters()
    ours.place_gather(lanes, ids, kind, miss_from, 1, id_at, row_of, slot, count, sums)
    ((name, words),) = library.calls()
    assert name == "GatherSelectionPlace"
    check(words, lanes, ids, kind, miss_from, id_at, row_of, sums, 1, slot, count)


def case_place(library):
    plan = [tensor(B), tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K), tensor(B, Q * K)]
    plan += [tensor(B, Q * K), tensor(B)]
    tables = [tensor(LANES, POSITIONS, dtype=torch.int16), tensor(LANES, SLOTS), tensor(LANES, 2)]
    slot, count, sums = tensor(B, Q * K), tensor(B), counters()
    ours.place_set_fifo(*plan, 1, tables, slot, count, sums)
    visited = tensor(LANES, 2, 1, dtype=torch.int64)
    ours.place_clock(*plan, 0, [*tables, visited], slot, count, sums)
    (fifo, words), (clock, more) = library.calls()
    assert fifo == clock == "DsaCommit"
    check(words, *plan, *tables, None, sums, 0, 1, slot, count)
    check(more, *plan, *tables, visited, sums, 1, 0, slot, count)


def case_a_table_that_is_missing(library):
    plan = [tensor(B), tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K), tensor(B, Q * K)]
    plan += [tensor(B, Q * K), tensor(B)]
    fails(
        "place_set_fifo: tables must have more than 1 tensors, got 1", ours.place_set_fifo, *plan,
        1, [tensor(LANES, SLOTS)], tensor(B, Q * K), tensor(B), counters(),
    )  # fmt: skip


def case_serve_and_install_go_part_by_part(library):
    lanes, kind, index = tensor(B), tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K)
    fresh = records(B, Q, parts=2)
    pool, backing = records(LANES, SLOTS, parts=2), records(40, parts=2)
    out = records(B, Q, K, parts=2)
    ours.serve(lanes, kind, index, fresh, pool, backing, out)
    for (name, words), *parts in zip(library.calls(), fresh, pool, backing, out, strict=True):
        assert name == "DsaServe"
        check(words, lanes, kind, index, *parts)
    miss_from, miss_count, slot = tensor(B, Q * K), tensor(B), tensor(B, Q * K)
    ours.install(lanes, miss_from, miss_count, slot, out, pool)
    for (name, words), *parts in zip(library.calls(), out, pool, strict=True):
        assert name == "DsaInstall"
        check(words, lanes, miss_from, miss_count, slot, *parts)
    fails(
        "serve: backing must have 2 tensors, got 1", ours.serve, lanes, kind, index, fresh, pool,
        backing[:1], out,
    )  # fmt: skip


def case_records_of_any_type_are_bytes(library):
    lanes, kind, index = tensor(1), tensor(1, 1, K, dtype=torch.int8), tensor(1, 1, K)
    rows = [torch.zeros(1, 1, K, 8, dtype=torch.bfloat16).to(DEVICE)]
    ours.serve(lanes, kind, index, rows, rows, rows, rows)
    ((_, words),) = library.calls()
    assert all(is_tensor(word, rows[0], (1, 1, K, 16)) for word in words[3:])


def case_gather_shows_every_part_the_old_extent(library):
    kind, index, length = tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K), tensor(B, Q)
    work = [tensor(B), tensor(B, Q * K), tensor(B)]
    fresh, backing = records(B, Q, parts=3), records(40, parts=3)
    buffer, filled = records(LANES, Q, K, parts=3), tensor(LANES, Q)
    ours.gather(kind, index, length, *work, 2, fresh, backing, buffer, filled)
    calls, copies = library.calls(), set()
    for (name, words), *parts in zip(calls, fresh, backing, buffer, strict=True):
        assert name == "GatherSelectionKvCache"
        check(words[:9] + words[10:], kind, index, length, *work, *parts, 2)
        copies.add(words[9]["data"])
    assert len(copies) == 3, "no copy is changed by two calls"
    assert is_tensor(calls[-1][1][9], filled), "the last call changes the real one"


def case_append_takes_parts_of_records(library):
    whole, kept, written = records(B, Q, width=96), records(B, Q, width=96), records(40, width=128)
    part, fresh, out = whole[0][..., 32:86], kept[0][..., 32:86], written[0][..., 64:118]
    rows = tensor(B, Q)
    ours.append([part], rows, [fresh], [out])
    ((name, words),) = library.calls()
    assert name == "DsaAppend"
    assert is_tensor(words[0], part, (B, Q, 96))
    assert is_tensor(words[1], rows)
    assert is_tensor(words[2], fresh, (B, Q, 96))
    assert is_tensor(words[3], out, (40, 128))
    assert words[4] == 54
    tight = records(B, Q, width=54)
    ours.append(tight, rows, [], [out])
    ours.append(tight, rows, [fresh], [])
    (_, without_fresh), (_, without_out) = library.calls()
    assert is_tensor(without_fresh[0], tight[0])
    for empty in (without_fresh[2], without_out[3]):
        assert empty == {"sizes": [0], "type": TYPES[torch.uint8], "plain": True, "data": 0}
    ours.append([], rows, [], [])
    assert not library.calls()


def case_rows_at_no_one_distance(library):
    odd = records(B, Q + 1, width=32)[0][:, :Q]
    fails("append: parts[0] must be rows at one distance", ours.append, [odd], tensor(B, Q), [], [])
    across = records(32, width=40)[0].t()
    fails(
        "append: out[0] must be rows at one", ours.append, records(B, Q), tensor(B, Q), [], [across]
    )


def case_errors_name_operator_and_argument(library):
    good = [tensor(B), tensor(B, Q, K, dtype=torch.int8), tensor(B, Q, K)]
    good += [records(B, Q), records(LANES, SLOTS), records(40), records(B, Q, K)]
    for place, value, what in (
        (1, tensor(B, Q, K), "serve: kind must be Char, got Int"),
        (0, tensor(B, dtype=torch.int64), "serve: lanes must be Int, got Long"),
        (2, tensor(B, Q, 2 * K)[:, :, ::2], "serve: index must be contiguous"),
        (2, torch.zeros(B, Q, K), "serve: index must be on privateuseone:0, got cpu"),
        (4, [torch.zeros(LANES, SLOTS, 32)], "serve: pool must be on privateuseone:0, got cpu"),
        (6, [records(B, Q, K)[0][..., :16]], "serve: out[0] must be contiguous"),
    ):  # fmt: skip
        wrong = list(good)
        wrong[place] = value
        fails(f"tierkv::{what}", ours.serve, *wrong)
    assert not library.calls()
    float_table = tensor(LANES, POSITIONS, dtype=torch.float32)
    fails(
        "plan: slot_of must hold whole numbers, got Float", ours.plan, tensor(B, Q, K), *batch(),
        16, float_table, *plan_outputs(), counters(),
    )  # fmt: skip


def case_what_cann_refuses(library):
    arguments = [tensor(B), tensor(B, Q * K), tensor(B), tensor(B, Q * K), records(B, Q, K)]
    library.fail_with(561002)
    fails(
        "tierkv::install: aclnnDsaInstallGetWorkspaceSize returned 561002: the tiling said no",
        ours.install, *arguments, records(LANES, SLOTS),
    )  # fmt: skip
    library.fail_with(0)
    assert library.alive() == 0
    library._library.stand_in_log()


def case_there_is_no_worker(library):
    fails("tierkv::wait: there is no worker", ours.wait, tensor(4, dtype=torch.int64), 0, 0)


def case_other_devices_are_untouched(library):
    rows = torch.tensor([[1]], dtype=torch.int32)
    part, out = torch.ones(1, 1, 32, dtype=torch.uint8), torch.zeros(4, 32, dtype=torch.uint8)
    ours.append([part], rows, [], [out])
    assert out.sum(1).tolist() == [0, 32, 0, 0]
    REFERENCE.append([part], rows, [], [out])
    assert not library.calls()


def case_a_graph_keeps_the_call(library):
    rows, part, out = tensor(B, Q), records(B, Q)[0], records(40)[0]
    traced = make_fx(lambda p, r, o: ours.append([p], r, [], [o]), tracing_mode="fake")(
        part, rows, out
    )
    assert not library.calls()
    traced(part, rows, out)
    assert [name for name, _ in library.calls()] == ["DsaAppend"]


CASES = {name[5:]: case for name, case in list(globals().items()) if name.startswith("case_")}


def main():
    torch.ops.load_library(sys.argv[2])
    module = SimpleNamespace(
        is_available=lambda: True, current_device=lambda: 0, _is_in_bad_fork=lambda: False
    )
    torch._register_device_module(DEVICE, module)
    binding._extension(EXTENSION)
    library, results = Library(OPAPI), {}
    for name, case in CASES.items():
        try:
            case(library)
            results[name] = None
        except Exception:
            results[name] = traceback.format_exc()
            library._library.stand_in_log()
    print(json.dumps(results))


if __name__ == "__main__":
    EXTENSION, OPAPI = Path(sys.argv[1]), sys.argv[3]
    main()
