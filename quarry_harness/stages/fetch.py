"""The fetch stage: the release into the workspace, and every revision that its selection needs onto the disk."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.fetching import FetchOutcome, FetchPolicy, FetchReport, fetch_pins, repository_url
from quarry_harness.git import pinned_revisions, require_git
from quarry_harness.hub import hub_source, locate_release
from quarry_harness.languages import dialect_of_path
from quarry_harness.release import corpus_revision, read_release, select_tasks
from quarry_harness.stages.workspace import HAVE, release_name, repository_folder
from quarry_harness.store import FILE_NAME, Store
from quarry_harness.types import Progress, Release


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks of the release the workspace works on; empty means all."""

    repos: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered out."""
        return not (self.repos or self.languages or self.tasks) and self.limit is None


def fetch(
    workspace: Path,
    ref: str | None,
    selection: Selection,
    image: str,
    template: str | None,
    jobs: int,
    progress: Progress,
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Fetches the missing revisions; returns the JSON document of the command.

    Keys: revisions (wanted), fetched (now), present (before), missing [{repo, revision, status, reason}], bytes,
    requests, seconds, tasks, queries, queries_without_revision, repositories, outcomes {status: count}.
    ref None takes the release that the workspace already holds, and its selection unless another is given. A dry run
    reads, counts and writes nothing.
    """
    require_git()
    release, kept = _release(workspace, ref)
    if ref is None and selection.is_everything:
        selection = kept
    chosen = select_tasks(
        release, list(selection.repos), list(selection.languages), list(selection.tasks), selection.limit
    )
    revisions = _corpus_revisions(release)
    pins, without = _pins(chosen, revisions, image)
    if not pins:
        raise UsageError(
            f"{release_name(release.ref)}: the release states no revision at {image} for any of these tasks.",
            "Choose another --image, or other tasks.",
        )
    started = time.monotonic()
    result: dict[str, Any] = {
        "release": release_name(release.ref),
        "image": image,
        "tasks": len(chosen.tasks),
        "queries": len(chosen.queries),
        "queries_without_revision": without,
        "repositories": len(pins),
        "revisions": sum(len(shas) for shas in pins.values()),
    }
    if dry_run:
        return result | _dry_run(workspace, pins)
    with Store.open(workspace, create=True) as store:
        if store.meta("release_fingerprint") != release.fingerprint:
            store.import_release(release, revisions)
        store.set_meta("release_ref", release.ref)
        store.set_meta("release_version", release.version)
        store.select_tasks(
            [(task.repo, task.task_id) for task in chosen.tasks],
            {"filters": asdict(selection), "tasks": len(chosen.tasks), "of": len(release.tasks)},
        )
        if release.ref == "demo" and template is None:
            template = _demo_template(workspace)
        reports = _fetch_all(store, workspace, pins, _wanted(release), template, jobs, progress)
    return result | _summary(reports) | {"seconds": round(time.monotonic() - started, 3)}


def _release(workspace: Path, ref: str | None) -> tuple[Release, Selection]:
    """Returns the release, and the selection that the workspace has been working on."""
    kept = Selection()
    if ref is None:
        if not (workspace / FILE_NAME).exists():
            raise UsageError(
                f"{workspace}: there is no workspace here.", "Say which release: quarry fetch --release demo"
            )
        with Store.open(workspace, read_only=True) as store:
            ref = store.meta("release_ref")
            filters = json.loads(store.meta("selection") or "{}").get("filters", {})
        if ref is None:
            raise UsageError(f"{workspace}: the workspace holds no release yet.", "Add --release REF.")
        repos, languages, tasks = (tuple(filters.get(name, ())) for name in ("repos", "languages", "tasks"))
        kept = Selection(repos, languages, tasks, filters.get("limit"))
    folder = locate_release(ref, None)
    return read_release(folder, _lasting(ref, folder)), kept


def _lasting(ref: str, folder: Path) -> str:
    """The reference that will mean the same tomorrow and from another folder: the whole path, the hub's commit."""
    dataset, commit = hub_source(folder)
    if dataset:
        return f"hf://{dataset}@{commit}"
    return ref if ref == "demo" else str(folder.resolve())


