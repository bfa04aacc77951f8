"""What ``tierkv doctor`` found, its own checks and those of a backend of operators."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    status: Status
    found: str
    do: str = ""
    """What mends it; empty if nothing has to be done."""
