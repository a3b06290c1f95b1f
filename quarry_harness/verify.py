"""Checks a release against its manifests and against itself, and recorded files against what is on the disk.

Two manifests can speak: the release's own RELEASE_MANIFEST.json, and the pin of release 1.0 that travels with this
program. The pin applies to a release that is, or says it is, Quarry 1.0; see `_pin_applies`. Nothing stops a
verification: what could not be compared is a check whose `ok` is None, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from quarry_harness.errors import InvalidInputError, QuarryError
from quarry_harness.hub import hub_source
from quarry_harness.manifest import Manifest, canonical_name, pin_of, read_manifest
from quarry_harness.release import (
    FileScan,
    ReleaseScan,
    corpus_revision,
    manifest_path,
    scan_of,
    scan_release,
    sha256_of,
    unfinished_downloads,
)
from quarry_harness.types import Check, Release

# A detail names so many problems and counts the rest.
LISTED = 20


def verify_release(folder: Path, release: Release | QuarryError, pinned_manifest: Path) -> list[Check]:
    """Returns every check of the release in a folder: readability, checksums, row counts, version, references.

    release: what `read_release` returned for the folder, or the error it raised. After an error all files are read to
    the end, so that everything wrong is listed and not just the first problem. pinned_manifest: this program's own
    RELEASE_MANIFEST.json; InvalidInputError is raised where that one is broken, and for nothing else.
    """
    pinned = read_manifest(pinned_manifest)
    try:
        scan = scan_of(release) if isinstance(release, Release) else scan_release(folder, "")
    except InvalidInputError as error:
        return [Check("release", False, str(error))]
    checks = [_readable(file) for file in scan.files]
    own, own_check = _own_manifest(folder)
    checks.append(own_check)
    if own is not None:
        checks += _compare(scan, own, "own manifest")
    applies, why = _pin_applies(scan, own, pinned, hub_source(folder))
    checks.append(Check("pinned release", True if applies else None, why))
    if applies:
        checks += _compare(scan, pinned, f"pinned {pinned.version}")
    checks.append(_version(own, pinned if applies else None))
    checks += _references(scan)
    if leftovers := unfinished_downloads(folder):
        checks.append(Check("unfinished downloads", None, f"not part of the release: {_listed(leftovers)}"))
    return checks


def manifest_problems(folder: Path, release: Release, pinned_manifest: Path) -> list[Check]:
    """Returns what is wrong with the files of a release just read: the failed checks of its own manifest and the pin.

    Raises InvalidInputError where the pinned manifest is broken.
    """
    scan, pinned = scan_of(release), read_manifest(pinned_manifest)
    own, _ = _own_manifest(folder)
    checks = [] if own is None else _compare(scan, own, "own manifest")
    if _pin_applies(scan, own, pinned, hub_source(folder))[0]:
        checks += _compare(scan, pinned, f"pinned {pinned.version}")
    return [check for check in checks if check.ok is False]


def verify_files(recorded: Mapping[str, tuple[str, int]], folder: Path) -> list[Check]:
    """Returns one check a recorded file: is it under the folder, with the recorded sha256 and size?

    recorded: name relative to the folder, with "/" -> (sha256 in hex, bytes). `ok` is never None.
    """
    return [Check(name, *_same_file(folder, name, *recorded[name])) for name in sorted(recorded)]


def _same_file(folder: Path, name: str, digest: str, size: int) -> tuple[bool, str]:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        return False, "the recorded name leads out of the folder"
    path = folder / relative
    try:
        if not path.is_file():
            return False, f"missing from {folder}"
        there = path.stat().st_size
        found = sha256_of(path) if there == size else ""
    except OSError as error:
        return False, f"cannot be read: {error.strerror or error}"
    if there != size:
        return False, f"{there} bytes, recorded are {size}"
    return found == digest, f"sha256 {found}" + ("" if found == digest else f", recorded is {digest}")


def _readable(file: FileScan) -> Check:
    name = f"{file.name} readable"
    if file.problems:
        return Check(name, False, _listed([problem.message for problem in file.problems]))
    return Check(name, True, f"{file.rows} rows")


def _own_manifest(folder: Path) -> tuple[Manifest | None, Check]:
    name = "own manifest"
    path = manifest_path(folder)
    if path is None:
        return None, Check(
            name, None, "the release carries none, so that it has nothing of its own to be compared with"
        )
    try:
        manifest = read_manifest(path)
    except InvalidInputError as error:
        return None, Check(name, False, str(error))
    sums = {_kind(key) for key, pin in manifest.files.items() if pin.sha256}
    counts = {_kind(key) for key, pin in manifest.files.items() if pin.rows is not None}
    understood = [
        *(["name " + " = ".join(manifest.names)] if manifest.names else []),
        *([f"version {manifest.version}"] if manifest.version else []),
        f"checksums of {len(sums)} files",
        f"row counts of {len(counts)} files",
    ]
    detail = "understood: " + ", ".join(understood)
    if manifest.notes:
        return manifest, Check(name, None, f"{detail}; not understood: {_listed(manifest.notes)}")
    return manifest, Check(name, True if manifest.files else None, detail)


def _pin_applies(
    scan: ReleaseScan, own: Manifest | None, pinned: Manifest, source: tuple[str, str]
) -> tuple[bool, str]:
    """Returns whether the release is to be what the pin says, and why.

    In this order: what comes from the pinned dataset at the pinned commit is the pinned release, whatever it says.
    What states another version in its own manifest is another release, even where a file did not change between the
    two. What states the pinned name and version, comes from the pinned dataset, or has one file with a pinned checksum
    is the pinned release: all its other files must then match as well. Anything else is no pinned release.
    """
    own = own or Manifest()
    names = {name.casefold() for name in pinned.names}
    dataset, commit = source
    from_dataset = dataset.casefold() in names
    same = [file.name for file in scan.files if file.sha256 and file.sha256 == _checksum(pinned, file)]
    title = f"{pinned.names[0] if pinned.names else 'the pinned release'} {pinned.version}"
    if from_dataset and commit == pinned.revision:
        return True, f"{title}: it comes from {dataset} at the pinned commit {commit}"
    if own.version and not _same_version(own.version, pinned.version):
        return False, f"not a pinned release: its manifest says version {own.version}, the pin is of {title}"
    if own.version and any(name.casefold() in names for name in own.names):
        return True, f"{title}: its manifest says so"
    if from_dataset:
        return True, f"{title}: it comes from {dataset}, and states no other version"
    if same:
        return True, f"{title}: the checksum of {' and '.join(same)} says so"
    return False, f"not a pinned release: no name, origin or checksum says that it is {title}"


def _same_version(one: str, other: str) -> bool:
    """Whether two versions are the same number: "v1" is "1.0"."""

    def plain(version: str) -> list[str]:
        parts = version.strip().lower().removeprefix("v").split(".")
        while len(parts) > 1 and parts[-1] == "0":
            parts.pop()
        return parts

    return plain(one) == plain(other)


def _checksum(manifest: Manifest, file: FileScan) -> str:
    return pin_of(manifest, file.name)[0].sha256


def _compare(scan: ReleaseScan, manifest: Manifest, by: str) -> list[Check]:
    """Returns the checksum and row-count checks of every file that is there or that the manifest names."""
    checks = []
    for file in scan.files:
        checks.append(Check(f"{file.name} checksum ({by})", *_compare_checksum(file, manifest)))
        checks.append(Check(f"{file.name} rows ({by})", *_compare_rows(file, manifest)))
    here = {_kind(file.name) for file in scan.files}
    lost = sorted({_kind(name) for name in manifest.files} - here)
    return checks + [
        Check(f"{name} present ({by})", False, "the manifest names it, and it is not there") for name in lost
    ]


def _compare_checksum(file: FileScan, manifest: Manifest) -> tuple[bool | None, str]:
    pin, other_format = pin_of(manifest, file.name)
    if not file.sha256:
        return None, "the file could not be read"
    if not pin.sha256:
        return None, other_format or f"the manifest states none; the file's sha256 is {file.sha256}"
    same = file.sha256 == pin.sha256
    return same, f"sha256 {file.sha256}" + ("" if same else f", the manifest says {pin.sha256}")


def _compare_rows(file: FileScan, manifest: Manifest) -> tuple[bool | None, str]:
    pin, _ = pin_of(manifest, file.name)
    if file.rows is None:
        return None, "the rows could not be counted to the end"
    if pin.rows is None:
        return None, f"the manifest states no number; the file has {file.rows}"
    same = file.rows == pin.rows
    return same, f"{file.rows}" + ("" if same else f", the manifest says {pin.rows}")


def _version(own: Manifest | None, pinned: Manifest | None) -> Check:
    stated = own.version if own else ""
    if not stated:
        return Check("version", None, "the release states none")
    if pinned is None:
        return Check("version", None, f"the release says {stated}; there is nothing to compare it with")
    same = _same_version(stated, pinned.version)
    return Check("version", same, f"the release says {stated}, the pin {pinned.version}")


def _references(scan: ReleaseScan) -> list[Check]:
    checks = []
    for relation in scan.relations:
        if relation.unchecked:
            checks.append(Check(relation.name, None, f"not checked: {relation.unchecked}"))
        else:
            problems = [problem.message for problem in relation.problems]
            checks.append(Check(relation.name, not problems, _listed(problems) if problems else "all do"))
    unread = "not checked: the release could not be read in full"
    for name, check in (
        ("units stand at the revision of their corpus", _unit_revisions),
        ("query_ids of the tasks", _query_ids),
        ("every query has its gold-postimage row", _postimage_rows),
    ):
        checks.append(Check(name, *(check(scan.release) if scan.release else (None, unread))))
    return checks


def _unit_revisions(release: Release) -> tuple[bool | None, str]:
    tasks = {(task.repo, task.task_id): task for task in release.tasks}
    queries = {query.query_id: query for query in release.queries}
    strays = []
    for row in release.gold:
        query = queries[row.query_id]
        corpus = corpus_revision(query, row, tasks[query.repo, query.task_id])
        stray = [unit for unit in row.units if unit.revision != corpus]
        if stray:
            where = f"at {corpus}" if corpus else "at one revision, and no other field states which is meant"
            strays.append(f"{row.place}: {len(stray)} of {len(row.units)} units are not {where}")
    units = sum(len(row.units) for row in release.gold)
    return not strays, _listed(strays) if strays else f"all {units} do"


def _query_ids(release: Release) -> tuple[bool | None, str]:
    """A task may list its queries: the list must be that of the queries that name the task."""
    there: dict[tuple[str, str], set[str]] = {(task.repo, task.task_id): set() for task in release.tasks}
    for query in release.queries:
        there[query.repo, query.task_id].add(query.query_id)
    listing = [task for task in release.tasks if isinstance(task.extra.get("query_ids"), list)]
    if not listing:
        return None, "the tasks list none"
    wrong = []
    for task in listing:
        listed, found = {str(name) for name in task.extra["query_ids"]}, there[task.repo, task.task_id]
        if listed != found:
            wrong.append(f"task {task.task_id} of {task.repo}: {_listed(sorted(listed ^ found))} on one side only")
    return not wrong, _listed(wrong) if wrong else f"the lists of {len(listing)} tasks agree with the queries"


def _postimage_rows(release: Release) -> tuple[bool | None, str]:
    rows = {row.query_id for row in release.gold if row.image_stage == "postimage"}
    if not any(_kind(name) == "gold-postimage" for name in release.files):
        return None, "the release has no gold-postimage file; it is optional"
    without = [query.query_id for query in release.queries if query.query_id not in rows]
    return not without, f"without one: {_listed(without)}" if without else "all do"


def _kind(name: str) -> str:
    return canonical_name(name).partition(".")[0]


def _listed(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
    count = f"{len(problems)} problems: " if len(problems) > 1 and problems[0].endswith(".") else ""
    return count + "; ".join(problem.rstrip(".") for problem in problems[:LISTED]) + more
