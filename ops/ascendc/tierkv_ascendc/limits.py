"""What the kernels accept; their tilings refuse the rest.

C++ gets these numbers by generate_constants.py.
"""

MAX_TOP_K = 2048
"""Entries that a query selects, K."""

MAX_QUERIES = 16
"""Queries of a step, Q."""

MAX_ENTRIES = 8192
"""Entries of a row in a step, M = Q * K."""

MAX_SLOTS = 16384
"""Pool slots of a lane, P."""

MAX_WAYS = 64
"""Slots of a set under clock."""

MAX_POSITIONS = 1 << 24
"""Positions of a lane, the columns of slot_of: integers that float32 holds exactly."""

MAX_ROW_BYTES = 8192
"""Bytes of a row of one part, or of a whole record."""

ROW_UNIT = 2
"""Bytes: a row's width is a multiple of it."""
