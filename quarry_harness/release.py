"""Reads a Quarry release from a folder, and refuses what later stages could not trust.

A release is four files, flat in a folder or under its `data/`: queries, tasks, gold-preimage and, where it has one,
gold-postimage, each as .jsonl, .jsonl.gz or .parquet. Reading is tolerant of what it does not need: unknown fields are
kept in `extra`, missing optional ones are allowed, null counts as missing. What it needs must be there and right.

Ids: a task is known by (repo, task_id); a query_id must be unique in the whole release, because run files name queries
by it alone.
"""

from __future__ import annotations

import difflib
import hashlib
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.manifest import KINDS, MANIFEST_NAME, canonical_name, read_manifest
from quarry_harness.records import REVISION, normalise_language, parse_gold_row, parse_query, parse_task
from quarry_harness.rows import FORMATS, Fault, Row, read_rows
from quarry_harness.types import LANGUAGES, GoldRow, Query, Release, Task

REQUIRED_KINDS = ("tasks", "queries", "gold-preimage")

# Where a file is wrong all the way through, more of the same says nothing.
MAX_PROBLEMS = 1000

_FOLDERS = ("", "data")
_LEFTOVERS = (".incomplete", ".part", ".partial", ".crdownload")


@dataclass(frozen=True, slots=True)
class FileScan:
    """What reading one file of a release gave."""

    kind: str  # one of KINDS
    name: str  # relative to the release's folder, with "/"; for a missing file the name it should have
    sha256: str  # of the file's bytes, "" where they could not be read
    rows: int | None  # readable or not; None where the end was not reached
    problems: tuple[InvalidInputError, ...] = ()  # with their places, at most MAX_PROBLEMS


@dataclass(frozen=True, slots=True)
class Relation:
    """One rule between two files of a release, for example "every query has its task"."""

    name: str
    problems: tuple[InvalidInputError, ...] = ()
    unchecked: str = ""  # why it could not be checked, "" where it was


@dataclass(frozen=True, slots=True)
class ReleaseScan:
    """All that is known of a release after reading it; `release` is None where anything is wrong."""

    files: tuple[FileScan, ...]
    relations: tuple[Relation, ...]
    release: Release | None


@dataclass(frozen=True, slots=True)
class _Placed:
    place: str
    item: Any  # a Task, Query or GoldRow


_Items = dict[tuple[str, ...], _Placed]  # in the file's order, under what `_key` gives


def release_file_names() -> list[str]:
    """Returns every name a release file may have, relative to the release's folder, the manifest included."""
    spelled = dict.fromkeys(name for kind in KINDS for name in (kind, kind.replace("-", "_")))
    names = [f"{stem}{suffix}" for suffix in FORMATS for stem in spelled] + [MANIFEST_NAME]
    return [f"{folder}/{name}" if folder else name for folder in _FOLDERS for name in names]


def find_release_files(folder: Path) -> dict[str, Path]:
    """Returns kind ("tasks", "queries", "gold-preimage", "gold-postimage") -> path, for the kinds that are there.

    Of several formats of one kind .jsonl goes before .jsonl.gz before .parquet. Raises InvalidInputError where two
    files of one kind and format are there (flat and under data/, or spelled with `-` and with `_`): which of them is
    meant cannot be known.
    """
    found: dict[str, Path] = {}
    for kind in KINDS:
        for suffix in FORMATS:
            there = [name for name in release_file_names() if canonical_name(name) == kind + suffix]
            there = [name for name in there if (folder / name).is_file()]
            if len(there) > 1:
                raise InvalidInputError(
                    f"{folder}: {' and '.join(there)} are both there.", "Keep the one that belongs to the release."
                )
            if there:
                found.setdefault(kind, folder / there[0])
    return found


