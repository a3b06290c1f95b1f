"""Turning arguments into cache keys."""

from __future__ import annotations

import hashlib
from typing import Any, Hashable


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


def digest(key: Hashable) -> str:
    """A short name for a key that is the same in every process, fit for a file name."""
    return hashlib.sha256(repr(key).encode("utf-8")).hexdigest()[:16]
