"""The values that flow between the rooms: named tuples, without behaviour beyond derived names.

Lines are 1-based and inclusive, bytes are 0-based offsets into the raw blob with an exclusive end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

# Identifier -> name for people. The identifiers are what every table, file and JSON document holds.
LANGUAGES: Mapping[str, str] = {
    "c": "C",
    "cpp": "C++",
    "csharp": "C#",
    "go": "Go",
    "java": "Java",
    "javascript": "JavaScript",
    "php": "PHP",
    "python": "Python",
    "rust": "Rust",
    "scala": "Scala",
    "typescript": "TypeScript",
}

# owner__name, split at the first "__"; with GitHub's characters, and nothing that a path or an option could be.
REPOSITORY = re.compile(
    r"(?P<owner>[A-Za-z0-9](?:(?!__)[A-Za-z0-9_-]){0,99})__(?P<name>(?!-)(?!\.\Z)(?!.*\.\.)[A-Za-z0-9._-]{1,100})"
)
IMAGES = ("preimage", "postimage")
RELEVANCES = ("ESSENTIAL", "RELATED")
# How often everything that is resampled is resampled, and from which seed, unless another is asked for.
RESAMPLES = 10_000
SEED = 20_250_101

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Chunk(NamedTuple):
    """A function or method of one blob."""

    language: str
    kind: str  # what a profile selects by, for example "function", "method", "constructor", "property"
    name: str
    container: str  # simple name of the nearest enclosing type, "" for a free function
    qualified_name: str  # what the file itself says: package or namespace, types, name, joined by "."
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int


class LocatedChunk(NamedTuple):
    """A chunk at a path of some revision: what a gold unit is compared with."""

    path: str
    chunk: Chunk


class ParsedBlob(NamedTuple):
    """What parsing one blob in one language gave: chunks in source order, or the reason why there are none."""

    status: str  # "parsed", or a skip reason such as "binary"
    chunks: tuple[Chunk, ...] = ()
    error_count: int = 0  # ERROR and MISSING nodes of the tree that was used
    lines: int = 0  # a last one without a line break counts


class TreeEntry(NamedTuple):
    """One entry of a revision's tree; `path` is decoded with surrogateescape, so that no byte is lost."""

    mode: str  # "100644", "120000", ...
    oid: str
    path: str


class GoldUnit(NamedTuple):
    """One labelled function of a query, as the release states it."""

    unit_key: str
    path: str
    symbol: str
    fqmn: str
    start_line: int
    end_line: int
    relevance: str  # ESSENTIAL | RELATED
    revision: str
    image_stage: str  # preimage | postimage
    extra: Mapping[str, Any] = NOTHING


class GoldRow(NamedTuple):
    """The labels of one query at one image stage; `units` may be empty."""

    repo: str
    task_id: str
    query_id: str
    image_stage: str
    units: tuple[GoldUnit, ...]
    extra: Mapping[str, Any] = NOTHING
    place: str = ""  # where the release says it, for example "data/gold-preimage.jsonl:17"


class Query(NamedTuple):
    """One natural-language query and the revision it is asked at."""

    repo: str  # owner__name
    task_id: str
    query_id: str
    text: str
    revision: str
    extra: Mapping[str, Any] = NOTHING


class Task(NamedTuple):
    """A group of queries about one change of one repository."""

    repo: str
    task_id: str
    language: str  # a key of LANGUAGES
    extra: Mapping[str, Any] = NOTHING


class Release(NamedTuple):
    """A whole release, validated: every query has its task, every gold row its query."""

    ref: str  # as the user named it
    version: str
    files: Mapping[str, str]  # file name -> sha256 of its bytes
    tasks: tuple[Task, ...]
    queries: tuple[Query, ...]
    gold: tuple[GoldRow, ...]  # both image stages where the release has both

    @property
    def fingerprint(self) -> str:
        """One string that changes with any byte of the release's files."""
        return "\n".join(f"{name} {digest}" for name, digest in sorted(self.files.items()))


class Check(NamedTuple):
    """One line of a verification. `ok` is None where nothing could be compared; `detail` then says why."""

    name: str
    ok: bool | None
    detail: str


class Resolution(NamedTuple):
    """Where a gold unit was found. Exactly one of `tier` and `reason` is not empty."""

    tier: str = ""  # one of canonicalize.TIERS
    chunk: int = -1  # index into the chunks that were given
    reason: str = ""  # why it was not found: a word of canonicalize, where needed ": " and particulars


# A stage reports progress by calling this with (done, total, words); what becomes of it is the caller's business.
Progress = Callable[[int, int, str], None]
