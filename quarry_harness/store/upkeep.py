"""What the workspace's release no longer needs: counted, and dropped.

Needed is every revision that a gold row of the release names, at both images, whatever the selection; and every blob
that a listing of such a revision holds.
"""

from __future__ import annotations

from quarry_harness.store.database import Database

_NEEDED = "SELECT DISTINCT q.repo, g.revision AS sha FROM gold_row g JOIN query q ON q.ordinal = g.query"
_KEPT = f"SELECT id FROM revision SEMI JOIN ({_NEEDED}) needed USING (repo, sha)"
_KEPT_BLOBS = f"SELECT blob FROM entry WHERE revision IN ({_KEPT})"
_UNNEEDED = {
    "chunk": f"blob NOT IN ({_KEPT_BLOBS})",
    "blob": f"id NOT IN ({_KEPT_BLOBS})",
    "entry": f"revision NOT IN ({_KEPT})",
    "revision": f"id NOT IN ({_KEPT})",
}


def needed_revisions(database: Database) -> set[tuple[str, str]]:
    """Returns (repo, sha) of every revision that the release needs."""
    return {(repo, sha) for repo, sha in database.rows(f"{_NEEDED} WHERE g.revision <> ''")}


def unneeded(database: Database) -> dict[str, int]:
    """Returns table -> how many of its rows nothing needs, for revision, entry, blob and chunk."""
    return {
        table: int(database.one(f"SELECT count(*) FROM {table} WHERE {which}")) for table, which in _UNNEEDED.items()
    }


def drop_unneeded(database: Database) -> None:
    """Removes the rows that `unneeded` counts, all or none, and lets DuckDB use their room again."""
    with database.transaction():
        # In this order: each table's question still needs the ones after it.
        for table, which in _UNNEEDED.items():
            database.execute(f"DELETE FROM {table} WHERE {which}")
    database.execute("CHECKPOINT")
