"""What a cache's cold calls do; :class:`~tierkv.cache.TieredCache` says what they promise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from tierkv.errors import CapacityError, StateError, say
from tierkv.lanes import Prompt
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
    lane = cache.lanes.bind(request)
    pages = cache.paging.index.match(tokens, salt) if tokens else []
    cache.paging.share(lane, pages)
    try:
        cache.paging.grow({lane: Span(reserve, reserve)})
    except CapacityError:
        cache.paging.shrink(lane, 0)
        cache.lanes.unbind(request)
        raise
    cache.lanes.reset(lane, len(pages) * cache.limits.page)
    if tokens:
        cache.lanes.prompts[lane] = Prompt(tuple(tokens), salt)
    return lane


def prefill(
    cache: TieredCache, request: Hashable, layer: int, records: Records, start: int = 0
) -> None:
    """Write a layer's records."""
    what = f"prefill {request!r}"
    refuse_external(cache, what)
    where = f"{what}, layer {layer}"
    lane = cache.lanes.closed("prefill", request)
    group = cache.group_of(what, layer)
    tokens = len(records if isinstance(records, Tensor) else next(iter(records.values()), ()))
    parts = cache.store.named(what, layer, records, (tokens,))
    kinds = cache.store.kinds(what, layer, parts)
    low, high = int(cache.lanes.stable[lane, group]), int(cache.lanes.length[lane, layer])
    if not low <= start <= high:
        raise StateError(say(where, f"start must be {low} to {high}", got=start))
    _check_fits(cache, where, start + tokens)
    cache.installer.drain([lane])
    cache.store.copy_pages(cache.paging.grow({lane: Span(start, start + tokens)}))
    try:
        cache.store.write_parts(layer, cache.paging.rows(lane, start, start + tokens), parts)
    except BaseException:  # what it may have overwritten is gone
        cache.lanes.extend(lane, layer, start, start, kinds)
        raise
    cache.lanes.extend(lane, layer, start, start + tokens, kinds)
    cache.offer(lane)


def truncate(cache: TieredCache, request: Hashable, length: int) -> None:
    """Shorten every layer."""
    lane = cache.lanes.closed("truncate", request)
    most = cache.limits.max_tokens
    written = most if cache.limits.external else int(cache.lanes.length[lane].max())
    if not 0 <= length <= written:
        raise StateError(say(f"truncate {request!r}", f"length must be 0 to {written}", got=length))
    cache.installer.drain([lane])
    for policy in cache.site.policies:
        policy.forget([lane], length)
    for number in range(len(cache.limits.spec.groups)):
        cache.lanes.cut(lane, number, length)
        cache.lanes.stable[lane, number] = min(cache.lanes.stable[lane, number], length)
    cache.lanes.epoch[lane] += 1
    cache.paging.shrink(lane, length)


def refuse_external(cache: TieredCache, call: str) -> None:
    """Raise StateError if pages and records are an engine's own."""
    if cache.limits.external:
        raise StateError(say(call, "pages and records are the engine's", do="do it there"))


def _check_fits(cache: TieredCache, where: str, tokens: int) -> None:
    most = cache.limits.max_tokens
    if not 0 <= tokens <= most:
        wrong = f"{where} needs {tokens} tokens, the limit is {most}"
        raise CapacityError(say("max_tokens", wrong, do="raise it"))
