"""The release in the workspace: taken in whole, and given back for commands that name none."""

from __future__ import annotations

from collections import defaultdict

from quarry_harness.store import integrity
from quarry_harness.store.database import Database
from quarry_harness.types import GoldRow, GoldUnit, Query, Release, Task

_UNIT_COLUMNS = (
    *("image", "query", "ordinal", "unit_key", "path", "symbol", "fqmn"),
    *("start_line", "end_line", "relevance", "revision"),
)


def keep(database: Database, release: Release, corpus_revisions: dict[tuple[str, str], str]) -> None:
    """Replaces the release in the workspace. corpus_revisions: (image, query id) -> revision of its corpus."""
    ordinal = {query.query_id: i for i, query in enumerate(release.queries)}
    with database.transaction():
        for table in ("release_file", "task", "query", "gold_row", "gold_unit", "resolution"):
            database.execute(f"DELETE FROM {table}")
        # Which files a listing keeps depends on the paths that gold names.
        database.execute("UPDATE revision SET rules = ''")
        database.execute("DELETE FROM meta WHERE key LIKE 'resolved:%' OR key = 'selection' OR key LIKE 'content:%'")
        database.set_meta("release_ref", release.ref)
        database.set_meta("release_version", release.version)
        database.set_meta("release_fingerprint", release.fingerprint)
        database.insert("release_file", ["name", "sha256"], sorted(release.files.items()))
        database.insert(
            "task",
            ["ordinal", "repo", "task_id", "language", "selected"],
            [(i, task.repo, task.task_id, task.language, True) for i, task in enumerate(release.tasks)],
        )
        database.insert(
            "query",
            ["ordinal", "repo", "task_id", "query_id", "text", "revision"],
            [(i, q.repo, q.task_id, q.query_id, q.text, q.revision) for i, q in enumerate(release.queries)],
        )
        database.insert(
            "gold_row",
            ["image", "query", "revision", "place"],
            [
                (g.image_stage, ordinal[g.query_id], corpus_revisions[g.image_stage, g.query_id], g.place)
                for g in release.gold
            ],
        )
        database.insert(
            "gold_unit",
            _UNIT_COLUMNS,
            [
                (g.image_stage, ordinal[g.query_id], i, u.unit_key, u.path, u.symbol, u.fqmn)
                + (u.start_line, u.end_line, u.relevance, u.revision)
                for g in release.gold
                for i, u in enumerate(g.units)
            ],
        )
        integrity.keep_release(database)


def read(database: Database) -> Release:
    """Returns the release as it was imported; a gold row's `extra` holds the revision of its corpus."""
    tasks = database.rows("SELECT repo, task_id, language FROM task ORDER BY ordinal")
    queries = database.rows("SELECT repo, task_id, query_id, text, revision FROM query ORDER BY ordinal")
    units: dict[tuple[str, int], list[GoldUnit]] = defaultdict(list)
    for row in database.rows(f"SELECT {', '.join(_UNIT_COLUMNS)} FROM gold_unit ORDER BY image, query, ordinal"):
        image, query, _, key, path, symbol, fqmn, start, end, relevance, revision = row
        unit = GoldUnit(key, path, symbol, fqmn, start, end, relevance, revision, image)
        units[image, query].append(unit)
    gold = []
    for image, query, revision, place in database.rows(
        "SELECT image, query, revision, place FROM gold_row ORDER BY image, query"
    ):
        repo, task_id, query_id, *_ = queries[query]
        of_query = tuple(units[image, query])
        gold.append(GoldRow(repo, task_id, query_id, image, of_query, {"revision": revision}, place))
    return Release(
        database.meta("release_ref") or "",
        database.meta("release_version") or "",
        dict(database.rows("SELECT name, sha256 FROM release_file")),
        tuple(Task(*row) for row in tasks),
        tuple(Query(*row) for row in queries),
        tuple(gold),
    )
