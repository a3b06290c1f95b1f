"""Small in-process caches."""

from pantry.expiry import TtlStore
from pantry.memo import memoize
from pantry.store import LruStore

__all__ = ["LruStore", "TtlStore", "memoize"]
