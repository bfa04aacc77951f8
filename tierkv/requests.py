"""What a cache's cold calls do; :class:`~tierkv.cache.TieredCache` says what they promise."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from torch import Tensor

from tierkv.errors import CapacityError, StateError, TierError, say
from tierkv.lanes import Prompt
from tierkv.offload import Copying
from tierkv.paging import Span
from tierkv.store import Records

if TYPE_CHECKING:
    from tierkv.cache import TieredCache


def admit(
    cache: TieredCache,
    request: Hashable,
    reserve: int = 0,
    tokens: Sequence[int] | None = None,
    salt: Hashable = None,
) -> int:
    """Bind a lane, share what is known of its prompt, make room."""
    if reserve or tokens:
        refuse_external(cache, f"admit {request!r} with reserve or tokens")
    for room in (reserve, len(tokens or ())):
        _check_fits(cache, f"admit {request!r}", room)
    settle(cache)
    lane = cache.lanes.bind(request)
    pages = cache.paging.index.match(tokens, salt) if tokens else []
    cache.paging.share(lane, pages)
    try:
        cache.paging.grow({lane: Span(reserve, reserve)})
    except CapacityError:
        cache.paging.shrink(lane, 0)
        cache.lanes.unbind(request)
        raise
    cache.lengths.reset(lane, len(pages) * cache.limits.page)
    if tokens:
        cache.lanes.prompts[lane] = Prompt(tuple(tokens), salt)
    return lane


def prefill(
    cache: TieredCache, request: Hashable, layer: int, records: Records, start: int = 0
) -> None:
    """Write a layer's records."""
    call = f"prefill {request!r}"
    refuse_external(cache, call)
    where = f"{call}, layer {layer}"
    lane = lane_of(cache, "prefill", request)
    group, what = cache.group_of(call, layer), Copying(request, lane, layer, start)
    tokens = len(records if isinstance(records, Tensor) else next(iter(records.values()), ()))
    parts = cache.store.named(call, layer, records, (tokens,))
    kinds = cache.store.kinds(call, layer, parts)
    if "tiered" in kinds:  # device parts go their own way
        settle(cache)
    low, high = int(cache.lengths.stable[lane, group]), int(cache.lengths.tiered[lane, layer])
    if not low <= start <= high:
        raise StateError(say(where, f"start must be {low} to {high}", got=start))
    _check_fits(cache, where, start + tokens)
    cache.installer.drain([lane])
    make_room(cache, {lane: Span(start, start + tokens)})
    rows = cache.paging.rows(lane, start, start + tokens)
    try:
        cache.store.write_device(layer, rows, parts)
        if "tiered" in kinds:
            cache.offload.write(what, rows, parts)
    except BaseException:  # what it may have overwritten is gone
        _extend(cache, what, start, kinds)
        raise
    _extend(cache, what, start + tokens, kinds)
    copying = cache.offload.copying
    if copying is None or copying.lane != lane:  # else once it is settled
        cache.offer(lane)


def _extend(cache: TieredCache, what: Copying, stop: int, kinds: Sequence[str]) -> None:
    """Record a cold write up to `stop`."""
    if cache.lengths.extend(what.lane, what.layer, what.start, stop, kinds):
        cache.lanes.rewrite(what.lane, what.start)
    cache.lanes.epoch[what.lane] += 1


def settle(cache: TieredCache) -> None:
    """Wait for the copy of a prompt's layer that is under way; only then is a page shared.

    Raises
    ------
    TierError
        If it failed, once, whatever was called: that layer of that request is shorter now.
    """
    what = cache.offload.copying
    if what is None:
        return
    try:
        cache.offload.finish()
    except TierError:
        _extend(cache, what, what.start, ["tiered"])
        raise
    cache.offer(what.lane)


def _settle_lane(cache: TieredCache, lane: int, length: int) -> None:
    """Settle what concerns a lane that is to be cut; nobody misses what was not written then."""
    what = cache.offload.copying
    if what is None or what.lane != lane:
        return
    with suppress(TierError) if what.start >= length else nullcontext():
        settle(cache)


def read(
    cache: TieredCache, request: Hashable, layer: int, start: int, stop: int
) -> dict[str, Tensor]:
    """Read positions of a layer."""
    where = f"read {request!r}, layer {layer}"
    refuse_external(cache, where)
    lane = lane_of(cache, "read", request)
    cache.group_of(f"read {request!r}", layer)
    what = cache.offload.copying
    if what and (what.lane, what.layer) == (lane, layer) and stop > what.start:
        settle(cache)
    length = int(cache.lengths.tiered[lane, layer])
    if not 0 <= start <= stop <= length:
        wrong = f"the range must lie within {length} tokens"
        raise StateError(say(where, wrong, got=(start, stop)))
    return cache.store.read(layer, cache.paging.rows(lane, start, stop))


def fork(cache: TieredCache, request: Hashable, copy: Hashable) -> int:
    """Bind a lane that shares all pages."""
    refuse_external(cache, f"fork {request!r}")
    lane = lane_of(cache, "fork", request)
    settle(cache)
    cache.installer.drain([lane])
    other = cache.lanes.bind(copy)
    cache.paging.share(other, cache.paging.held(lane))
    cache.lengths.copy(lane, other)
    if lane in cache.lanes.prompts:
        cache.lanes.prompts[other] = cache.lanes.prompts[lane]
    return other


def release(cache: TieredCache, request: Hashable) -> None:
    """End a request."""
    lane = cache.lanes.closed("release", request)
    cache.installer.drain([lane])
    _settle_lane(cache, lane, 0)
    for policy in cache.site.policies:
        policy.forget([lane])
    cache.paging.shrink(lane, 0)
    cache.lanes.unbind(request)


def truncate(cache: TieredCache, request: Hashable, length: int) -> None:
    """Shorten every layer."""
    lane = lane_of(cache, "truncate", request)
    _settle_lane(cache, lane, length)
    written = cache.lengths.longest([lane])[0]
    if not 0 <= length <= written:
        raise StateError(say(f"truncate {request!r}", f"length must be 0 to {written}", got=length))
    cache.installer.drain([lane])
    for policy in cache.site.policies:
        policy.forget([lane], length)
    cache.lengths.cut(lane, length)
    cache.lanes.rewrite(lane, length)
    cache.lanes.epoch[lane] += 1
    cache.paging.shrink(lane, length)


def make_room(cache: TieredCache, spans: Mapping[int, Span]) -> None:
    """Let lanes hold the pages of their spans, and those that they will write alone."""
    held = {lane: len(cache.paging.held(lane)) for lane in spans}
    copies = cache.paging.grow(spans)
    try:
        if copies:
            settle(cache)
        cache.store.copy_pages(copies)
    except BaseException:  # the pages it copies from are right still
        cache.paging.undo(copies, held)
        raise


def lane_of(cache: TieredCache, verb: str, request: Hashable) -> int:
    """Give the lane of a request that is in no open step, and read what is not known of it."""
    lane = cache.lanes.closed(verb, request)
    cache.lengths.read([lane])
    return lane


def refuse_external(cache: TieredCache, call: str) -> None:
    """Raise StateError if pages and records are an engine's own."""
    if cache.limits.external:
        raise StateError(say(call, "pages and records are the engine's", do="do it there"))


def _check_fits(cache: TieredCache, where: str, tokens: int) -> None:
    most = cache.limits.max_tokens
    if not 0 <= tokens <= most:
        wrong = f"{where} needs {tokens} tokens, the limit is {most}"
        raise CapacityError(say("max_tokens", wrong, do="raise it"))
