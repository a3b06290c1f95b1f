"""The gc stage: what the workspace's release no longer needs is counted first, and then freed.

Needed is every revision that the release names, at both images, whatever the selection. Runs are never touched.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.layout import parts, sweep
from quarry_harness.mirrors import repository_url
from quarry_harness.pruning import bytes_below, is_unfinished, prunable_bytes, prune, remove, surplus_pins
from quarry_harness.stages.workspace import demo_mirror, repository_folder, require_release
from quarry_harness.store import Store


def collect(workspace: Path, first: Callable[[dict[str, Any]], None], *, dry_run: bool = False) -> dict[str, Any]:
    """Frees what is not needed; `first` gets the plan before anything is freed.

    Returns the plan: repositories [{repo, bytes}] to go as a whole, pins [{repo, revisions, bytes}] (about), leftovers
    [{repo, bytes}] of killed processes, demo_mirror_bytes, rows {table: count}, bytes in all; and with it dry_run,
    freed_bytes (of files, measured) and in_use [repo], which other processes worked on. Raises UsageError where the
    workspace has no release.
    """
    with Store.open(workspace, read_only=dry_run) as store:
        require_release(store)
        needed = defaultdict(set)
        for repo, sha in store.needed_revisions():
            needed[repo].add(sha)
        if not needed:
            raise UsageError(f"{workspace}: the release names no revision at all.", "Start with: quarry fetch")
        plan = _plan(workspace, needed, store)
        first(plan)
        if dry_run:
            return plan | {"dry_run": True, "freed_bytes": 0, "in_use": []}
        freed, in_use = _free(workspace, needed, plan)
        if any(plan["rows"].values()):
            store.drop_unneeded()
    return plan | {"dry_run": False, "freed_bytes": freed, "in_use": in_use}


def _plan(workspace: Path, needed: dict[str, set[str]], store: Store) -> dict[str, Any]:
    whole: list[dict[str, Any]] = []
    pins: list[dict[str, Any]] = []
    leftovers: list[dict[str, Any]] = []
    for repo in _repositories(workspace):
        folder = repository_folder(workspace, repo)
        if left := sum(bytes_below(part) for part in parts(folder)):
            leftovers.append({"repo": repo, "bytes": left})
        if not folder.is_dir():
            continue
        keep = needed.get(repo, set())
        surplus = surplus_pins(folder, keep)
        if not keep:
            whole.append({"repo": repo, "bytes": bytes_below(folder)})
        elif surplus or is_unfinished(folder):
            pins.append({"repo": repo, "revisions": len(surplus), "bytes": prunable_bytes(folder, _kept(folder, keep))})
    mirror = demo_mirror(workspace)
    demo = bytes_below(mirror) if store.meta("release_ref") != "demo" and mirror.is_dir() else 0
    return {
        "repositories": whole,
        "pins": pins,
        "leftovers": leftovers,
        "demo_mirror_bytes": demo,
        "rows": store.unneeded(),
        "bytes": sum(row["bytes"] for row in (*whole, *pins, *leftovers)) + demo,
    }


def _kept(folder: Path, keep: set[str]) -> set[str]:
    return keep & surplus_pins(folder, ())


def _repositories(workspace: Path) -> list[str]:
    """Names of what is or was to be one of our repositories; anything else in the folder is somebody else's."""
    names = set()
    for place in (workspace / "repos").glob("*__*.git*"):
        name, _, rest = place.name.partition(".git")
        try:
            repository_url(name)
        except InvalidInputError:
            continue
        if place.is_dir() and not place.is_symlink() and (not rest or rest.startswith(".part-")):
            names.add(name)
    return sorted(names)


def _free(workspace: Path, needed: dict[str, set[str]], plan: dict[str, Any]) -> tuple[int, list[str]]:
    """Returns the bytes freed, and the repositories that were left because another process works on them."""
    whole = {row["repo"] for row in plan["repositories"]}
    smaller = {row["repo"] for row in plan["pins"]}
    in_use = []
    before = bytes_below(workspace / "repos") + plan["demo_mirror_bytes"]
    try:
        for repo in sorted({*whole, *smaller, *(row["repo"] for row in plan["leftovers"])}):
            folder = repository_folder(workspace, repo)
            try:
                with FileLock(f"{folder}.lock", timeout=0):  # the one that fetching takes
                    sweep(folder)
                    if repo in whole:
                        remove(folder)
                    elif repo in smaller:
                        prune(folder, needed[repo])
            except Timeout:
                in_use.append(repo)
        if plan["demo_mirror_bytes"]:
            shutil.rmtree(demo_mirror(workspace))
    except OSError as error:
        raise EnvironmentProblem(
            f"{error.filename or workspace}: {error.strerror or error}.", "What was freed is freed; run it again."
        ) from error
    return before - bytes_below(workspace / "repos"), in_use
