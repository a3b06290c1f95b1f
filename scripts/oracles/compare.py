"""Our function chunks beside what a language's own parser sees in the same files."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from oracles.explain import File, reason
from oracles.packages import Difference, Package
from oracles.programs import Function, Seen
from quarry_harness.chunking import chunk_blob, parsed_root
from quarry_harness.languages import LANGUAGE_OF_DIALECT, PROFILES, dialect_of_path
from quarry_harness.types import Chunk

KINDS = ("other_range", "only_theirs", "only_ours")


class Row(NamedTuple):
    """A function of either side."""

    path: str
    name: str
    start_line: int
    end_line: int


class Found(NamedTuple):
    """One difference; `ours` has the range of our chunk where only that differs."""

    kind: str
    row: Row
    ours: Row | None = None
    reason: str = ""  # why it is no fault; "" where nobody has said

    def __str__(self) -> str:
        other = f", ours {self.ours.start_line}-{self.ours.end_line}" if self.ours else ""
        return f"{self.row.path}:{self.row.start_line}-{self.row.end_line} {self.row.name}{other}"


@dataclass(slots=True)
class Tally:
    """One language's numbers over all its packages."""

    language: str
    files: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    theirs: int = 0  # functions with a body
    exact: int = 0
    declarations: int = 0  # without a body
    declarations_exact: int = 0
    macros: int = 0  # functions that a macro names, so that the text has none
    hidden: int = 0  # ours behind an #if that is off for the compiler
    found: list[Found] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return sum(one.kind == kind for one in self.found)

    @property
    def unexplained(self) -> list[Found]:
        return [one for one in self.found if not one.reason]


def sources(package: Package, home: Path) -> list[Path]:
    """The package's files in its language, links and what the manifest excludes aside."""
    folders = [home / folder for folder in package.folders] or [home]
    found = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [
        path
        for path in found
        if LANGUAGE_OF_DIALECT.get(_dialect(path, package.language)) == package.language
        and not any(path.relative_to(home).match(pattern) for pattern in package.exclude)
    ]


def _dialect(path: Path, language: str) -> str:
    return dialect_of_path(str(path), cpp_headers=language == "cpp") or ""


def add(tally: Tally, seen: Seen, package: str, home: Path, differences: tuple[Difference, ...]) -> None:
    """Counts one package's files into the language's numbers."""
    tally.files += len(seen.parsed)
    label = {path: f"{package}/{Path(path).relative_to(home)}" for path in [*seen.parsed, *seen.failed]}
    tally.failed |= {label[path]: reason for path, reason in seen.failed.items()}
    theirs: dict[str, list[Function]] = defaultdict(list)
    hidden: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in seen.functions:
        theirs[one.path].append(one)
    for path, first, last in seen.hidden:
        hidden[path].append((first, last))
    for path in seen.parsed:
        data = Path(path).read_bytes()
        parsed = chunk_blob(data, _dialect(Path(path), tally.language))
        rows = [_row(label[path], one) for one in parsed.chunks if _in_profile(one.kind)]
        found = _compare(tally, [one._replace(path=label[path]) for one in theirs[path]], rows, hidden[path])
        if found:
            lines = tuple(data.decode("utf-8", "replace").split("\n"))
            root = parsed_root(data, _dialect(Path(path), tally.language))
            file = File(tally.language, lines, root, tuple(hidden[path]))
            tally.found += [one._replace(reason=_reason(file, one, differences)) for one in found]


def _in_profile(kind: str) -> bool:
    kinds = PROFILES["quarry"]
    return kinds is None or kind in kinds


def _row(path: str, one: Chunk) -> Row:
    return Row(path, one.name, one.start_line, one.end_line)


def _reason(file: File, one: Found, differences: tuple[Difference, ...]) -> str:
    for known in differences:
        if known.covers(file.language, one.kind, one.row.path, one.row.name):
            return known.reason
    span = one.row[2:]
    if one.kind == "other_range" and one.ours is not None:
        return reason(file, span, one.ours[2:])
    return reason(file, span, None) if one.kind == "only_theirs" else reason(file, None, span)


def _compare(tally: Tally, theirs: list[Function], ours: list[Row], hidden: list[tuple[int, int]]) -> list[Found]:
    """The differences of one file: exact rows pair off first, then those of one name, in order of lines."""
    left = Counter(ours)
    unmatched: list[Function] = []
    made: list[Function] = []
    for one in sorted(theirs, key=lambda one: not one.body):
        row = Row(*one[:4])
        exact = left[row] > 0
        left[row] -= exact
        if one.note and not exact:
            tally.macros += 1
            made.append(one)
            continue
        if one.body:
            tally.theirs += 1
            tally.exact += exact
        else:
            tally.declarations += 1
            tally.declarations_exact += exact
        if not exact:
            unmatched.append(one)
    found, rest = _pairs(unmatched, left)
    for row in rest:
        if any(first <= row.end_line and row.start_line <= last for first, last in hidden):
            tally.hidden += 1
        elif not any(one.start_line <= row.start_line <= one.end_line for one in made):
            # A function that a macro names has the macro's name with us: `TEST(..) {..}`.
            found.append(Found("only_ours", row))
    return found


def _pairs(theirs: list[Function], ours: Counter[Row]) -> tuple[list[Found], list[Row]]:
    """What is theirs, with or without one of ours of the same name; and what is left of ours."""
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(ours.elements()):
        by_name[row.name].append(row)
    found = []
    for one in sorted(theirs):
        row = Row(*one[:4])
        # Another function of the same name is not the same function: their lines must meet.
        near = [c for c in by_name[one.name] if c.start_line <= row.end_line and row.start_line <= c.end_line]
        if near:
            by_name[one.name].remove(near[0])
            found.append(Found("other_range", row, near[0]))
        else:
            found.append(Found("only_theirs", row))
    return found, sorted(row for rows in by_name.values() for row in rows)
