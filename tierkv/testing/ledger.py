"""Requests on a cache and in its model: admit, prefill, truncate, release, read."""

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tierkv.cache import TieredCache
from tierkv.testing.assemble import bytes_of, tensor_of
from tierkv.testing.mirror import Mirror
from tierkv.testing.model_residency import Residency


@dataclass
class Request:
    """What a request has written."""

    lane: int
    length: list[int]
    """Per group."""
    stable: list[int]
    """Per group, at its last step."""


class Ledger:
    """Makes the calls that are not steps on a cache and on the model of it, and compares.

    Parameters
    ----------
    make
        Makes the policy's model, one lane each; None only checks what holds of every policy.
    pooled
        Whether residents lie in the cache's pool; a scheme may keep them elsewhere.
    watched
        Compare tables and pool between calls, which waits for all that is pending. Without it only
        what is planned and served is compared, and a model is needed.
    tabled
        Whether plans and the policies' tables say who is resident; without it only what is served
        is compared, and lengths.
    """

    def __init__(
        self,
        cache: TieredCache,
        make: Callable[[], Residency] | None = None,
        pooled: bool = True,
        watched: bool = True,
        tabled: bool = True,
    ) -> None:
        self.cache, self.spec = cache, cache.limits.spec
        self.pooled, self.watched, self.tabled = pooled, watched, tabled
        self.requests: dict[Hashable, Request] = {}
        self.mirror = Mirror(cache, make)
        self._bytes = random.Random(0)

    def positions(self, ids: object) -> Tensor:
        """Give positions in lists as an int32 tensor of the cache's device."""
        return torch.tensor(ids, dtype=torch.int32, device=self.cache.limits.device)

    def check(self) -> None:
        """Compare tables, counters, pool and lengths, with nothing pending."""
        if not self.watched:
            return
        self.cache.installer.drain()
        stable = [[0] * self.cache.limits.lanes for _ in self.spec.groups]
        for name, request in self.requests.items():
            if not self.cache.limits.external:  # else only the engine knows
                self._check_length(name, request)
            for group, known in enumerate(stable):
                known[request.lane] = request.stable[group]
        if self.tabled:
            self.mirror.check(stable, self.pooled)

    def _check_length(self, name: Hashable, request: Request) -> None:
        lengths = self.cache.lengths
        if request.lane in lengths.unread:
            least, most = lengths.start([request.lane])[0], lengths.longest([request.lane])[0]
            wrong = f"{name!r} would be {least} to {most} long, not {request}"
            assert least <= max(request.length) <= most, wrong
        else:
            length = self.cache.length(name)
            wrong = f"length of {name!r} is {length}, not {request}"
            assert length == min(request.length), wrong

    def admit(self, name: Hashable, tokens: int = 0, reserve: int = 0) -> int:
        """Admit a request with some tokens; give its lane."""
        lane = self.cache.admit(name, reserve)
        assert lane not in [request.lane for request in self.requests.values()], lane
        none = [0] * len(self.spec.groups)
        self.requests[name] = Request(lane, list(none), list(none))
        self.prefill(name, none, tokens)
        return lane

    def fork(self, name: Hashable, copy: Hashable) -> int:
        """Admit a request that starts with all that another holds; give its lane."""
        lane, known = self.cache.fork(name, copy), self.requests[name]
        self.requests[copy] = Request(lane, list(known.length), list(known.stable))
        self.mirror.records.copy(known.lane, lane)
        return lane

    def prefill(self, name: Hashable, starts: Sequence[int], end: int) -> None:
        """Write each group's layers from its start to `end`."""
        request = self.requests[name]
        for group, (members, start) in enumerate(zip(self.spec.groups, starts, strict=True)):
            for layer in members.layers:
                records = self.content(name, layer, start, end)
                self.fill(name, layer, start, records)
                self._written(request.lane, layer, range(start, end), records)
            request.length[group] = end

    def content(self, name: Hashable, layer: int, start: int, end: int) -> Tensor:
        """Make up the records of a prefill, [end - start, stride] uint8."""
        return self._draw(layer, end - start)

    def fill(self, name: Hashable, layer: int, start: int, records: Tensor) -> None:
        """Prefill one layer."""
        self.cache.prefill(name, layer, records, start)

    def truncate(self, name: Hashable, length: int) -> None:
        """Take tokens back."""
        self.cache.truncate(name, length)
        request = self.requests[name]
        request.length = [min(length, known) for known in request.length]
        request.stable = [min(length, known) for known in request.stable]
        for group in range(len(self.spec.groups)):
            self.mirror.forget(group, request.lane, length)

    def release(self, name: Hashable) -> None:
        """End a request."""
        self.cache.release(name)
        lane = self.requests.pop(name).lane
        for group in range(len(self.spec.groups)):
            self.mirror.forget(group, lane)

    def read(self, name: Hashable, layer: int, start: int, stop: int) -> None:
        """Read a range back and compare it."""
        lane = self.requests[name].lane
        records = torch.zeros((stop - start, self.spec.layouts[layer].stride), dtype=torch.uint8)
        parts = self.cache.read(name, layer, start, stop)
        for part, view in self.spec.layouts[layer].views(records).items():
            view.copy_(parts[part])
        known = [self.mirror.records.read(lane, layer, at) for at in range(start, stop)]
        assert bytes_of(records) == b"".join(known), f"read {name!r}, {start} to {stop}"

    def pages(self, lane: int) -> list[int]:
        """Give a lane's block table."""
        table: list[int] = self.cache.paging.block_table[lane].tolist()
        return table

    def _draw(self, layer: int, count: int) -> Tensor:
        stride = self.spec.layouts[layer].stride
        return tensor_of(self._bytes.randbytes(count * stride), stride)

    def _written(self, lane: int, layer: int, positions: Iterable[int], records: Tensor) -> None:
        raw, stride = bytes_of(records), records.shape[-1]
        for place, position in enumerate(positions):
            record = raw[place * stride : (place + 1) * stride]
            self.mirror.records.write(lane, layer, position, record)
