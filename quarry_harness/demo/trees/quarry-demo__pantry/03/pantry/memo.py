"""Decorators that remember what a function returned."""

from __future__ import annotations

import functools
from typing import Any, Callable, Hashable, Protocol, TypeVar

from pantry.flight import SingleFlight
from pantry.keys import call_key
from pantry.stats import Stats

F = TypeVar("F", bound=Callable[..., Any])
_MISSING = object()


class Store(Protocol):
    def get(self, key: Hashable, default: Any = None) -> Any: ...

    def put(self, key: Hashable, value: Any) -> None: ...


def memoize(store: Store, *, typed: bool = False, stats: Stats | None = None) -> Callable[[F], F]:
    """Answer repeated calls from `store`. Exceptions are not remembered."""

    flights = SingleFlight()

    def decorate(function: F) -> F:
        def load(key: Hashable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = function(*args, **kwargs)
            store.put(key, result)
            return result

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            key = call_key(args, kwargs, typed)
            found = store.get(key, _MISSING)
            if found is not _MISSING:
                if stats is not None:
                    stats.hit()
                return found
            if stats is not None:
                stats.miss()
            return flights.run(key, lambda: load(key, args, kwargs))

        return wrapper  # type: ignore[return-value]

    return decorate


def memoize_method(attribute: str) -> Callable[[F], F]:
    """As `memoize`, with the store that each instance keeps under `attribute`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            store: Store = getattr(self, attribute)
            key = (function.__name__, call_key(args, kwargs, typed=False))
            found = store.get(key, _MISSING)
            if found is _MISSING:
                found = function(self, *args, **kwargs)
                store.put(key, found)
            return found

        return wrapper  # type: ignore[return-value]

    return decorate
