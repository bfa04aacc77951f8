"""Which pages hold which prefix, by its exact tokens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

Tokens = tuple[int, ...]


class _Node:
    """One full page of a prefix; its place in the tree spells the tokens before it."""

    __slots__ = ("children", "page", "parent", "tokens")

    def __init__(self, parent: _Node | None, tokens: Tokens, page: int) -> None:
        self.parent, self.tokens, self.page = parent, tokens, page
        self.children: dict[Tokens, _Node] = {}


class PrefixIndex:
    """A tree for each salt. Keys are token ids themselves, never a hash of them.

    Holders of pages are counted elsewhere; an indexed page that nobody holds is *idle*, and may be
    evicted, the longest idle first. What continues an evicted page can no longer be found, so it is
    forgotten too.
    """

    def __init__(self, page: int) -> None:
        self._size = page
        self._roots: dict[Hashable, _Node] = {}
        self._nodes: dict[int, _Node] = {}
        self._idle: dict[int, None] = {}

    def __contains__(self, page: int) -> bool:
        return page in self._nodes

    @property
    def idle(self) -> int:
        """Pages that could be evicted."""
        return len(self._idle)

    def match(self, tokens: Sequence[int], salt: Hashable) -> list[int]:
        """Give the pages of the longest indexed prefix that leaves at least the last token."""
        node, pages = self._roots.get(salt), []
        for start in range(0, len(tokens) - self._size, self._size):
            node = node and node.children.get(tuple(tokens[start : start + self._size]))
            if node is None:
                break
            pages.append(node.page)
        return pages

    def insert(self, tokens: Sequence[int], salt: Hashable, pages: Sequence[int]) -> None:
        """Name the first pages of `tokens`; a prefix that is known keeps the page it has."""
        node = self._roots.setdefault(salt, _Node(None, (), -1))
        for number, page in enumerate(pages):
            key = tuple(tokens[number * self._size : (number + 1) * self._size])
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = self._nodes[page] = _Node(node, key, page)
            node = child

    def hold(self, page: int) -> None:
        """Note that an indexed page has a holder."""
        self._idle.pop(page, None)

    def rest(self, page: int) -> None:
        """Note that an indexed page has no holder any more."""
        self._idle[page] = None

    def evict(self) -> list[int]:
        """Forget the longest idle page and what continues it; give the pages nobody holds."""
        node = self._nodes[next(iter(self._idle))]
        assert node.parent is not None
        del node.parent.children[node.tokens]
        freed, left = [], [node]
        while left:
            node = left.pop()
            left.extend(node.children.values())
            del self._nodes[node.page]
            if node.page in self._idle:
                del self._idle[node.page]
                freed.append(node.page)
        return freed
