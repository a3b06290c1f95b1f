"""Counting hits and misses."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Iterator


class Stats:
    """Counters that several threads may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hits = 0
        self._misses = 0
        self._load_s: list[float] = []

    def hit(self) -> None:
        with self._lock:
            self._hits += 1

    def miss(self) -> None:
        with self._lock:
            self._misses += 1

    @property
    def ratio(self) -> float:
        total = self._hits + self._misses
        return self._hits / total if total else 0.0

    @contextlib.contextmanager
    def timed_load(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._load_s.append(time.perf_counter() - started)

    def snapshot(self) -> dict[str, float]:
        with self._lock:
            mean = sum(self._load_s) / len(self._load_s) if self._load_s else 0.0
            return {"hits": self._hits, "misses": self._misses, "mean_load_s": mean}

    def reset(self) -> None:
        with self._lock:
            self._hits = self._misses = 0
            self._load_s.clear()

    @classmethod
    def merged(cls, parts: "list[Stats]") -> "Stats":
        total = cls()
        for part in parts:
            total._hits += part._hits
            total._misses += part._misses
            total._load_s.extend(part._load_s)
        return total
