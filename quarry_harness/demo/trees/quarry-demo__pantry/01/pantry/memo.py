"""Decorators that remember what a function returned."""

from __future__ import annotations

import functools
from typing import Any, Callable, Hashable, Protocol, TypeVar

from pantry.stats import Stats

F = TypeVar("F", bound=Callable[..., Any])
_MISSING = object()


class Store(Protocol):
    def get(self, key: Hashable, default: Any = None) -> Any: ...

    def put(self, key: Hashable, value: Any) -> None: ...


def freeze(value: Any) -> Hashable:
    """Turn lists, sets and dictionaries, at any depth, into something that can be hashed."""
    if isinstance(value, dict):
        return ("dict", frozenset((key, freeze(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(freeze(item) for item in value))
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(freeze(item) for item in value))
    return value


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any], typed: bool) -> Hashable:
    named = tuple(sorted((name, freeze(value)) for name, value in kwargs.items()))
    key: tuple[Any, ...] = (tuple(freeze(value) for value in args), named)
    if typed:
        key += (tuple(type(value) for value in args), tuple(type(kwargs[name]) for name, _ in named))
    return key


def memoize(store: Store, *, typed: bool = False, stats: Stats | None = None) -> Callable[[F], F]:
    """Answer repeated calls from `store`. Exceptions are not remembered."""

    def decorate(function: F) -> F:
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
            result = function(*args, **kwargs)
            store.put(key, result)
            return result

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
