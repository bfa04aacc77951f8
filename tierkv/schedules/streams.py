"""Queues of work on a device, and marks in them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """How a schedule comes by streams and events: torch's, a vendor's, or a test's."""

    current: Callable[[], Any]
    """Gives the stream that the caller's launches go to now."""
    stream: Callable[[], Any]
    """Makes a stream; as a context manager, ``with stream:``, launches go there."""
    event: Callable[[], Any]
    """Makes an event: ``record(stream)`` marks what was launched there so far, ``wait(stream)``
    lets what is launched there from now on come after the last mark, and holds up no thread."""
    on: Callable[[Any], Any] = lambda stream: stream
    """Gives the context in which launches go to a stream, where that is not the stream itself."""


def torch_streams(device: torch.device) -> Streams:
    """Give torch's own of a device; the same for CUDA and for a vendor's extension."""
    return Streams(
        current=lambda: torch.accelerator.current_stream(device),
        stream=lambda: torch.Stream(device),
        event=lambda: torch.Event(device),
    )
