"""Bringing the repositories of a selection: what to ask for, side by side, and an account of every revision."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.fetching import AbsentBlob, FetchOutcome, FetchPolicy, FetchReport, absent_blobs, fetch_pins
from quarry_harness.git import pinned_revisions
from quarry_harness.mirrors import Credentials, authorization, repository_url, size_in_mirror
from quarry_harness.stages.workspace import HAVE, RETRYABLE, repository_folder, shown_path
from quarry_harness.store import Store
from quarry_harness.types import Progress

Pins = Mapping[str, Sequence[str]]
# (repo, sha) -> (status, reason, where it was asked for): what the workspace remembers.
Known = Mapping[tuple[str, str], tuple[str, str, str]]

# After so many repositories in a row the host, the network or the disk is at fault, and the rest is left alone.
_PATIENCE = {"unreachable": 5, "rate_limited": 5, "timed_out": 5, "disk_full": 1}
# Fewer repositories than this say nothing about the others' sizes.
_ENOUGH = 5


@dataclass(frozen=True, slots=True)
class Source:
    """Where repositories come from, and what may be asked of the host."""

    template: str | None = None
    credentials: Credentials | None = None
    retry_missing: bool = False  # ask again for what the host said it does not have
    policy: FetchPolicy = field(default_factory=FetchPolicy)

    def asked(self, repo: str) -> str:
        """Where a revision of the repository is asked for, and whether as somebody: never with a secret."""
        return repository_url(repo, self.template) + (" signed in" if self.credentials else "")


@dataclass(slots=True)
class _Trouble:
    """Whether the host has failed so many repositories in a row that the others need not be tried."""

    why: tuple[str, str] | None = None
    row: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, report: FetchReport) -> None:
        bad = next((o for o in report.outcomes if o.status in _PATIENCE), None)
        with self.lock:
            if bad is None:
                self.row = 0 if report.requests else self.row
                return
            self.row += 1
            if self.row >= _PATIENCE[bad.status] and self.why is None:
                self.why = (bad.status, f"not tried, since {self.row} repositories in a row ended so: {bad.reason}")


def known_missing(pins: Pins, known: Known, source: Source) -> dict[str, set[str]]:
    """Returns repo -> revisions that the place asked now has said it does not have; another try would not help."""
    if source.retry_missing:
        return {repo: set() for repo in pins}
    return {
        repo: {sha for sha in shas if _is_settled(known.get((repo, sha)), source.asked(repo))}
        for repo, shas in pins.items()
    }


def _is_settled(row: tuple[str, str, str] | None, asked: str) -> bool:
    return row is not None and row[0] not in ("", *HAVE) and row[0] not in RETRYABLE and row[2] == asked


def plan(workspace: Path, pins: Pins, known: Known, source: Source, jobs: int) -> dict[str, Any]:
    """Returns what `bring` would do: present, to_fetch, repositories_to_ask, known_missing, disk {bytes, basis}.

    Beside them the keys of `bring` that a dry run can answer: fetched, bytes and requests are 0, missing is what is
    known to be. disk's bytes are None where nothing can honestly be said; basis says what the number stands on, or why
    there is none.
    """
    settled = known_missing(pins, known, source)
    with ThreadPoolExecutor(jobs) as pool:
        folders = [repository_folder(workspace, repo) for repo in pins]
        here = dict(zip(pins, pool.map(pinned_revisions, folders, pins.values()), strict=True))
        missing = {repo: [sha for sha in shas if sha not in here[repo]] for repo, shas in pins.items()}
        to_ask = {repo: left for repo, shas in missing.items() if (left := [s for s in shas if s not in settled[repo]])}
        disk = _disk(workspace, pins, here, to_ask, source, pool)
    to_fetch = sum(map(len, to_ask.values()))
    gone = [(repo, sha) for repo, shas in missing.items() for sha in shas if sha in settled[repo]]
    rows = [(repo, sha, *known[repo, sha][:2]) for repo, sha in gone]
    return {
        "fetched": 0,
        "missing": [dict(zip(("repo", "revision", "status", "reason"), row, strict=True)) for row in rows],
        "bytes": 0,
        "requests": 0,
        "present": sum(map(len, here.values())),
        "to_fetch": to_fetch,
        "known_missing": sum(map(len, missing.values())) - to_fetch,
        "repositories_to_ask": len(to_ask),
        "disk": disk,
    }


def _disk(
    workspace: Path, pins: Pins, here: Mapping[str, frozenset[str]], to_ask: Pins, source: Source,
    pool: ThreadPoolExecutor,
) -> dict[str, Any]:  # fmt: skip
    if not to_ask:
        return {"bytes": 0, "basis": "everything is here"}
    limit = source.policy.blob_limit_bytes
    urls = [repository_url(repo, source.template) for repo in to_ask]
    if urls[0].startswith("file:"):
        sizes = list(pool.map(partial(size_in_mirror, blob_limit_bytes=limit), urls, to_ask.values()))
        if None not in sizes:
            basis = f"from how the mirror's packs hold it; without sources over {limit // 1024} KiB"
            return {"bytes": sum(size or 0 for size in sizes), "basis": basis}
        return {"bytes": None, "basis": "the mirror cannot be measured: not all of its repositories can be read"}
    measured = {repo: _pack_bytes(repository_folder(workspace, repo)) / len(here[repo]) for repo in pins if here[repo]}
    if len(measured) < _ENOUGH:
        return {"bytes": None, "basis": "a host does not tell a pack's size before it sends it"}
    mean = sum(measured.values()) / len(measured)
    size = sum(len(shas) * measured.get(repo, mean) for repo, shas in to_ask.items())
    return {
        "bytes": round(size),
        "basis": f"scaled from the {len(measured)} repositories that are here; it may be far off",
    }


def _pack_bytes(repository: Path) -> int:
    return sum(file.stat().st_size for file in (repository / "objects" / "pack").glob("*"))


def bring(
    store: Store, workspace: Path, pins: Pins, wanted: Callable[[str, str], bool], source: Source, jobs: int,
    progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Fetches the repositories side by side; each one's outcomes are kept as soon as it is done.

    Returns fetched, present, missing [{repo, revision, status, reason, retry}], known_missing (of those: not asked
    for again), outcomes, renamed [{repo, url, note}], left_out [{repo, path, oid, bytes}], bytes, requests. Raises
    UsageError for a template or credentials that cannot work, EnvironmentProblem for a token that is not there.
    """
    known = store.known_revisions()
    settled = known_missing(pins, known, source)  # also tells at once of a template that cannot work
    if source.credentials and any(known.get((repo, sha), ("",))[0] not in HAVE for repo in pins for sha in pins[repo]):
        authorization(repository_url(next(iter(pins)), source.template), source.credentials)
    trouble, stop = _Trouble(), threading.Event()
    reports: list[FetchReport] = []
    progress(0, len(pins), "repositories")
    with ThreadPoolExecutor(jobs) as pool:
        bring_one = partial(_bring_one, workspace=workspace, wanted=wanted, source=source, trouble=trouble, stop=stop)
        waiting = [pool.submit(bring_one, repo, shas, settled[repo], known) for repo, shas in pins.items()]
        try:
            for future in as_completed(waiting):
                report = future.result()
                reports.append(report)
                _keep(store, report, known, source.asked(report.repo))
                progress(len(reports), len(pins), report.repo)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    reports.sort(key=lambda report: report.repo)
    asked_again = sum(map(len, settled.values()))
    return _summary(reports) | {"known_missing": asked_again, "renamed": renamed(store, pins)}


