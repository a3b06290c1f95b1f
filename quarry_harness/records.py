"""One row of a release -> a Task, a Query or a GoldRow, or a Fault that names the field.

Tolerant of what is not needed: unknown fields are kept in `extra`, missing optional ones are allowed, null counts as
missing. Strict about what later stages build paths, URLs and run files from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from quarry_harness.rows import Fault, kind_of
from quarry_harness.types import LANGUAGES, RELEVANCES, REPOSITORY, GoldRow, GoldUnit, Query, Task

# Lines end up in 32-bit columns; no source file has more.
MAX_LINE = 2**31 - 1

REVISION = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[^\s\x00-\x1f\x7f]+")  # run files separate their columns by spaces
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LANGUAGE_FIELDS = ("language", "lang", "primary_language")  # the release's own name for it is not known to us
_SPELLINGS = {
    "cpp": ("c++", "cplusplus", "cxx", "cc"),
    "csharp": ("c#", "cs"),
    "go": ("golang",),
    "javascript": ("js", "jsx", "ecmascript", "node", "nodejs"),
    "python": ("py", "python3"),
    "rust": ("rs",),
    "typescript": ("ts", "tsx"),
}
_ALIASES = {spelling: language for language, spellings in _SPELLINGS.items() for spelling in spellings}


def normalise_language(name: str) -> str | None:
    """Returns the key of LANGUAGES that a language's name means, in any case and spelling, None for an unknown one."""
    plain = re.sub(r"[\s_-]", "", name).lower()
    plain = _ALIASES.get(plain, plain)
    return plain if plain in LANGUAGES else None


def parse_task(value: Mapping[str, Any]) -> Task:
    """Reads a row of the tasks file. Raises Fault."""
    field = next((name for name in _LANGUAGE_FIELDS if value.get(name) is not None), "language")
    language = _text(value, field)
    known = normalise_language(language)
    if known is None:
        raise Fault(f"{field} {_shown(language)} is not one of {', '.join(LANGUAGES.values())}")
    return Task(_repo(value), _id(value, "task_id"), known, _extra(value, ("repo", "task_id", field)))


def parse_query(value: Mapping[str, Any]) -> Query:
    """Reads a row of the queries file. Raises Fault."""
    used = ("repo", "task_id", "query_id", "query", "revision")
    repo, task_id, query_id = _repo(value), _id(value, "task_id"), _id(value, "query_id")
    return Query(repo, task_id, query_id, _text(value, "query"), _revision(value), _extra(value, used))


def parse_gold_row(value: Mapping[str, Any], stage: str, place: str) -> GoldRow:
    """Reads a row of the gold file of an image stage; `place` says where it stands. Raises Fault.

    A unit_key that is missing is built from its parts; one that disagrees with them is a fault.
    """
    used = ("repo", "task_id", "query_id", "image_stage", "positive_units")
    repo, task_id, query_id = _repo(value), _id(value, "task_id"), _id(value, "query_id")
    _stage(value, stage)
    units = value.get("positive_units")
    if not isinstance(units, list):
        raise Fault(_not_a(value, "positive_units", "a list"))
    found: dict[str, GoldUnit] = {}
    for i, unit in enumerate(units):
        try:
            parsed = _unit(unit, stage)
        except Fault as fault:
            raise Fault(f"{fault.fact} (positive_units[{i}])", fault.fix) from fault
        if parsed.unit_key in found:
            raise Fault(f"unit_key {parsed.unit_key} is there twice (positive_units[{i}])")
        found[parsed.unit_key] = parsed
    return GoldRow(repo, task_id, query_id, stage, tuple(found.values()), _extra(value, used), place)


def _unit(value: Any, stage: str) -> GoldUnit:
    if not isinstance(value, dict):
        raise Fault(f"the unit is {kind_of(value)}, not an object")
    used = ("unit_key", "path", "symbol", "fqmn", "start_line", "end_line", "relevance", "revision", "image_stage")
    _stage(value, stage)
    path, symbol, revision = _path(value), _text(value, "symbol"), _revision(value)
    if _CONTROL.search(symbol):
        raise Fault(f"symbol {_shown(symbol)} holds a control character")
    start, end = _line(value, "start_line"), _line(value, "end_line")
    if end < start:
        raise Fault(f"end_line {end} is before start_line {start}")
    relevance = _text(value, "relevance")
    if relevance not in RELEVANCES:
        raise Fault(f"relevance {_shown(relevance)} is not {' or '.join(RELEVANCES)}")
    fqmn = _text(value, "fqmn") if value.get("fqmn") not in (None, "") else ""
    built = f"{stage}:{revision}:{path}:{symbol}:{start}-{end}"
    stated = _text(value, "unit_key") if value.get("unit_key") is not None else built
    if stated != built:
        raise Fault(f"unit_key {_shown(stated)} does not agree with its parts, which make {_shown(built)}")
    return GoldUnit(built, path, symbol, fqmn, start, end, relevance, revision, stage, _extra(value, used))


def _extra(value: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in used and item is not None}


def _text(value: Mapping[str, Any], field: str) -> str:
    text = value.get(field)
    if not isinstance(text, str):
        raise Fault(_not_a(value, field, "a string"))
    if not text.strip():
        raise Fault(f"{field} is empty")
    return text


def _not_a(value: Mapping[str, Any], field: str, wanted: str) -> str:
    there = value.get(field)
    return f"{field} is missing" if there is None else f"{field} is {kind_of(there)}, not {wanted}"


def _id(value: Mapping[str, Any], field: str) -> str:
    text = _text(value, field)
    if not _ID.fullmatch(text):
        raise Fault(f"{field} {_shown(text)} holds a space or a control character")
    return text


def _repo(value: Mapping[str, Any]) -> str:
    text = _text(value, "repo")
    if not REPOSITORY.fullmatch(text):
        raise Fault(f"repo {_shown(text)} is not owner__name (letters, digits, '.', '_' and '-')")
    return text


def _revision(value: Mapping[str, Any]) -> str:
    text = _text(value, "revision")
    if not REVISION.fullmatch(text):
        raise Fault(f"revision {_shown(text)} is not 40 lower-case hexadecimal digits")
    return text


def _stage(value: Mapping[str, Any], stage: str) -> None:
    if value.get("image_stage") is not None and _text(value, "image_stage") != stage:
        raise Fault(f"image_stage {_shown(value['image_stage'])} does not belong into the {stage} file")


def _path(value: Mapping[str, Any]) -> str:
    text = _text(value, "path")
    if "\0" in text or "\\" in text:
        raise Fault(f"path {_shown(text)} holds a {'NUL' if chr(0) in text else 'backslash'}")
    if text.startswith("/") or re.match("[A-Za-z]:/", text):
        raise Fault(f"path {_shown(text)} is absolute, it must be relative to the repository")
    if any(part in ("", ".", "..") for part in text.split("/")):
        raise Fault(f"path {_shown(text)} has an empty, '.' or '..' part")
    return text


def _line(value: Mapping[str, Any], field: str) -> int:
    line = value.get(field)
    if isinstance(line, bool) or not isinstance(line, int):
        raise Fault(_not_a(value, field, "a whole number"))
    if not 1 <= line <= MAX_LINE:
        raise Fault(f"{field} {_shown(line)} is not a line number (1 to {MAX_LINE})")
    return line


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # more digits than Python prints
        return "(a huge number)"
    return text if len(text) <= 80 else text[:77] + "..."
