"""Where things lie in a workspace, and what state its parts are in."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from quarry_harness import canonicalize, languages
from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.fingerprints import fingerprint
from quarry_harness.languages import LANGUAGE_OF_DIALECT, PROFILES
from quarry_harness.store import RevisionRow, Store
from quarry_harness.verify import verify_files

DEFAULT_WORKSPACE = Path("quarry-workspace")
# Part of the state of a listing: raise it when the choice of files or of their language changes.
LISTING_RULES = "1"
HAVE = ("fetched", "present")
# What may be different on another try; the other outcomes of a fetch are facts about the data.
RETRYABLE = frozenset(
    {"unreachable", "rate_limited", "timed_out", "disk_full", "access_denied", "damaged_here", "failed"}
)
# Of these, what lies with the network or with this machine: without the user's word nothing is measured before another
# try, since a number over half the corpora would look like a result. "failed" is of that one revision.
IN_THE_WAY = RETRYABLE - {"failed"}


def repository_folder(workspace: Path, repo: str) -> Path:
    """Returns where the bare repository of `owner__name` lies."""
    return workspace / "repos" / f"{repo}.git"


def shown_path(path: str) -> str:
    """Returns a path of a tree fit for a JSON document: bytes that are no UTF-8 become \\xNN."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def runs_folder(workspace: Path) -> Path:
    """Returns the folder that holds one folder a run."""
    return workspace / "runs"


def embeddings_folder(workspace: Path) -> Path:
    """Returns the folder that holds one store of vectors a model."""
    return workspace / "embeddings"


def slug(name: str) -> str:
    """Returns a model's name fit for a file name and for a column of a TREC file."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-.") or "model"


def demo_mirror(workspace: Path) -> Path:
    """Returns the folder of the repositories that the release `demo` is fetched from."""
    return workspace / "demo-mirror"


def run_is_whole(store: Store, workspace: Path, run_id: str) -> bool:
    """Returns whether a recorded run's files are all what they were when they were written."""
    recorded = store.run_files(run_id)
    return bool(recorded) and all(check.ok for check in verify_files(recorded, runs_folder(workspace) / run_id))


def unrecorded_runs(store: Store, workspace: Path) -> list[str]:
    """Returns the names of run folders that the database does not know: it was made anew, or they were put there."""
    found = {path.parent.name for path in runs_folder(workspace).glob("[!.]*/result.json")}
    return sorted(found - {run_id for run_id, _, _ in store.runs()})


def run_name(model: str, image: str, profile: str, identity: dict[str, Any]) -> str:
    """Returns a run's id: what it is for people, and the digest of all that could change it."""
    scope = image if profile == "quarry" else f"{image}-{profile}"
    return f"{slug(model)}-{scope}-{digest(identity)[:12]}"


def release_name(ref: str) -> str:
    """Returns what a release is called in results: the reference, or a folder's name without this machine's path."""
    return Path(ref).name if Path(ref).is_absolute() else ref


def chunk_rules() -> dict[str, str]:
    """Returns dialect -> fingerprint of everything that could change its chunks."""
    return {dialect: fingerprint(dialect) for dialect in sorted(LANGUAGE_OF_DIALECT)}


def digest(value: Any) -> str:
    """Returns the sha256 of a JSON-able value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8")).hexdigest()


def source_state(*modules: ModuleType) -> str:
    """Returns a digest of modules' source: what is kept under it is made again when their code changes."""
    return digest([inspect.getsource(module) for module in modules])


def listing_state(rules: dict[str, str]) -> str:
    """Returns what a revision's listing is marked with when it was made under the present rules."""
    return digest([LISTING_RULES, source_state(languages), rules])


def command_line(stage: str, workspace: Path, image: str, profile: str = "quarry") -> str:
    """Returns the command that does a stage for this workspace, as a user would type it."""
    words = ["quarry", stage, "--image", image]
    words += ["--profile", profile] if profile != "quarry" else []
    words += ["--workspace", str(workspace)] if workspace != DEFAULT_WORKSPACE else []
    return shlex.join(words)


def require_release(store: Store) -> None:
    """Raises UsageError where the workspace has no release yet."""
    if store.meta("release_fingerprint") is None:
        raise UsageError(
            f"{store.path.parent}: the workspace holds no release yet.",
            f"Start with: {command_line('fetch', store.path.parent, 'preimage')} --release REF",
        )


def require_fetched(store: Store, image: str) -> list[RevisionRow]:
    """Returns the revisions of the selection; UsageError where there is none at this image or one was never tried."""
    require_release(store)
    revisions = store.revisions(image)
    if not revisions:
        raise UsageError(f"The selection has no revision at {image}.", "Choose another --image, or other tasks.")
    untried = [r for r in revisions if r.status == ""]
    if untried:
        raise UsageError(
            f"{len(untried)} of {len(revisions)} revisions of the selection were never fetched for {image}.",
            f"First run: {command_line('fetch', store.path.parent, image)}",
        )
    return revisions


def require_chunked(store: Store, image: str, *, accept_missing: bool) -> list[RevisionRow]:
    """Returns the revisions of the selection, everything that exists of them chunked.

    Raises UsageError where one is not chunked yet, EnvironmentProblem where one could not be had for what lies
    IN_THE_WAY, unless what is missing is accepted.
    """
    revisions = require_fetched(store, image)
    again = [r for r in revisions if r.status in IN_THE_WAY]
    if again and not accept_missing:
        raise EnvironmentProblem(
            f"{again[0].repo}@{again[0].sha}: {again[0].reason} ({len(again)} of {len(revisions)} revisions like it).",
            f"What was fetched is kept; run again: {command_line('fetch', store.path.parent, image)}"
            " (or --accept-missing: go on without them, their gold counts as not found)",
        )
    state = listing_state(chunk_rules())
    waiting = [r for r in revisions if r.status in HAVE and r.rules != state]
    if waiting:
        raise UsageError(
            f"{len(waiting)} of {len(revisions)} fetched revisions are not chunked.",
            f"First run: {command_line('chunk', store.path.parent, image)}",
        )
    return revisions


def resolution_state(store: Store, image: str, profile: str, revisions: Sequence[RevisionRow]) -> str:
    """Returns a digest of all that the resolutions of one image and profile depend on."""
    kinds = PROFILES[profile]
    return digest(
        [
            store.meta("release_fingerprint"),
            store.selected_tasks(),
            image,
            None if kinds is None else sorted(kinds),
            [[r.repo, r.sha, r.status, r.rules] for r in revisions],
            source_state(canonicalize),
        ]
    )


def missing_revision(revision: RevisionRow) -> dict[str, str]:
    """Returns the JSON row of a revision that could not be had."""
    return {
        "repo": revision.repo,
        "revision": revision.sha,
        "status": revision.status,
        "reason": revision.reason or canonicalize.REVISION_MISSING,
    }