def read_release(folder: Path, ref: str) -> Release:
    """Reads and validates the release in a folder; `ref` is how the user named it.

    `Release.files` holds the data files' names, relative to the folder, with their sha256; `Release.version` is what
    the release's own manifest says, "" without one. Raises InvalidInputError for the first thing that is wrong, with
    file, line, field and fix, and how many more there are in the same file.
    """
    scan = scan_release(folder, ref)
    if scan.release is not None:
        return scan.release
    found = [file.problems for file in scan.files] + [relation.problems for relation in scan.relations]
    problems = next(problems for problems in found if problems)
    first, more = problems[0], len(problems) - 1
    others = f" {more} more problem{'s' * (more > 1)} in this file." if more else ""
    raise InvalidInputError(first.message + others, first.hint)


def scan_release(folder: Path, ref: str) -> ReleaseScan:
    """Reads a release to the end, whatever is wrong with it, and returns all that was found.

    Raises InvalidInputError only where there is nothing to read: no such folder, or two files of one kind.
    """
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: there is no such folder.", "Give the folder that holds the release.")
    paths = find_release_files(folder)
    fix = check_hint(ref)
    scans: dict[str, FileScan] = {}
    items: dict[str, _Items] = {}
    for kind in KINDS:
        if kind in paths:
            scans[kind], items[kind] = _scan_file(folder, paths[kind], kind, fix)
        elif kind in REQUIRED_KINDS:
            scans[kind] = FileScan(kind, f"{kind}.jsonl", "", None, (_missing(folder, kind, paths),))
    relations = _relations(scans, items, fix)
    files = tuple(scans.values())
    if any(file.problems for file in files) or any(relation.problems for relation in relations):
        return ReleaseScan(files, relations, None)
    release = Release(
        ref=ref,
        version=_version(folder),
        files={file.name: file.sha256 for file in files},
        tasks=tuple(placed.item for placed in items["tasks"].values()),
        queries=tuple(placed.item for placed in items["queries"].values()),
        gold=tuple(placed.item for kind in KINDS[2:] for placed in items.get(kind, {}).values()),
    )
    return ReleaseScan(files, relations, release)


def scan_of(release: Release) -> ReleaseScan:
    """Returns what `scan_release` found when a release was read: no problem, and so many rows a file.

    The release must be a whole one, not a selection of `select_tasks`.
    """
    rows = Counter(f"gold-{row.image_stage}" for row in release.gold)
    rows.update({"tasks": len(release.tasks), "queries": len(release.queries)})
    kinds = {canonical_name(name).partition(".")[0]: name for name in release.files}
    files = tuple(FileScan(kind, name, release.files[name], rows[kind]) for kind, name in kinds.items())
    return ReleaseScan(files, tuple(Relation(name) for name, here, _, _ in _RULES if here in kinds), release)


def check_hint(ref: str) -> str:
    """Returns the fix for data that is not as the release's makers made it."""
    return f"Check the release's checksum with: quarry verify{f' --release {shlex.quote(ref)}' if ref else ''}"


def sha256_of(path: Path) -> str:
    """Returns the sha256 of a file's bytes in hex. Raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def manifest_path(folder: Path) -> Path | None:
    """Returns the path of the release's own manifest, None where it has none."""
    candidates = [folder / inner / MANIFEST_NAME for inner in _FOLDERS]
    return next((path for path in candidates if path.is_file()), None)


def _version(folder: Path) -> str:
    path = manifest_path(folder)
    try:
        return read_manifest(path).version if path else ""
    except InvalidInputError:
        return ""  # a broken manifest is no reason not to read sound data; verify reports it


def unfinished_downloads(folder: Path) -> list[str]:
    """Returns the names, relative to the folder, of files that an interrupted download left behind."""
    looked_at = [*folder.glob("*"), *folder.glob("data/*"), *folder.glob(".cache/huggingface/download/**/*")]
    return sorted(path.relative_to(folder).as_posix() for path in looked_at if path.name.endswith(_LEFTOVERS))


