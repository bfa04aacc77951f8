import numpy as np

from tierkv.replay.course import Course
from tierkv.trace import Trace


def spans(request, stable=None, chunk=100):
    request = np.array(request, np.int32)
    steps, lanes = request.shape
    stable = np.full_like(request, 5) if stable is None else np.array(stable, np.int32)
    ids = np.zeros((steps, 1, lanes, 1, 1), np.int32)
    kv_len = np.full_like(request, 9)
    trace = Trace.from_arrays(ids, kv_len, request=request, stable=stable)
    course = Course(lanes)
    return [
        (span.start, len(span), forgets)
        for part in trace.chunks(chunk)
        for span, forgets in course.spans(part)
    ]


def test_nothing_happens_in_one_request():
    assert spans([[3, 4]] * 5) == [(0, 5, [])]
    assert spans([[3, 4]] * 5, chunk=2) == [(0, 2, []), (2, 2, []), (4, 1, [])]


def test_another_request_finds_its_lane_cold():
    expected = [(0, 1, []), (1, 1, [(1, 0)]), (2, 1, [(0, 0), (1, 0)])]
    for chunk in (1, 2, 100):
        assert spans([[1, 2], [1, 3], [4, 5]], chunk=chunk) == expected


def test_an_idle_lane_stays_warm():
    assert spans([[1], [-1], [1], [-1], [2]], chunk=100) == [(0, 4, []), (4, 1, [(0, 0)])]
    assert [f for _, _, f in spans([[1], [-1], [1], [-1], [2]], chunk=1)] == [
        [], [], [], [], [(0, 0)],
    ]  # fmt: skip


def test_a_stable_that_falls_is_a_truncation():
    assert spans([[1], [1], [1]], [[5], [3], [4]]) == [(0, 1, []), (1, 2, [(0, 3)])]
    assert spans([[1], [-1], [1]], [[5], [0], [2]], chunk=1)[2] == (2, 1, [(0, 2)])