def _bring_one(
    repo: str, shas: Sequence[str], settled: set[str], known: Known, *,
    workspace: Path, wanted: Callable[[str, str], bool], source: Source, trouble: _Trouble, stop: threading.Event,
) -> FetchReport:  # fmt: skip
    """A repository's report; one that is itself at fault, or not tried, has one too, so that the others go on."""
    folder = repository_folder(workspace, repo)
    report = FetchReport(repo, "", "", (), (), 0, 0, 0.0)
    try:
        settled = settled - pinned_revisions(folder, settled)
        ask = [sha for sha in shas if sha not in settled]
        if trouble.why is not None:
            here = pinned_revisions(folder, ask)
            outcomes = [FetchOutcome(sha, *(("present",) if sha in here else trouble.why)) for sha in ask]
        elif ask:
            report = fetch_pins(
                repo, ask, folder, source.template, partial(wanted, repo),
                policy=source.policy, credentials=source.credentials, stop=stop,
            )  # fmt: skip
            trouble.hear(report)
            outcomes = list(report.outcomes)
        else:
            outcomes = []
    except (InvalidInputError, EnvironmentProblem) as error:
        ask = list(shas)
        outcomes = [FetchOutcome(sha, "damaged_here", str(error)) for sha in shas]
    outcomes += [FetchOutcome(sha, *known[repo, sha][:2]) for sha in shas if sha not in ask]
    return replace(report, outcomes=tuple(sorted(outcomes, key=lambda outcome: outcome.revision)))


def _keep(store: Store, report: FetchReport, known: Known, asked: str) -> None:
    """Writes down what is new: a revision is there, however often it took to bring it."""
    rows = [(report.repo, o.revision, "fetched" if o.status in HAVE else o.status, o.reason) for o in report.outcomes]
    new = [row for row in rows if known.get((row[0], row[1])) != (row[2], row[3], asked)]
    if any(row[2] != "fetched" or known.get((row[0], row[1]), ("",))[0] != "fetched" for row in new):
        store.record_revisions(new, asked)
    if report.note or (report.requests and any(o.status == "fetched" for o in report.outcomes)):
        store.record_move(report.repo, report.url, report.note)


def renamed(store: Store, repos: Pins | set[str]) -> list[dict[str, str]]:
    """Returns {repo, url, note} for those of the repositories that their host has moved."""
    return [{"repo": repo, "url": url, "note": note} for repo, url, note in store.moves() if repo in repos]


def left_out(workspace: Path, repos: Sequence[str]) -> list[dict[str, Any]]:
    """Returns {repo, path, oid, bytes} of every wanted blob that was too large to be kept, by repository and path."""
    return [
        _blob_row(repo, blob)
        for repo in repos
        for blob in absent_blobs(repository_folder(workspace, repo))
        if blob.size_bytes is not None
    ]


def _blob_row(repo: str, blob: AbsentBlob) -> dict[str, Any]:
    return {"repo": repo, "path": shown_path(blob.path), "oid": blob.oid, "bytes": blob.size_bytes}


def _summary(reports: Sequence[FetchReport]) -> dict[str, Any]:
    outcomes = Counter(outcome.status for report in reports for outcome in report.outcomes)
    return {
        "fetched": outcomes["fetched"],
        "present": outcomes["present"],
        "missing": [
            {
                "repo": report.repo,
                "revision": o.revision,
                "status": o.status,
                "reason": o.reason,
                "retry": o.status in RETRYABLE,
            }
            for report in reports
            for o in report.outcomes
            if o.status not in HAVE
        ],
        "outcomes": dict(sorted(outcomes.items())),
        "left_out": [_blob_row(report.repo, blob) for report in reports for blob in report.left_out],
        "bytes": sum(report.bytes for report in reports),
        "requests": sum(report.requests for report in reports),
    }
