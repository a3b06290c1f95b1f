"""A mapping that forgets what was not asked for recently."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Hashable, Iterator

_MISSING = object()


class LruStore:
    """Keeps at most `capacity` entries; the one touched longest ago goes first."""

    def __init__(self, capacity: int, on_evict: Callable[[Hashable, Any], None] | None = None) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._capacity = capacity
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()
        self._on_evict = on_evict

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def get(self, key: Hashable, default: Any = None) -> Any:
        value = self._entries.get(key, _MISSING)
        if value is _MISSING:
            return default
        self._entries.move_to_end(key)
        return value

    def peek(self, key: Hashable, default: Any = None) -> Any:
        """Like `get`, but the entry keeps its place in the queue."""
        return self._entries.get(key, default)

    def put(self, key: Hashable, value: Any) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        self._shrink()

    def discard(self, key: Hashable) -> bool:
        return self._entries.pop(key, _MISSING) is not _MISSING

    def resize(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._capacity = capacity
        self._shrink()

    def items(self) -> Iterator[tuple[Hashable, Any]]:
        yield from list(self._entries.items())

    def clear(self) -> None:
        self._entries.clear()

    def _shrink(self) -> None:
        while len(self._entries) > self._capacity:
            key, value = self._entries.popitem(last=False)
            if self._on_evict is not None:
                self._on_evict(key, value)

    @property
    def capacity(self) -> int:
        return self._capacity
