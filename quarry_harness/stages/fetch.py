"""The fetch stage: the release into the workspace, and every revision that its selection needs onto the disk."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from quarry_harness.errors import DataError, UsageError
from quarry_harness.git import require_git
from quarry_harness.hub import hub_source, locate_release
from quarry_harness.languages import dialect_of_path
from quarry_harness.mirrors import Credentials, repository_url
from quarry_harness.release import corpus_revision, read_release, select_tasks
from quarry_harness.resources import resource
from quarry_harness.stages.repositories import Known, Source, bring, plan
from quarry_harness.stages.workspace import demo_mirror, release_name, require_release
from quarry_harness.store import Store, is_workspace
from quarry_harness.types import Progress, Release
from quarry_harness.verify import manifest_problems


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks of the release the workspace works on; empty means all."""

    repos: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    limit: int | None = None

    def in_order(self) -> Selection:
        """The same selection, however it was typed."""
        repos, languages, tasks = (tuple(sorted(set(names))) for names in (self.repos, self.languages, self.tasks))
        return Selection(repos, languages, tasks, self.limit)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is filtered out."""
        return not (self.repos or self.languages or self.tasks) and self.limit is None


def source_of(
    template: str | None, token_variable: str | None, helper: str | None, *, retry_missing: bool = False
) -> Source:
    """Returns where repositories come from, as a user names it; the variable and the helper name a secret's place."""
    credentials = Credentials(token_variable or "", helper or "") if token_variable or helper else None
    return Source(template, credentials, retry_missing)


def fetch(
    workspace: Path,
    ref: str | None,
    selection: Selection,
    image: str,
    source: Source,
    jobs: int,
    progress: Progress,
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Fetches the missing revisions; returns the JSON document of the command.

    Keys: revisions (wanted), tasks, queries, queries_without_revision, repositories, release_changed (the workspace
    held another, or another state of it), seconds, and those of `repositories.bring`. ref None takes the release that
    the workspace already holds, and its selection and mirror unless others are given. A dry run reads, counts and
    writes nothing; it has the keys of `repositories.plan` instead.
    A release of the hub is taken in only when its files are what its manifest and this program's pins say, and what
    the same reference meant before (DataError).
    """
    require_git()
    release, kept, named = _release(workspace, ref)
    if ref is None:
        selection = kept.selection if selection.is_everything else selection
        source = replace(source, template=kept.mirror) if source.template is None else source
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
    for repo in pins:
        # A bad template or name is told before anything is written.
        repository_url(repo, source.template)
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
        known = _known(workspace)
        return result | {"dry_run": True} | plan(workspace, pins, known, _dry_source(workspace, release, source), jobs)
    with Store.open(workspace, create=True) as store:
        _refuse_changed(store, named, release)
        before = store.meta("release_fingerprint")
        if before != release.fingerprint:
            store.import_release(release, revisions)
        result["release_changed"] = before not in (None, release.fingerprint)
        store.set_meta("release_ref", release.ref)
        store.set_meta("release_version", release.version)
        store.set_meta("mirror", source.template or "")
        store.select_tasks(
            [(task.repo, task.task_id) for task in chosen.tasks],
            {"filters": asdict(selection.in_order()), "tasks": len(chosen.tasks), "of": len(release.tasks)},
        )
        if release.ref == "demo" and source.template is None:
            source = replace(source, template=_demo_template(workspace), credentials=None)
        result |= bring(store, workspace, pins, _wanted(release), source, jobs, progress)
    return result | {"seconds": round(time.monotonic() - started, 3)}


class _Kept(NamedTuple):
    """What a workspace goes on with where the user names no release."""

    selection: Selection = Selection()
    mirror: str | None = None


def _release(workspace: Path, ref: str | None) -> tuple[Release, _Kept, str]:
    """Returns the release, what the workspace has been working with, and how the release was named.

    A workspace goes on with the release that it has taken in, wherever that came from and whatever is there now.
    """
    if ref is not None:
        folder = locate_release(ref, None)
        release = read_release(folder, _lasting(ref, folder))
        if hub_source(folder)[0]:
            _refuse_damaged(folder, release)
        return release, _Kept(), ref
    if not is_workspace(workspace):
        raise UsageError(f"{workspace}: there is no workspace here.", "Say which release: quarry fetch --release demo")
    with Store.open(workspace, read_only=True) as store:
        require_release(store)
        release = store.release()
        filters = json.loads(store.meta("selection") or "{}").get("filters", {})
        mirror = store.meta("mirror") or None
    repos, languages, tasks = (tuple(filters.get(name, ())) for name in ("repos", "languages", "tasks"))
    return release, _Kept(Selection(repos, languages, tasks, filters.get("limit")), mirror), release.ref


def _refuse_damaged(folder: Path, release: Release) -> None:
    """What came over the network is checked on arrival, against every checksum and row count that is known."""
    wrong = manifest_problems(folder, release, resource("RELEASE_MANIFEST.json"))
    if wrong:
        more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
        raise DataError(
            f"{release.ref}: {wrong[0].name}: {wrong[0].detail}{more}. Nothing was taken in.",
            f"If the download is damaged: delete {folder}, its blobs beside it, and fetch again.",
        )


def _refuse_changed(store: Store, named: str, release: Release) -> None:
    """A commit of the hub does not change, and a revision that a user named is taken for one that does not."""
    if not release.ref.startswith("hf:"):
        return
    # Without a revision a reference means the newest one, on purpose.
    names = [release.ref, named] if "@" in named else [release.ref]
    for name in dict.fromkeys(names):
        seen = store.first_seen(name)
        if seen is not None and seen[1] != release.fingerprint:
            lines = set(seen[1].splitlines()) ^ set(release.fingerprint.splitlines())
            changed = ", ".join(sorted({line.split(" ")[0] for line in lines}))
            raise DataError(
                f"{name}: the release has changed since this workspace first took it in ({changed}):"
                f" it was {seen[0]}, now it is {release.ref}. Nothing was taken in.",
                "Name the commit that you mean, or use another --workspace for the new one.",
            )
    for name in names:
        store.record_seen(name, release.ref, release.fingerprint)


def _known(workspace: Path) -> Known:
    if not is_workspace(workspace):
        return {}
    with Store.open(workspace, read_only=True) as store:
        return store.known_revisions()


def _dry_source(workspace: Path, release: Release, source: Source) -> Source:
    """The demo's mirror is made by the fetch itself; a dry run makes none."""
    if release.ref != "demo" or source.template is not None:
        return source
    return Source(demo_mirror(workspace).resolve().as_uri() + "/{owner}/{name}.git")


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


def _wanted(release: Release) -> Callable[[str, str], bool]:
    gold_paths: dict[str, set[str]] = defaultdict(set)
    for row in release.gold:
        gold_paths[row.repo].update(unit.path for unit in row.units)

    def wanted(repo: str, path: str) -> bool:
        return dialect_of_path(path, True) is not None or path in gold_paths[repo]

    return wanted


def _demo_template(workspace: Path) -> str:
    from quarry_harness import demo

    return demo.build_mirror(demo_mirror(workspace))
