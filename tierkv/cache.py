"""The public object: drives lanes, pages and layer groups through the four interfaces."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType

import torch
from torch import Tensor

from tierkv import requests
from tierkv.errors import StateError, say
from tierkv.external import ExternalPaging
from tierkv.footprint import Footprint
from tierkv.interfaces import Installer, Planner, Server
from tierkv.lanes import Lanes
from tierkv.lengths import Lengths
from tierkv.offload import Offload
from tierkv.paging import Paging
from tierkv.rows import Numbers
from tierkv.site import Site
from tierkv.snapshot import snapshot
from tierkv.step import Step
from tierkv.stepper import Stepper
from tierkv.store import Records, Store
from tierkv.types import Stats
from tierkv.warm import warm


class TieredCache:
    """The KV of many requests: every record in a backing tier, the hot ones in a pool.

    Made by :func:`tierkv.load`. One thread drives a cache, on an accelerator on one stream;
    :meth:`stats` may be called from any.
    Cold calls take a request (any hashable), steps take the lanes that :meth:`admit` gave.
    """

    def __init__(
        self,
        site: Site,
        planner: Planner,
        server: Server,
        installer: Installer,
        footprint: Footprint,
    ) -> None:
        self.site, self.limits = site, site.limits
        self.planner, self.server, self.installer = planner, server, installer
        self.footprint = footprint
        self.lanes, self.lengths = Lanes(site.limits), Lengths(site.limits)
        self.paging = ExternalPaging(site.limits) if site.limits.external else Paging(site.limits)
        self.store = Store(site.limits, site.ops, site.backing)
        self.offload = Offload(site.limits, site.backing, installer.background)
        self._group_of = site.limits.spec.group_of
        groups = site.limits.spec.groups
        self.owner_of = [group.owner for group in groups for _ in group.layers]
        """Owner of each layer's group."""
        self._kept: dict[tuple[int, int], Stepper] = {}
        self.steppers: list[Stepper] = []
        self.opened: list[Stepper] = []
        """Those with an open step."""
        self.after_step: Callable[[Step], None] | None = None
        """Called with each step that ended well, before its buffers are used again."""
        # What is pending names memory that goes with the cache.
        weakref.finalize(self, _finish, installer, site.limits.device)

    def admit(
        self,
        request: Hashable,
        reserve: int = 0,
        tokens: Sequence[int] | None = None,
        salt: Hashable = None,
    ) -> int:
        """Bind a free lane, cold, with pages for `reserve` tokens; give the lane.

        Parameters
        ----------
        tokens
            The prompt's token ids. The lane then starts with the pages of the longest prefix that
            another request has written, up to but without the last token: :meth:`length` says how
            far, and prefill starts there. Its own full pages are offered to others in turn.
        salt
            Prefixes are shared only under equal salts: an adapter, a tenant.

        Raises
        ------
        CapacityError
            If no lane or too few pages are free; nothing was changed.
        StateError
            If the request is running.
        """
        return requests.admit(self, request, reserve, tokens, salt)

    def fork(self, request: Hashable, copy: Hashable) -> int:
        """Bind a lane to `copy`, cold, that starts with all that `request` holds; give the lane.

        Pages are shared until one of the two writes to them.
        """
        return requests.fork(self, request, copy)

    def length(self, request: Hashable) -> int:
        """Tokens of the request that every layer holds."""
        lane = requests.lane_of(self, "length of", request)
        self.settle()
        return self.lengths.written(lane)

    def prefill(self, request: Hashable, layer: int, records: Records, start: int = 0) -> None:
        """Write a layer's records of positions from `start` on; what lay behind them is dropped.

        Parameters
        ----------
        records
            Part name -> [tokens, width], all tiered parts together or none, device parts in the
            same or another call; or [tokens, stride] uint8. They may lie on the host, and may be
            changed at once, though with the ``worker`` schedule they are copied in the background.
        start
            From the group's last ``stable`` to the layer's length.

        Raises
        ------
        StateError, ShapeError, CapacityError, TierError
            Lengths are unchanged.
        """
        requests.prefill(self, request, layer, records, start)

    def read(self, request: Hashable, layer: int, start: int, stop: int) -> dict[str, Tensor]:
        """Read positions `start` to `stop` of a layer: part name -> [stop - start, width].

        Tiered parts come on the host, device parts on the device.
        """
        return requests.read(self, request, layer, start, stop)

    def settle(self) -> None:
        """Wait for what :meth:`prefill` copies in the background; cold calls do so themselves.

        Raises
        ------
        TierError
            If it failed; the message names the request, which must prefill that layer again.
        """
        requests.settle(self)

    def truncate(self, request: Hashable, length: int) -> None:
        """Shorten every layer to `length` tokens at most; pages behind go back."""
        requests.truncate(self, request, length)

    def release(self, request: Hashable) -> None:
        """End a request: its lane is free and cold, its pages go back."""
        requests.release(self, request)

    def warm(self, request: Hashable, layer: int, ids: Tensor) -> None:
        """Make records resident without serving them, in every layer of a group.

        Parameters
        ----------
        layer
            The group's owner.
        ids
            [n, K] or [K] int32 positions, -1 for none, at most K a row: selections in the order
            made, as of the last queries of a prompt. Counters do not change.
        """
        requests.refuse_external(self, f"warm {request!r}")
        self.settle()
        warm(self, request, layer, ids)

    def stepper(self, batch: int, queries: int = 1) -> Stepper:
        """Make the static buffers for steps of `batch` rows and `queries` query positions a row."""
        last = self.steppers[-1].batch if self.steppers else None
        first = last.first_row + len(last.lanes) if last else 0
        if first + batch > self.limits.lanes:
            first = 0
        stepper = Stepper(self, batch, queries, len(self.steppers), first)
        self.steppers.append(stepper)
        return stepper

    def step(
        self, lanes: Numbers, kv_len: Numbers, q_len: Numbers | None = None,
        stable: Numbers | None = None, queries: int = 1,
    ) -> Step:  # fmt: skip
        """Open a step on a stepper kept for this shape; see :meth:`Stepper.begin`."""
        return self.stepper_for(len(lanes), queries).begin(lanes, kv_len, q_len, stable)

    def stepper_for(self, batch: int, queries: int) -> Stepper:
        """Give the stepper kept for this shape."""
        shape = (batch, queries)
        if shape not in self._kept:
            self._kept[shape] = self.stepper(batch, queries)
        return self._kept[shape]

    def stats(self) -> Stats:
        """Count so far; may be called from any thread."""
        return snapshot(self)

    def close(self) -> None:
        """Give all memory back, once nothing uses it any more; twice is fine."""
        _finish(self.installer, self.limits.device)
        self.offload.close()
        self.site.backing.close()
        self.site.pool.close()

    def __enter__(self) -> TieredCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def group_of(self, what: str, layer: int) -> int:
        """Give the group of a layer; StateError if the model has no such layer."""
        if not 0 <= layer < len(self._group_of):
            last = len(self._group_of) - 1
            raise StateError(say(f"{what}, layer {layer}", f"the model has layers 0 to {last}"))
        return self._group_of[layer]

    def offer(self, lane: int) -> None:
        """Let others share a lane's full pages of its prompt, once every layer has written them."""
        prompt = self.lanes.prompts.get(lane)
        if prompt is not None:
            self.paging.name(lane, prompt.tokens[: self.lengths.written(lane)], prompt.salt)


def _finish(installer: Installer, device: torch.device) -> None:
    """Wait on the host for background work and, on an accelerator, for every launch.

    Draining only orders launches there; memory given back may be had by anyone.
    """
    installer.drain()
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
