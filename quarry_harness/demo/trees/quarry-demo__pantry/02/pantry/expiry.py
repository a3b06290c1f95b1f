"""A store whose entries are good for a limited time."""

from __future__ import annotations

import heapq
import time
from typing import Any, Callable, Hashable


class TtlStore:
    """Entries live `ttl_s` seconds; dead ones are dropped when they are met or when `purge` is called."""

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: dict[Hashable, tuple[float, Any]] = {}
        self._deadlines: list[tuple[float, int, Hashable]] = []
        self._serial = 0

    def __len__(self) -> int:
        self.purge()
        return len(self._entries)

    def get(self, key: Hashable, default: Any = None) -> Any:
        entry = self._entries.get(key)
        if entry is None:
            return default
        deadline, value = entry
        if deadline <= self._clock():
            del self._entries[key]
            return default
        return value

    def put(self, key: Hashable, value: Any, ttl_s: float | None = None) -> None:
        deadline = self._clock() + (self._ttl_s if ttl_s is None else ttl_s)
        self._entries[key] = (deadline, value)
        self._serial += 1
        heapq.heappush(self._deadlines, (deadline, self._serial, key))

    def get_stale(self, key: Hashable, grace_s: float, default: Any = None) -> Any:
        """The value even if it ran out, as long as that is not more than `grace_s` seconds ago."""
        entry = self._entries.get(key)
        if entry is None or entry[0] + grace_s <= self._clock():
            return default
        return entry[1]

    def touch(self, key: Hashable) -> bool:
        """Start the entry's time again; False if it is already gone."""
        value = self.get(key, self)
        if value is self:
            return False
        self.put(key, value)
        return True

    def discard(self, key: Hashable) -> bool:
        return self._entries.pop(key, None) is not None

    def purge(self) -> int:
        now = self._clock()
        dropped = 0
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, key = heapq.heappop(self._deadlines)
            entry = self._entries.get(key)
            if entry is not None and entry[0] == deadline:
                del self._entries[key]
                dropped += 1
        return dropped

    def remaining_s(self, key: Hashable) -> float:
        entry = self._entries.get(key)
        return 0.0 if entry is None else max(0.0, entry[0] - self._clock())
