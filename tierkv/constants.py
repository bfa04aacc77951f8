"""The numbers that Python and C++ share. The native build generates its header from this file."""

from enum import IntEnum

ALIGNMENT = 32
"""Bytes: parts of a record start at a multiple of it, and a record's stride is one."""

MIN_PAGE = 16
MAX_PAGE = 1024
"""Records in a page: a power of two in this range."""

MAX_ROWS = 2**31 - 1
"""Backing rows and positions are int32."""

HASH_MULTIPLIER = 2654435769
"""Knuth's multiplicative hash, 2^32 divided by the golden ratio."""

SECOND_HASH_MULTIPLIER = 2246822507
"""Of the second set where an id may choose between two; from MurmurHash3's finalizer."""


class Kind(IntEnum):
    """Where one selected entry is served from; ``Plan.kind`` holds these."""

    EMPTY = 0
    """Nothing is served: padding, future, unmapped, or behind ``length``."""
    HIT = 1
    """``index`` is the pool slot."""
    MISS = 2
    """``index`` is the backing row; the first occurrence of this id among the row's misses."""
    REPEAT = 3
    """``index`` is the flat place ``q * K + k`` of the MISS entry with the same id."""
    WINDOW = 4
    """May still change, written by an earlier step; ``index`` is the backing row."""
    FRESH = 5
    """May still change, appended by this step; ``index`` is the query that appended it."""


class Counter(IntEnum):
    """Columns of a group's counters (int64). Entries first, then unique ids of a lane and step."""

    STEPS = 0
    HITS = 1
    MISSES = 2
    WINDOW = 3
    FUTURE = 4
    UNMAPPED = 5
    UNIQUE_HITS = 6
    UNIQUE_MISSES = 7
    FETCHED = 8
    INSTALLS = 9
    SUPERSEDED = 10
    BYPASSED = 11
    REUSED = 12
    MOVED = 13


class Failure(IntEnum):
    """What went wrong on the worker: bits of the first of a schedule's tickets."""

    BAD_ARGUMENTS = 0
    """A job named memory that does not exist."""
    THREAD_ENDED = 1
    """The thread was gone before it had done all jobs."""
