"""The workspace's database: the only room that knows DuckDB and SQL.

Bulk rows come in as Arrow tables and go out as Arrow tables or plain tuples. One process writes: DuckDB's own lock on
the file keeps a second one out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.store import corpora, integrity, reading, releases, upkeep
from quarry_harness.store.database import Database, Row
from quarry_harness.types import GoldUnit, Release

FILE_NAME = "quarry.duckdb"


def is_workspace(folder: Path) -> bool:
    """Returns whether the folder holds a workspace's database; EnvironmentProblem where that cannot be seen."""
    try:
        (folder / FILE_NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise EnvironmentProblem(
            f"{folder}: {error.strerror}.", "Name a folder that you may enter with --workspace."
        ) from error
    return True


class RevisionRow(NamedTuple):
    """One pinned revision as the workspace knows it."""

    id: int
    repo: str
    sha: str
    status: str  # fetch's word; "" before it was tried
    reason: str
    rules: str


class Store:
    """An open database. Use as a context manager; `path` is its file."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.path = database.path

    @classmethod
    def open(cls, workspace: Path, *, create: bool = False, read_only: bool = False, threads: int = 0) -> Store:
        """Opens the workspace's database.

        create: make the workspace where there is none; without it a missing one is a UsageError. threads: how many a
        query may use, 0 for DuckDB's choice. Raises what Database raises.
        """
        path = workspace / FILE_NAME
        if not create and not is_workspace(workspace):
            raise UsageError(
                f"{workspace}: there is no workspace here.",
                "Make one with: quarry fetch --release demo (or name another folder with --workspace).",
            )
        return cls(Database(path, read_only=read_only, threads=threads))

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database; everything committed is on the disk."""
        self._db.connection.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing: what happens inside is committed together at the end, or rolled back on an exception."""
        return self._db.transaction()

    def meta(self, key: str) -> str | None:
        """Returns the value kept under a key, None where there is none."""
        return self._db.meta(key)

    def set_meta(self, key: str, value: str) -> None:
        """Keeps a value under a key."""
        self._db.set_meta(key, value)

    # -- release ------------------------------------------------------------------------------------------------------

    def import_release(self, release: Release, corpus_revisions: dict[tuple[str, str], str]) -> None:
        """Replaces the release in the workspace. corpus_revisions: (image, query id) -> revision of its corpus."""
        releases.keep(self._db, release, corpus_revisions)

    def release(self) -> Release:
        """Returns the release as it was imported, without the fields that nothing here needs."""
        return releases.read(self._db)

    def first_seen(self, ref: str) -> tuple[str, str] | None:
        """Returns (lasting reference, fingerprint) of what a reference meant when it was first taken in."""
        rows = self._db.rows("SELECT lasting, fingerprint FROM seen WHERE ref = ?", [ref])
        return (rows[0][0], rows[0][1]) if rows else None

    def record_seen(self, ref: str, lasting: str, fingerprint: str) -> None:
        """Keeps what a reference means; the first word stands."""
        self._db.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?)", [ref, lasting, fingerprint])

    def select_tasks(self, keys: Iterable[tuple[str, str]], description: dict[str, Any]) -> None:
        """Makes the tasks named (repo, task id) the workspace's selection; description says how they were chosen."""
        wanted = list(keys)
        rows = pa.table({"repo": [r for r, _ in wanted], "task_id": [t for _, t in wanted]})
        with self.transaction(), self._db.incoming(rows):
            self._db.execute(
                "UPDATE task SET selected = EXISTS (SELECT 1 FROM incoming i"
                " WHERE i.repo = task.repo AND i.task_id = task.task_id)"
            )
            self.set_meta("selection", json.dumps(description, sort_keys=True))

    def release_files(self) -> dict[str, str]:
        """Returns file name -> sha256 of the imported release."""
        return dict(self._db.rows("SELECT name, sha256 FROM release_file ORDER BY name"))

    def counts(self) -> dict[str, int]:
        """Returns how many rows the workspace holds of each thing a user would ask about."""
        questions = {
            "tasks": "SELECT count(*) FROM task",
            "selected_tasks": "SELECT count(*) FROM task WHERE selected",
            "queries": "SELECT count(*) FROM query",
            "selected_queries": "SELECT count(*) FROM query JOIN task USING (repo, task_id) WHERE selected",
            "blobs": "SELECT count(*) FROM blob",
            "chunks": "SELECT count(*) FROM chunk",
            "runs": "SELECT count(*) FROM run",
        }
        return {name: int(self._db.one(sql)) for name, sql in questions.items()}

    def selected_tasks(self) -> list[Row]:
        """Returns (repo, task id) of the selection in release order."""
        return self._db.rows("SELECT repo, task_id FROM task WHERE selected ORDER BY ordinal")

    def selected_queries(self, image: str) -> list[Row]:
        """Returns (ordinal, query id, repo, task id, language, text, corpus revision) in release order.

        The revision is "" where the release states none for that image.
        """
        return self._db.rows(
            "SELECT q.ordinal, q.query_id, q.repo, q.task_id, t.language, q.text, coalesce(g.revision, '')"
            " FROM query q JOIN task t USING (repo, task_id)"
            " LEFT JOIN gold_row g ON g.query = q.ordinal AND g.image = ?"
            " WHERE t.selected ORDER BY q.ordinal",
            [image],
        )

    def query_ids(self) -> list[str]:
        """Returns the id of every query of the release."""
        return [query_id for (query_id,) in self._db.rows("SELECT query_id FROM query ORDER BY ordinal")]

    def gold(self, image: str) -> list[tuple[int, int, str, str, str, GoldUnit]]:
        """Returns (query, ordinal, repo, corpus revision, place, unit) of the selection, in release order."""
        rows = self._db.rows(
            "SELECT u.query, u.ordinal, q.repo, g.revision, g.place, u.unit_key, u.path, u.symbol, u.fqmn,"
            " u.start_line, u.end_line, u.relevance, u.revision, u.image"
            " FROM gold_unit u JOIN gold_row g USING (image, query) JOIN query q ON q.ordinal = u.query"
            " JOIN task t USING (repo, task_id) WHERE u.image = ? AND t.selected ORDER BY u.query, u.ordinal",
            [image],
        )
        return [(*row[:5], GoldUnit(*row[5:])) for row in rows]

    def gold_paths(self, repo: str) -> set[str]:
        """Returns every path that gold names in a repository, at any revision and image."""
        rows = self._db.rows(
            "SELECT DISTINCT u.path FROM gold_unit u JOIN query q ON q.ordinal = u.query WHERE q.repo = ?", [repo]
        )
        return {path for (path,) in rows}

    # -- revisions ----------------------------------------------------------------------------------------------------

    def record_revisions(self, outcomes: Iterable[tuple[str, str, str, str]], asked: str = "") -> None:
        """Keeps (repo, sha, status, reason) of a fetch, and where it was asked for.

        A revision already known keeps its id and listing.
        """
        given = list(outcomes)
        if not given:
            return
        rows = pa.table([list(column) for column in zip(*given, strict=True)], ["repo", "sha", "status", "reason"])
        with self.transaction(), self._db.incoming(rows):
            self._db.execute(
                "UPDATE revision SET status = i.status, reason = i.reason, asked = ? FROM incoming i"
                " WHERE revision.repo = i.repo AND revision.sha = i.sha",
                [asked],
            )
            self._db.execute(
                "INSERT INTO revision (id, repo, sha, status, reason, rules, other_files, asked)"
                " SELECT (SELECT coalesce(max(id), -1) FROM revision) + row_number() OVER (),"
                " repo, sha, status, reason, '', 0, ? FROM incoming ANTI JOIN revision USING (repo, sha)",
                [asked],
            )

    def known_revisions(self) -> dict[tuple[str, str], tuple[str, str, str]]:
        """Returns (repo, sha) -> (status, reason, where it was asked for) of every revision ever tried."""
        rows = self._db.rows("SELECT repo, sha, status, reason, asked FROM revision")
        return {(repo, sha): (status, reason, asked) for repo, sha, status, reason, asked in rows}

    def record_move(self, repo: str, url: str, note: str) -> None:
        """Keeps where a host said that a repository is now; an empty note forgets it."""
        self._db.execute("DELETE FROM moved WHERE repo = ?", [repo])
        if note:
            self._db.execute("INSERT INTO moved VALUES (?, ?, ?)", [repo, url, note])

    def moves(self) -> list[Row]:
        """Returns (repo, url, note) of every repository that has moved."""
        return self._db.rows("SELECT repo, url, note FROM moved ORDER BY repo")

    def needed_revisions(self) -> set[tuple[str, str]]:
        """Returns (repo, sha) of every revision that the release needs, at both images, selected or not."""
        return upkeep.needed_revisions(self._db)

    def unneeded(self) -> dict[str, int]:
        """Returns how many rows nothing in the release needs: of revision, entry, blob and chunk."""
        return upkeep.unneeded(self._db)

    def drop_unneeded(self) -> None:
        """Removes those rows, all or none."""
        upkeep.drop_unneeded(self._db)

    def revisions(self, image: str) -> list[RevisionRow]:
        """Returns the revisions that the selection needs at one image, by repo and sha; id -1 where never tried."""
        rows = self._db.rows(
            "SELECT DISTINCT coalesce(r.id, -1), q.repo, g.revision, coalesce(r.status, ''), coalesce(r.reason, ''),"
            " coalesce(r.rules, '') FROM gold_row g JOIN query q ON q.ordinal = g.query"
            " JOIN task t USING (repo, task_id)"
            " LEFT JOIN revision r ON r.repo = q.repo AND r.sha = g.revision"
            " WHERE g.image = ? AND t.selected AND g.revision <> '' ORDER BY 2, 3",
            [image],
        )
        return [RevisionRow(*row) for row in rows]

    # -- chunks -------------------------------------------------------------------------------------------------------

    def listing_digest(self, rows: pa.Table) -> int:
        """Returns the digest of a listing: columns path, blob (-1 for none), status."""
        with self._db.incoming(rows):
            return int(self._db.one(f"SELECT {integrity.digest_of('entry')} FROM incoming"))

    def replace_entries(self, revision: int, rules: str, rows: pa.Table, digest: int, other_files: int) -> None:
        """Keeps the listing of one revision, as `listing_digest` has it, and how many other files there are."""
        self._db.execute("DELETE FROM entry WHERE revision = ?", [revision])
        with self._db.incoming(rows):
            self._db.execute(f"INSERT INTO entry SELECT {int(revision)}, path, blob, status FROM incoming")
        self._db.execute(
            "UPDATE revision SET rules = ?, other_files = ?, content = ? WHERE id = ?",
            [rules, other_files, digest, revision],
        )

    def known_blobs(self, pairs: Iterable[tuple[str, str]], rules: dict[str, str]) -> dict[tuple[str, str], int]:
        """Returns (oid, dialect) -> id for those pairs that are parsed under the rules given per dialect."""
        wanted = sorted(pairs)
        columns = {
            "oid": [oid for oid, _ in wanted],
            "dialect": [dialect for _, dialect in wanted],
            "rules": [rules[dialect] for _, dialect in wanted],
        }
        with self._db.incoming(pa.table(columns, _PAIR_SCHEMA)):
            rows = self._db.rows("SELECT b.oid, b.dialect, b.id FROM blob b JOIN incoming USING (oid, dialect, rules)")
        return {(oid, dialect): number for oid, dialect, number in rows}

    def drop_stale_blobs(self, rules: dict[str, str]) -> int:
        """Removes blobs and chunks made under other rules than those given per dialect; returns how many blobs."""
        current = pa.table({"dialect": list(rules), "rules": list(rules.values())}, _RULES_SCHEMA)
        with self._db.incoming(current):
            stale = int(self._db.one("SELECT count(*) FROM blob ANTI JOIN incoming USING (dialect, rules)"))
            if stale:
                with self.transaction():
                    run = self._db.execute
                    run("CREATE TEMP TABLE stale AS SELECT id FROM blob ANTI JOIN incoming USING (dialect, rules)")
                    for table, column in (("chunk", "blob"), ("blob", "id")):
                        run(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM stale)")
                    run("DROP TABLE stale")
                    run("DELETE FROM entry")
                    run("UPDATE revision SET rules = '', content = 0")
                    # Blob ids are used again: a resolution must not outlive the chunk it names.
                    run("DELETE FROM resolution")
                    run("DELETE FROM meta WHERE key LIKE 'resolved:%' OR key LIKE 'content:resolution:%'")
        return stale

    def next_blob_id(self) -> int:
        """Returns the first free blob id."""
        return int(self._db.one("SELECT coalesce(max(id), -1) + 1 FROM blob"))

    def add_blobs(self, blobs: pa.Table, chunks: pa.Table) -> None:
        """Adds parsed blobs with their chunks; the columns are those of the schema."""
        names = ", ".join(blobs.column_names)
        with self._db.incoming(blobs), self._db.incoming(chunks, "incoming_chunks"):
            self._db.execute(
                f"INSERT INTO blob ({names}, content) SELECT {names}, coalesce(d.content, 0) FROM incoming LEFT JOIN"
                f" (SELECT blob AS id, {integrity.digest_of('chunk')} AS content FROM incoming_chunks GROUP BY blob) d"
                " USING (id)"
            )
        if chunks.num_rows:
            self._db.insert_arrow("chunk", chunks)

    def chunk_summary(self, revisions: Sequence[int]) -> dict[str, Any]:
        """Returns counts over the listed revisions: files, distinct blobs, chunks, bytes, skipped by reason."""
        with self._db.incoming(pa.table({"id": pa.array(revisions, pa.int32())})):
            files, other = self._db.rows(
                "SELECT (SELECT count(*) FROM entry WHERE revision IN (SELECT id FROM incoming)),"
                " (SELECT coalesce(sum(other_files), 0) FROM revision WHERE id IN (SELECT id FROM incoming))"
            )[0]
            blobs, chunks, size = self._db.rows(
                "WITH used AS (SELECT DISTINCT blob FROM entry WHERE revision IN (SELECT id FROM incoming)"
                " AND blob >= 0) SELECT (SELECT count(*) FROM used),"
                " (SELECT count(*) FROM chunk WHERE blob IN (SELECT blob FROM used)),"
                " (SELECT coalesce(sum(bytes), 0) FROM blob WHERE id IN (SELECT blob FROM used))"
            )[0]
            skipped = self._db.rows(
                "SELECT CASE WHEN e.blob < 0 THEN e.status ELSE b.status END AS why, count(*) FROM entry e"
                " LEFT JOIN blob b ON b.id = e.blob WHERE e.revision IN (SELECT id FROM incoming)"
                " GROUP BY why ORDER BY why"
            )
        reasons = {why: count for why, count in skipped if why != "parsed"}
        return {
            "files": files,
            "other_files": int(other),
            "blobs": blobs,
            "chunks": chunks,
            "bytes": int(size),
            "skipped": reasons,
        }

    def files_at(self, revision: int, paths: Iterable[str]) -> list[Row]:
        """Returns (path, "parsed" or the skip reason, lines) for those of the paths that the revision has."""
        with self._db.incoming(pa.table({"path": pa.array(sorted(paths), pa.string())})):
            return self._db.rows(
                "SELECT e.path, CASE WHEN e.blob < 0 THEN e.status ELSE b.status END, coalesce(b.lines, 0)"
                " FROM entry e LEFT JOIN blob b ON b.id = e.blob"
                " WHERE e.revision = ? AND e.path IN (SELECT path FROM incoming) ORDER BY e.path",
                [revision],
            )

    def chunks_at(self, revision: int, paths: Iterable[str], symbols: Iterable[str]) -> list[Row]:
        """Returns the chunks of a revision that lie in one of the paths or have one of the names, in corpus order.

        Rows are (path, blob, ordinal, language, kind, name, container, qualified name, lines, bytes).
        """
        return reading.chunks_at(self._db, revision, paths, symbols)

    def gather_documents(self, revisions: Sequence[int], kinds: Iterable[str] | None) -> pa.Table:
        """Returns the distinct documents of these revisions of one repository: path, container, name, text, by number.

        kinds None = chunks of every kind. `corpus` then answers for these revisions, until the next call.
        """
        return corpora.gather(self._db, revisions, kinds)

    def longest_documents(self, revisions: Sequence[int], kinds: Iterable[str] | None, count: int) -> pa.Table:
        """Returns the longest documents of these revisions: path, container, name, text; at most `count`."""
        return corpora.longest(self._db, revisions, kinds, count)

    def corpus(self, revision: int) -> pa.Table:
        """Returns a gathered revision's corpus in the one order that breaks ties: path, lines, name, place in the file.

        Columns: path, blob, ordinal, name, start_line, end_line, document (its number).
        """
        return corpora.corpus(self._db, revision)

    def sources(self, wanted: Iterable[Row], kinds: Iterable[str] | None) -> list[Row]:
        """Returns (number, path, name, text) of the chunks at those places, as far as they are here."""
        return reading.sources(self._db, wanted, kinds)

    # -- resolutions and runs -----------------------------------------------------------------------------------------

    def replace_resolutions(self, image: str, profile: str, rows: Sequence[Row], state: str) -> None:
        """Keeps the resolutions of one image and profile, and the state of the workspace they hold for."""
        with self.transaction():
            self._db.execute("DELETE FROM resolution WHERE image = ? AND profile = ?", [image, profile])
            columns = ["image", "profile", "query", "ordinal", "unit_key", "tier", "reason", "path", "blob", "chunk"]
            self._db.insert("resolution", columns, [(image, profile, *row) for row in rows])
            self.set_meta(f"resolved:{image}:{profile}", state)
            integrity.keep_resolutions(self._db, image, profile)

    def resolutions(self, image: str, profile: str) -> list[Row]:
        """Returns (query, ordinal, unit key, tier, reason, path, blob, chunk, relevance, kind, bytes) in release order.

        Kind and bytes are those of the chunk and its source, "" and 0 where the unit is unresolved.
        """
        return self._db.rows(
            "SELECT r.query, r.ordinal, r.unit_key, r.tier, r.reason, r.path, r.blob, r.chunk, u.relevance,"
            " coalesce(c.kind, ''), coalesce(c.end_byte - c.start_byte, 0)"
            " FROM resolution r JOIN gold_unit u USING (image, query, ordinal)"
            " LEFT JOIN chunk c ON c.blob = r.blob AND c.ordinal = r.chunk AND r.tier <> ''"
            " WHERE r.image = ? AND r.profile = ? ORDER BY r.query, r.ordinal",
            [image, profile],
        )

    def keep_outcomes(self, run_id: str, outcomes: dict[int, str]) -> None:
        """Keeps what an unfinished run has for these queries: query ordinal -> a document of the eval stage."""
        with self.transaction():
            rows = [(run_id, query, document) for query, document in sorted(outcomes.items())]
            self._db.insert("outcome", ["run_id", "query", "document"], rows)

    def forget_outcomes(self, run_id: str) -> None:
        """Drops what an unfinished run has kept."""
        self._db.execute("DELETE FROM outcome WHERE run_id = ?", [run_id])

    def ranked_queries(self, run_id: str) -> set[int]:
        """Returns the ordinals of the queries for which an unfinished run has kept something."""
        return {query for (query,) in self._db.rows("SELECT query FROM outcome WHERE run_id = ?", [run_id])}

    def outcomes(self, run_id: str, queries: Sequence[int]) -> list[str]:
        """Returns what an unfinished run has kept for each of these queries, in their order."""
        with self._db.incoming(pa.table({"query": pa.array(queries, pa.int32())})):
            kept: dict[int, str] = dict(
                self._db.rows(
                    "SELECT query, document FROM outcome WHERE run_id = ? AND query IN (SELECT query FROM incoming)",
                    [run_id],
                )
            )
        return [kept[query] for query in queries]

    def note_repository(self, run_id: str, repo: str, document: str) -> None:
        """Keeps what an unfinished run has to say of a repository: a document of the eval stage."""
        self.set_meta(f"note:{run_id}:{repo}", document)

    def repository_notes(self, run_id: str) -> list[str]:
        """Returns what an unfinished run has noted, by repository."""
        rows = self._db.rows("SELECT value FROM meta WHERE starts_with(key, ?) ORDER BY key", [f"note:{run_id}:"])
        return [value for (value,) in rows]

    def record_run(self, run_id: str, model: str, image: str, identity: str, files: dict[str, tuple[str, int]]) -> None:
        """Keeps a finished run and its files: name -> (sha256, bytes). What it kept while unfinished can go."""
        with self.transaction():
            self._db.execute("DELETE FROM outcome WHERE run_id = ?", [run_id])
            self._db.execute("DELETE FROM meta WHERE starts_with(key, ?)", [f"note:{run_id}:"])
            self._db.execute("DELETE FROM run_file WHERE run_id = ?", [run_id])
            self._db.execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)", [run_id, model, image, identity])
            rows = [(run_id, name, sha, size) for name, (sha, size) in sorted(files.items())]
            self._db.insert("run_file", ["run_id", "name", "sha256", "bytes"], rows)

    def runs(self) -> list[Row]:
        """Returns (run id, model, image) of every recorded run."""
        return self._db.rows("SELECT run_id, model, image FROM run ORDER BY run_id")

    def run_files(self, run_id: str) -> dict[str, tuple[str, int]]:
        """Returns name -> (sha256, bytes) of a run's files as they were written."""
        rows = self._db.rows("SELECT name, sha256, bytes FROM run_file WHERE run_id = ? ORDER BY name", [run_id])
        return {name: (sha, size) for name, sha, size in rows}

    def integrity(self) -> list[tuple[str, int]]:
        """Returns (what must not be, how often it is): references into nowhere, and rows not as they were written."""
        return integrity.problems(self._db)


_PAIR_SCHEMA = pa.schema([("oid", pa.string()), ("dialect", pa.string()), ("rules", pa.string())])
_RULES_SCHEMA = pa.schema([("dialect", pa.string()), ("rules", pa.string())])
