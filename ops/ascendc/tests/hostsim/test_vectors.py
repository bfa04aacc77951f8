"""The instructions' results, against torch."""

from pathlib import Path

import pytest
import torch

OPS = Path(__file__).parent / "ops"
N = 256


@pytest.fixture(scope="module")
def run(sim):
    kernel = sim("vectors", OPS)

    def run(which, option, a, b):
        out = torch.empty(N, dtype=torch.int32)
        report = kernel.run({"a": a, "b": b}, {"out": out}, {"which": which, "option": option})
        assert not report.faults
        return out

    return run


def integers(seed, low=-(2**31), high=2**31):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(low, high, (N,), generator=generator)
    return values.to(torch.int32)


def floats(seed, scale=4.0):
    return torch.randn(N, generator=torch.Generator().manual_seed(seed)) * scale


ARITHMETIC = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda a, b: a + 7,
    lambda a, b: a * 7,
    lambda a, b: a.clamp(min=7),
    lambda a, b: a.clamp(max=7),
    lambda a, b: torch.full_like(a, 7),
]


@pytest.mark.parametrize("option", range(10))
@pytest.mark.parametrize("which", [0, 1, 2])
def test_arithmetic(run, which, option):
    a, b = (floats(1), floats(2)) if which == 1 else (integers(1), integers(2))
    kind = (torch.int32, torch.float32, torch.int16)[which]
    got = run(which, option, a, b).view(kind)
    assert torch.equal(got, ARITHMETIC[option](a.view(kind), b.view(kind)))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (0, lambda a, b: a & b),
        (1, lambda a, b: a | b),
        (2, lambda a, b: ~a),
        (3, lambda a, b: a << 3),
        (4, lambda a, b: a >> 3),
        (5, lambda a, b: ((a.long() & 0xFFFFFFFF) >> 3).int()),
    ],
)
def test_bits(run, option, expected):
    a, b = integers(3), integers(4)
    assert torch.equal(run(3, option, a, b), expected(a, b))


def test_half_and_int8(run):
    a = torch.cat([floats(5, 40.0)[:-4], torch.tensor([1e9, -1e9, 0.5, 1.5])])
    got = run(4, 0, a, a).view(torch.float32)
    half = a.clamp(-65504, 65504).half().float()
    assert torch.equal(got, half.round().clamp(-128, 127))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(1, torch.round), (2, torch.floor), (3, torch.ceil), (5, torch.trunc)],
)
def test_float_to_int32(run, mode, expected):
    a = torch.cat([floats(7)[:-3], torch.tensor([2.5, -2.5, 3e9])])
    want = expected(a).double().clamp(-(2**31), 2**31 - 1).to(torch.int32)
    assert torch.equal(run(5, mode, a, a), want)


def test_int32_to_int16_saturates(run):
    a = integers(8, -100000, 100000)
    assert torch.equal(run(5, 0, a, a), a.clamp(-32768, 32767))


COMPARISONS = [torch.lt, torch.gt, torch.eq, torch.le, torch.ge, torch.ne]


@pytest.mark.parametrize("mode", range(6))
def test_compare_and_select(run, mode):
    a, b = floats(9).round(), floats(10).round()
    compare = COMPARISONS[mode]
    assert torch.equal(run(6, mode, a, b).view(torch.float32), torch.where(compare(a, b), a, b))
    a = a / 2
    nine = torch.full_like(a, 9)
    got = run(6, 6 + mode, a, b).view(torch.float32)
    assert torch.equal(got, torch.where(compare(a, torch.full_like(a, 0.5)), a, nine))


@pytest.mark.parametrize("pattern", range(8))
def test_gather_mask(run, pattern):
    """Two repeats of 100 elements, the second from element 128 on, with the mask's next block."""
    a, b = integers(11), integers(12)
    if pattern == 0:
        bits = torch.stack([b >> i & 1 for i in range(32)], 1).flatten().bool()
        keep = torch.cat([bits[:100], bits[256:356]])
    else:
        steps = [None, [0, 2], [1, 3], [0], [1], [2], [3], [0, 1, 2, 3]][pattern]
        keep = torch.tensor([i % 4 in steps for i in range(100)] * 2)
    kept = torch.cat([a[:100], a[128:228]])[keep]
    got = run(7, pattern, a, b)
    assert torch.equal(got[: len(kept)], kept)
    assert (got[len(kept) :] == len(kept)).all()


def test_reductions(run):
    a = floats(13).round()
    best = run(8, 0, a, a)
    assert best[:1].view(torch.float32) == a.max()
    assert a[best[1]] == a.max()
    least = run(8, 1, a, a)
    assert least[:1].view(torch.float32) == a.min()
    assert run(8, 2, a, a)[:1].view(torch.float32) == a.sum()


def test_indices(run):
    a = integers(14)
    assert torch.equal(run(10, 0, a, a), torch.arange(5, 5 + N, dtype=torch.int32))
    assert torch.equal(run(10, 1, a, a), 5 - 3 * torch.arange(N, dtype=torch.int32))
    places = integers(15, 0, N - 16)
    assert torch.equal(run(10, 2, a, places * 4), a[places.long() + 16])


def test_padded_copies(run):
    """Eight rows of three elements, five apart; -5 before and twice behind; then ten apart."""
    a = integers(16)
    got = run(9, 0, a, a)
    poison = torch.tensor([0xA5A5A5A5 - 2**32], dtype=torch.int32)
    for i in range(8):
        row = got[i * 7 : i * 7 + 6]
        assert torch.equal(row[1:4], a[i * 5 : i * 5 + 3])
        assert row[0] == row[4] == row[5] == -5
        assert got[i * 7 + 6] == poison
