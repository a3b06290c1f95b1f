"""Whether the tables are what was written: references into nowhere, and digests kept when rows were written.

The digest of a set of rows is the exclusive or of 64 bits of each row's MD5: no order, and no memory for many rows. It
finds damage and mistakes, not an attacker.
"""

from __future__ import annotations

from quarry_harness.store.database import Database

_COLUMNS = {
    "task": "ordinal, repo, task_id, language",
    "query": "ordinal, repo, task_id, query_id, text, revision",
    "gold_row": "image, query, revision, place",
    "gold_unit": "image, query, ordinal, unit_key, path, symbol, fqmn, start_line, end_line, relevance, revision",
    "resolution": "image, profile, query, ordinal, unit_key, tier, reason, path, blob, chunk",
    "entry": "path, blob, status",
    "chunk": "ordinal, language, kind, name, container, qualified_name, start_line, end_line, start_byte, end_byte,"
    " text",
}
_NOWHERE = {
    "chunks without their blob": "SELECT count(*) FROM chunk ANTI JOIN blob ON blob.id = chunk.blob",
    "files without their blob": "SELECT count(*) FROM entry ANTI JOIN blob ON blob.id = entry.blob"
    " WHERE entry.blob >= 0",
    "files without their revision": "SELECT count(*) FROM entry ANTI JOIN revision ON revision.id = entry.revision",
    "queries without their task": "SELECT count(*) FROM query ANTI JOIN task USING (repo, task_id)",
    "gold units without their query": "SELECT count(*) FROM gold_unit ANTI JOIN query"
    " ON query.ordinal = gold_unit.query",
    "resolutions without their gold unit": "SELECT count(*) FROM resolution"
    " ANTI JOIN gold_unit USING (image, query, ordinal)",
    "resolved units without their chunk": "SELECT count(*) FROM resolution r ANTI JOIN chunk c"
    " ON c.blob = r.blob AND c.ordinal = r.chunk WHERE r.tier <> ''",
}
_RELEASE = ("task", "query", "gold_row", "gold_unit")


def digest_of(table: str) -> str:
    """Returns the SQL expression that aggregates rows of a table, or rows with its columns, to their digest."""
    return f"coalesce(bit_xor(md5_number_lower(concat_ws(chr(31), {_COLUMNS[table]}))), 0)"


def keep_release(database: Database) -> None:
    """Keeps the digest of the release's tables."""
    database.set_meta("content:release", _release(database))


def keep_resolutions(database: Database, image: str, profile: str) -> None:
    """Keeps the digest of the resolutions of one image and profile."""
    database.set_meta(f"content:resolution:{image}:{profile}", _resolutions(database, image, profile))


def problems(database: Database) -> list[tuple[str, int]]:
    """Returns (what must not be, how often it is): references into nowhere, and rows not as they were written."""
    return [(what, int(database.one(sql))) for what, sql in _NOWHERE.items()] + _changed(database)


def _changed(database: Database) -> list[tuple[str, int]]:
    """Returns (what must not be, how often it is): release, listings, chunks, resolutions that are not as written."""
    blobs = f"SELECT blob AS id, {digest_of('chunk')} AS now FROM chunk GROUP BY blob"
    listings = f"SELECT revision AS id, {digest_of('entry')} AS now FROM entry GROUP BY revision"
    resolved = database.rows(
        "SELECT split_part(key, ':', 3), split_part(key, ':', 4), value FROM meta WHERE key LIKE 'content:resolution:%'"
    )
    kept = database.meta("content:release")
    return [
        ("a release that is not as it was imported", int(kept is not None and kept != _release(database))),
        ("revisions whose listing is not as it was written", _differ(database, "revision", listings)),
        ("blobs whose chunks are not as they were written", _differ(database, "blob", blobs)),
        (
            "resolutions that are not as they were written",
            sum(value != _resolutions(database, image, profile) for image, profile, value in resolved),
        ),
    ]


def _differ(database: Database, table: str, now: str) -> int:
    joined = f"{table} LEFT JOIN ({now}) n USING (id)"
    return int(database.one(f"SELECT count(*) FROM {joined} WHERE content <> coalesce(n.now, 0)"))


def _release(database: Database) -> str:
    return " ".join(str(database.one(f"SELECT {digest_of(table)} FROM {table}")) for table in _RELEASE)


def _resolutions(database: Database, image: str, profile: str) -> str:
    where = "WHERE image = ? AND profile = ?"
    return str(database.one(f"SELECT {digest_of('resolution')} FROM resolution {where}", [image, profile]))
