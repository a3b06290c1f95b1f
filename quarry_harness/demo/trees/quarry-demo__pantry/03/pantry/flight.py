"""One computation a key, however many threads ask."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable, Hashable


class SingleFlight:
    """The first caller computes, the others wait for its result or its exception."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[Any]] = {}

    def run(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        with self._lock:
            future = self._running.get(key)
            leader = future is None
            if future is None:
                future = self._running[key] = Future()
        if not leader:
            return future.result()
        try:
            future.set_result(compute())
        except BaseException as error:
            future.set_exception(error)
        finally:
            with self._lock:
                del self._running[key]
        return future.result()

    def waiting(self) -> int:
        with self._lock:
            return len(self._running)