def _missing(folder: Path, kind: str, paths: Mapping[str, Path]) -> InvalidInputError:
    what = f"{folder}: {kind}.jsonl (or .jsonl.gz, .parquet) is missing"
    again = "Download the release again, it is not whole."
    names = [name for name in release_file_names() if canonical_name(name).partition(".")[0] == kind]
    if gone := [name for name in names if (folder / name).is_symlink()]:
        return InvalidInputError(f"{what}: {gone[0]} is a link to a file that is gone.", again)
    if leftovers := unfinished_downloads(folder):
        left = next((name for name in leftovers if kind in name.replace("_", "-")), leftovers[0])
        return InvalidInputError(f"{what}, and {left} is left of a download that did not finish.", again)
    if paths:
        there = ", ".join(sorted(path.name for path in paths.values()))
        return InvalidInputError(f"{what}, and there is only {there}.", again)
    return InvalidInputError(
        f"{what}, here and under data/: this is not a release.",
        "Give the folder that holds queries, tasks and gold-preimage.",
    )


def _scan_file(folder: Path, path: Path, kind: str, fix: str) -> tuple[FileScan, _Items]:
    name = path.relative_to(folder).as_posix()
    problems: list[InvalidInputError] = []
    items: _Items = {}
    count: int | None = 0
    for row in read_rows(path, name):
        count = None if row.is_last or count is None else count + 1
        try:
            _take(items, kind, row)
        except Fault as fault:
            problems.append(_problem(row.place, fault, fix))
        if len(problems) == MAX_PROBLEMS:
            count = None
            break
    if count == 0 and kind in REQUIRED_KINDS:
        problems.append(_problem(name, Fault("the file holds no rows", "Download the file again."), fix))
    try:
        digest = sha256_of(path)
    except OSError:
        digest = ""  # reading the rows has met and recorded the same
    return FileScan(kind, name, digest, count, tuple(problems)), items


def _take(items: _Items, kind: str, row: Row) -> None:
    item = _parse(kind, row)
    key = _key(item)
    if key in items:
        words = f"task_id {key[1]} of {key[0]}" if kind == "tasks" else f"query_id {key[0]}"
        raise Fault(f"{words} is already at {items[key].place}")
    items[key] = _Placed(row.place, item)


def _problem(place: str, fault: Fault, fix: str) -> InvalidInputError:
    return InvalidInputError(f"{place}: {fault.fact}.", f"{fault.fix.rstrip('.')}. {fix}" if fault.fix else fix)


def _parse(kind: str, row: Row) -> Task | Query | GoldRow:
    if isinstance(row.value, Fault):
        raise row.value
    if kind == "tasks":
        return parse_task(row.value)
    if kind == "queries":
        return parse_query(row.value)
    return parse_gold_row(row.value, kind.removeprefix("gold-"), row.place)


def _key(item: Task | Query | GoldRow) -> tuple[str, ...]:
    return (item.repo, item.task_id) if isinstance(item, Task) else (item.query_id,)


def _relations(scans: Mapping[str, FileScan], items: Mapping[str, _Items], fix: str) -> tuple[Relation, ...]:
    relations = []
    for name, here, there, rule in _RULES:
        if here not in scans:
            continue
        broken = [scans[kind].name for kind in (here, there) if scans[kind].problems]
        if broken:
            # Otherwise every row that could not be read would be reported again as one that is missing.
            relations.append(Relation(name, unchecked=f"{' and '.join(broken)} could not be read in full"))
            continue
        faults = ((placed.place, rule(placed.item, items[there], scans[there].name)) for placed in items[here].values())
        found = [_problem(place, Fault(fact), fix) for place, fact in faults if fact]
        relations.append(Relation(name, tuple(found)))
    return tuple(relations)


def _without_task(query: Query, tasks: _Items, name: str) -> str:
    there = (query.repo, query.task_id) in tasks
    return "" if there else f"task_id {query.task_id} of {query.repo} is not in {name}"


def _without_gold(query: Query, gold: _Items, name: str) -> str:
    return "" if (query.query_id,) in gold else f"query_id {query.query_id} has no row in {name}"


def _without_query(row: GoldRow, queries: _Items, name: str) -> str:
    if (row.query_id,) not in queries:
        return f"query_id {row.query_id} is not in {name}"
    query = queries[row.query_id,].item
    if row.repo != query.repo:
        return f"repo {row.repo} is not that of its query, {query.repo}"
    return "" if row.task_id == query.task_id else f"task_id {row.task_id} is not that of its query, {query.task_id}"