def _corpus_revisions(release: Release) -> dict[tuple[str, str], str]:
    tasks = {(task.repo, task.task_id): task for task in release.tasks}
    queries = {query.query_id: query for query in release.queries}
    return {
        (row.image_stage, row.query_id): corpus_revision(queries[row.query_id], row, tasks[row.repo, row.task_id])
        for row in release.gold
    }


def _pins(chosen: Release, revisions: dict[tuple[str, str], str], image: str) -> tuple[dict[str, list[str]], int]:
    """Returns repo -> its revisions, both sorted, and how many queries have no revision at this image."""
    pins: dict[str, set[str]] = defaultdict(set)
    without = 0
    for query in chosen.queries:
        revision = revisions.get((image, query.query_id), "")
        if revision:
            pins[query.repo].add(revision)
        else:
            without += 1
    return {repo: sorted(shas) for repo, shas in sorted(pins.items())}, without


def _dry_run(workspace: Path, pins: dict[str, list[str]]) -> dict[str, Any]:
    present = sum(
        len(pinned_revisions(repository_folder(workspace, repo), shas))
        for repo, shas in pins.items()
        if repository_folder(workspace, repo).exists()
    )
    return {"dry_run": True, "present": present, "to_fetch": sum(map(len, pins.values())) - present}


def _wanted(release: Release) -> Callable[[str, str], bool]:
    gold_paths: dict[str, set[str]] = defaultdict(set)
    for row in release.gold:
        gold_paths[row.repo].update(unit.path for unit in row.units)

    def wanted(repo: str, path: str) -> bool:
        return dialect_of_path(path, True) is not None or path in gold_paths[repo]

    return wanted


def _demo_template(workspace: Path) -> str:
    from quarry_harness import demo

    return demo.build_mirror(workspace / "demo-mirror")


def _fetch_all(
    store: Store,
    workspace: Path,
    pins: dict[str, list[str]],
    wanted: Callable[[str, str], bool],
    template: str | None,
    jobs: int,
    progress: Progress,
) -> list[FetchReport]:
    """Fetches the repositories side by side; each one's outcomes are kept as soon as it is done."""
    for repo in pins:
        repository_url(repo, template)  # a template that cannot work is told once, before anything is tried
    reports = []
    progress(0, len(pins), "repositories")
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {
            pool.submit(
                fetch_pins,
                repo,
                shas,
                repository_folder(workspace, repo),
                template,
                partial(wanted, repo),
                policy=FetchPolicy(),
            ): repo
            for repo, shas in pins.items()
        }
        try:
            for future in as_completed(waiting):
                report = _report(future, waiting[future], pins)
                reports.append(report)
                store.record_revisions(_kept(report))
                progress(len(reports), len(pins), report.repo)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(reports, key=lambda report: report.repo)


def _report(future: Future[FetchReport], repo: str, pins: dict[str, list[str]]) -> FetchReport:
    """A repository's report; a repository that is itself at fault has one, too, so that the others go on."""
    try:
        return future.result()
    except (InvalidInputError, EnvironmentProblem) as error:
        outcomes = tuple(FetchOutcome(sha, "failed", str(error)) for sha in pins[repo])
        return FetchReport(repo, "", "", outcomes, (), 0, 0, 0.0)


def _kept(report: FetchReport) -> list[tuple[str, str, str, str]]:
    """What the workspace remembers of a fetch: a revision is there, however often it took to bring it."""
    return [(report.repo, o.revision, "fetched" if o.status in HAVE else o.status, o.reason) for o in report.outcomes]


def _summary(reports: Sequence[FetchReport]) -> dict[str, Any]:
    outcomes = Counter(outcome.status for report in reports for outcome in report.outcomes)
    return {
        "fetched": outcomes["fetched"],
        "present": outcomes["present"],
        "missing": [
            {"repo": report.repo, "revision": o.revision, "status": o.status, "reason": o.reason}
            for report in reports
            for o in report.outcomes
            if o.status not in HAVE
        ],
        "outcomes": dict(sorted(outcomes.items())),
        "bytes": sum(report.bytes for report in reports),
        "requests": sum(report.requests for report in reports),
    }
