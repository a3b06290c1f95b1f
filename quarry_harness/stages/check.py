"""What a workspace or a release is worth: the verify and status commands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from quarry_harness import vectors
from quarry_harness.errors import QuarryError, UsageError
from quarry_harness.git import damaged_packs, pinned_revisions
from quarry_harness.hub import locate_release
from quarry_harness.languages import PROFILES
from quarry_harness.release import read_release
from quarry_harness.resources import resource
from quarry_harness.stages.repositories import left_out, renamed
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    embeddings_folder,
    listing_state,
    missing_revision,
    repository_folder,
    resolution_state,
    run_is_whole,
    runs_folder,
    unrecorded_runs,
)
from quarry_harness.store import Store, is_workspace
from quarry_harness.types import IMAGES, Check, Release
from quarry_harness.verify import verify_files, verify_release


def verify(workspace: Path, ref: str | None) -> list[Check]:
    """Returns every check of the release named and of the workspace, whichever of the two there are."""
    checks: list[Check] = []
    has_workspace = is_workspace(workspace)
    if ref is None and not has_workspace:
        raise UsageError(
            f"{workspace}: there is no workspace here, and no release was named: nothing to check.",
            "Add --release REF, or name a workspace with --workspace.",
        )
    imported: dict[str, str] = {}
    if ref is None and has_workspace:
        with Store.open(workspace, read_only=True) as store:
            ref = store.meta("release_ref")
            imported = store.release_files()
    if ref is None:
        checks.append(Check("release", None, "no release was named and the workspace holds none; add --release REF"))
    else:
        checks += _check_release(ref, imported)
    if has_workspace:
        checks += _check_workspace(workspace)
    else:
        checks.append(Check("workspace", None, f"there is none at {workspace}"))
    return checks


def _check_release(ref: str, imported: dict[str, str]) -> list[Check]:
    """imported: file name -> sha256 of the release as the workspace took it in, empty where it is another one."""
    release: Release | QuarryError
    try:
        folder = locate_release(ref, None)
    except QuarryError as error:
        if not imported:
            raise
        # Named by the workspace, not by the user: what the workspace holds can still be checked.
        return [Check("release", None, f"the workspace's release cannot be had: {error}")]
    try:
        release = read_release(folder, ref)
    except QuarryError as error:
        release = error
    checks = verify_release(folder, release, resource("RELEASE_MANIFEST.json"))
    if imported and isinstance(release, Release):
        changed = sorted(name for name, _ in imported.items() ^ release.files.items())
        fact = (
            f"changed since: {', '.join(dict.fromkeys(changed))}; run quarry fetch to take it in"
            if changed
            else "so it is"
        )
        checks.append(Check("release as the workspace took it in", not changed, fact))
    return checks


def _check_workspace(workspace: Path) -> list[Check]:
    checks = []
    with Store.open(workspace, read_only=True) as store:
        for what, count in store.integrity():
            checks.append(Check(f"database: {what}", count == 0, f"{count} found" if count else "none"))
        for run_id, _, _ in store.runs():
            found = verify_files(store.run_files(run_id), runs_folder(workspace) / run_id)
            checks += [Check(f"run {run_id}: {check.name}", check.ok, check.detail) for check in found]
        for run_id in unrecorded_runs(store, workspace):
            checks.append(Check(f"run {run_id}", None, "this database has no record of it, so nothing to compare with"))
        # Lexical models make no vectors; said, so that nobody takes silence for a check.
        found = list(vectors.verify(embeddings_folder(workspace)))
        checks += found or [Check("vectors", None, "the workspace has recorded none")]
        checks += _check_repositories(workspace, store)
    return checks


def _check_repositories(workspace: Path, store: Store) -> list[Check]:
    wanted: dict[str, set[str]] = {}
    for image in IMAGES:
        for revision in store.revisions(image):
            if revision.status in HAVE:
                wanted.setdefault(revision.repo, set()).add(revision.sha)
    checks = []
    for repo, shas in sorted(wanted.items()):
        wrong = _what_is_wrong(repository_folder(workspace, repo), shas)
        fact = f"{wrong}; run quarry fetch again" if wrong else "all there, every byte as its checksum says"
        checks.append(Check(f"repository {repo}", not wrong, fact))
    return checks


def _what_is_wrong(folder: Path, shas: set[str]) -> str:
    try:
        if lost := shas - pinned_revisions(folder, shas) if folder.exists() else shas:
            return f"{len(lost)} of {len(shas)} revisions are gone"
        packs = damaged_packs(folder)
    except QuarryError as error:
        return f"{error.message} Delete {folder}"
    return f"damaged: {', '.join(packs)}; delete {folder}" if packs else ""


def status(workspace: Path) -> dict[str, Any]:
    """Returns what the workspace holds, stage by stage, and what is missing.

    Keys: workspace, release, release_version, mirror, selection, counts, images {image: {revisions, fetched, chunked,
    missing, resolved {profile: bool}}}, renamed [{repo, url, note}], left_out [{repo, path, oid, bytes}], runs
    [{run_id, model, image, whole}], unrecorded_runs (run folders that this database does not know). missing rows:
    {repo, revision, status, reason}.
    """
    with Store.open(workspace, read_only=True) as store:
        runs = [
            {
                "run_id": run_id,
                "model": model,
                "image": image,
                "whole": run_is_whole(store, workspace, run_id),
            }
            for run_id, model, image in store.runs()
        ]
        repos = {repo for repo, _ in store.needed_revisions()}
        return {
            "workspace": str(workspace),
            "release": store.meta("release_ref"),
            "release_version": store.meta("release_version"),
            "mirror": store.meta("mirror") or None,
            "selection": json.loads(store.meta("selection") or "{}"),
            "counts": store.counts(),
            "images": {image: _image_status(store, image) for image in IMAGES},
            "renamed": renamed(store, repos),
            "left_out": left_out(workspace, sorted(repos)),
            "runs": runs,
            "unrecorded_runs": unrecorded_runs(store, workspace),
        }


def _image_status(store: Store, image: str) -> dict[str, Any]:
    revisions = store.revisions(image)
    have = [r for r in revisions if r.status in HAVE]
    missing = [r for r in revisions if r.status not in HAVE and r.status]
    state = listing_state(chunk_rules())
    return {
        "revisions": len(revisions),
        "fetched": len(have),
        "not_tried": sum(r.status == "" for r in revisions),
        "chunked": sum(r.rules == state for r in have),
        "missing": [missing_revision(r) for r in missing],
        "missing_by_reason": dict(Counter(r.status for r in missing)),
        "resolved": {
            profile: store.meta(f"resolved:{image}:{profile}") == resolution_state(store, image, profile, revisions)
            for profile in PROFILES
            if store.meta(f"resolved:{image}:{profile}") is not None
        },
    }