# What is checked, the kind of the rows that are checked, the kind of the rows they refer to, and how.
_RULES: tuple[tuple[str, str, str, Callable[[Any, _Items, str], str]], ...] = (
    ("every query has its task", "queries", "tasks", _without_task),
    ("every query has its gold-preimage row", "queries", "gold-preimage", _without_gold),
    ("every gold-preimage row has its query", "gold-preimage", "queries", _without_query),
    ("every gold-postimage row has its query", "gold-postimage", "queries", _without_query),
)


def corpus_revision(query: Query, gold_row: GoldRow, task: Task) -> str:
    """Returns the revision whose functions are the corpus of a query at a gold row's image stage, "" where unknown.

    At the preimage it is the query's. At the postimage it is the one that all units of the row share; failing that
    the row's own `revision` or `postimage_revision`; failing that the task's `postimage_revision` or `after_revision`.
    """
    if gold_row.image_stage == "preimage":
        return query.revision
    shared = {unit.revision for unit in gold_row.units}
    if len(shared) == 1:
        return shared.pop()
    stated = [gold_row.extra.get(field) for field in ("revision", "postimage_revision")]
    stated += [task.extra.get(field) for field in ("postimage_revision", "after_revision")]
    return next((text for text in stated if isinstance(text, str) and REVISION.fullmatch(text)), "")


def select_tasks(
    release: Release, repos: Sequence[str], languages: Sequence[str], tasks: Sequence[str], limit: int | None
) -> Release:
    """Returns the part of a release that passes all filters: its tasks, their queries and gold rows, in release order.

    An empty filter lets everything pass. repos are owner/name or owner__name, languages in any spelling, tasks task
    ids; `limit` keeps the first tasks of what is left. `files` and `version` stay the whole release's. Raises
    UsageError where a filter's value matches nothing, with what was perhaps meant, or where no task passes them all.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit {limit}: there would be no tasks left.", "Give a number from 1 on.")
    wanted_repos = {repo.replace("/", "__", 1) for repo in repos}
    wanted_languages = {_language(name) for name in languages}
    _require("--repo", "repository", wanted_repos, [task.repo for task in release.tasks])
    _require("--task", "task", tasks, [task.task_id for task in release.tasks])
    _require("--language", "language", wanted_languages, [task.language for task in release.tasks])
    chosen = [
        task
        for task in release.tasks
        if (not wanted_repos or task.repo in wanted_repos)
        and (not wanted_languages or task.language in wanted_languages)
        and (not tasks or task.task_id in tasks)
    ][:limit]
    if not chosen:
        fix = "Take one of --repo, --language and --task away."
        raise UsageError("No task of the release passes all the filters together.", fix)
    keys = {(task.repo, task.task_id) for task in chosen}
    return release._replace(
        tasks=tuple(chosen),
        queries=tuple(query for query in release.queries if (query.repo, query.task_id) in keys),
        gold=tuple(row for row in release.gold if (row.repo, row.task_id) in keys),
    )


def _language(name: str) -> str:
    known = normalise_language(name)
    if known is None:
        raise UsageError(f"--language {name}: no such language.", f"There are: {', '.join(LANGUAGES)}.")
    return known


def _require(option: str, what: str, wanted: Iterable[str], there: Sequence[str]) -> None:
    known = dict.fromkeys(there)
    for value in sorted(wanted):
        if value in known:
            continue
        # A task's id is long: who types its beginning means what begins so.
        near = [name for name in known if value and name.startswith(value)][:3]
        lower = {name.lower(): name for name in known}
        near = near or [lower[name] for name in difflib.get_close_matches(value.lower(), lower, n=3, cutoff=0.6)]
        some = ", ".join(sorted(known)[:11]) + (", ..." if len(known) > 11 else "")
        fix = f"Did you mean {' or '.join(near)}?" if near else f"It has: {some}."
        raise UsageError(f"{option} {value}: the release has no such {what}.", fix)
