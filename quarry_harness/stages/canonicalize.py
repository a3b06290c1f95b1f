"""The canonicalize stage: every gold unit of the selection gets its chunk, or the reason why it has none."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from quarry_harness import canonicalize as tiers
from quarry_harness.errors import InvalidInputError
from quarry_harness.languages import PROFILES
from quarry_harness.stages.workspace import HAVE, require_chunked, resolution_state
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Chunk, GoldUnit, LocatedChunk, Progress, Resolution


def canonicalize(
    workspace: Path, image: str, profile: str, progress: Progress, *, accept_missing: bool = False
) -> dict[str, Any]:
    """Resolves the gold units.

    Returns units, resolved, by_tier, unresolved [{query_id, unit_key, reason}] and done_before.
    """
    with Store.open(workspace) as store:
        revisions = require_chunked(store, image, accept_missing=accept_missing)
        state = resolution_state(store, image, profile, revisions)
        done_before = store.meta(f"resolved:{image}:{profile}") == state
        if not done_before:
            _resolve_all(store, image, profile, revisions, state, progress)
        return _summary(store, image, profile) | {"done_before": done_before}


def _resolve_all(
    store: Store, image: str, profile: str, revisions: list[RevisionRow], state: str, progress: Progress
) -> None:
    by_revision = {(r.repo, r.sha): r for r in revisions}
    grouped: dict[tuple[str, str], list[tuple[int, int, GoldUnit]]] = defaultdict(list)
    for query, ordinal, repo, corpus_revision, _, unit in store.gold(image):
        grouped[repo, corpus_revision].append((query, ordinal, unit))
    rows = []
    for done, (key, units) in enumerate(sorted(grouped.items())):
        progress(done, len(grouped), f"{key[0]}@{key[1][:12]}")
        resolved = _resolve_revision(store, by_revision.get(key), [unit for _, _, unit in units], profile)
        for (query, ordinal, unit), (resolution, place) in zip(units, resolved, strict=True):
            rows.append((query, ordinal, unit.unit_key, resolution.tier, resolution.reason, *place))
    progress(len(grouped), len(grouped), "gold units resolved")
    store.replace_resolutions(image, profile, sorted(rows), state)


def _resolve_revision(
    store: Store, revision: RevisionRow | None, units: list[GoldUnit], profile: str
) -> list[tuple[Resolution, tuple[str, int, int]]]:
    """Returns for each unit its resolution and (path, blob, ordinal of the chunk), aligned with the units."""
    nowhere = ("", -1, -1)
    if revision is None or revision.status not in HAVE:
        why = revision.status if revision is not None else "the release states no revision"
        return [(Resolution(reason=f"{tiers.REVISION_MISSING}: {why}"), nowhere) for _ in units]
    files = store.files_at(revision.id, {unit.path for unit in units})
    rows = store.chunks_at(revision.id, {unit.path for unit in units}, {tiers.last_name(unit.fqmn) for unit in units})
    chunks = [LocatedChunk(path, Chunk(*fields)) for path, _, _, *fields in rows]
    results = []
    for unit in units:
        if unit.revision != revision.sha:
            resolution = Resolution(reason=f"{tiers.REVISION_DIFFERS}: the unit is of {unit.revision}")
        else:
            status = {path: word for path, word, _ in files}
            lines = {path: count for path, _, count in files}
            resolution = tiers.resolve(unit, chunks, PROFILES[profile], status, lines)
        results.append((resolution, rows[resolution.chunk][:3] if resolution.tier else nowhere))
    return results


def _summary(store: Store, image: str, profile: str) -> dict[str, Any]:
    names = {ordinal: query_id for ordinal, query_id, *_ in store.selected_queries(image)}
    rows = store.resolutions(image, profile)
    by_tier = Counter(row[3] for row in rows)
    return {
        "units": len(rows),
        "resolved": len(rows) - by_tier[""],
        "by_tier": {tier: by_tier[tier] for tier in tiers.TIERS},
        "unresolved": [
            {"query_id": names[query], "unit_key": unit_key, "reason": reason}
            for query, _, unit_key, tier, reason, *_ in rows
            if not tier
        ],
    }


def check_lines(workspace: Path, image: str, profile: str) -> None:
    """Raises InvalidInputError naming the release's file and line where a unit lies past the end of its file."""
    with Store.open(workspace, read_only=True) as store:
        places = {(query, ordinal): place for query, ordinal, _, _, place, _ in store.gold(image)}
        wrong = [
            (places[query, ordinal], unit_key, reason)
            for query, ordinal, unit_key, _, reason, *_ in store.resolutions(image, profile)
            if reason.startswith(tiers.LINES_PAST_END)
        ]
    if wrong:
        place, unit_key, reason = wrong[0]
        more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
        raise InvalidInputError(
            f"{place}: unit {unit_key} ends past the end of its file; {reason.partition(': ')[2]}{more}.",
            "Check the release's checksum with: quarry verify",
        )
