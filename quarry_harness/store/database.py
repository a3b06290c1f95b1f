"""One open DuckDB file: opening, transactions, bulk rows, and DuckDB's words turned into ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError

SCHEMA_VERSION = "3"

# DuckDB takes 80% of the machine otherwise; past this it spills to a folder beside the file.
MEMORY_LIMIT = "256MB"

# With each checkpoint, after 16 MB of its log, DuckDB writes the last row group of a table anew: of the 122,880 rows
# that it takes by itself, that is most of what a chunk stage writes. Groups smaller than a transaction would be worse:
# they pass by the log, by whose size alone it tells when a checkpoint is due, and nothing else frees what they hold.
# The file does not keep the number: it is said at each opening.
_ROW_GROUP_ROWS = 65_536

Row = tuple[Any, ...]


class Database:
    """A database file with our schema. `connection` runs SQL; `path` is the file."""

    def __init__(self, path: Path, *, read_only: bool = False, threads: int = 0) -> None:
        """Opens the file, and makes the tables in a new one. threads: how many a query may use, 0 for DuckDB's choice.

        Raises EnvironmentProblem where another process holds it or it cannot be written, InvalidInputError where it
        is damaged or was made by another version.
        """
        self.path = path
        _refuse_unusable(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = _connect(path, read_only=read_only, threads=threads)
        except (OSError, duckdb.Error) as error:
            raise _opening_problem(path, error) from error
        try:
            found = self._version()
            if found is None and not self.rows("SELECT 1 FROM information_schema.tables LIMIT 1"):
                if read_only:
                    # A process was killed between making the file and making the tables.
                    self.connection.close()
                    self.connection = _connect(path, read_only=False, threads=threads)
                self._create()
                found = self._version()
            self._check_version(found)
        except duckdb.Error as error:
            self.connection.close()
            raise _opening_problem(path, error) from error
        except BaseException:
            self.connection.close()
            raise

    def _create(self) -> None:
        with self.transaction():
            self.execute((Path(__file__).parent / "schema.sql").read_text("utf-8"))
            self.set_meta("schema_version", SCHEMA_VERSION)

    def _version(self) -> str | None:
        """The schema's version that the file names; asked first, since a list of the tables takes longer."""
        try:
            return self.meta("schema_version")
        except duckdb.CatalogException:
            return None

    def _check_version(self, found: str | None) -> None:
        if found != SCHEMA_VERSION:
            raise InvalidInputError(
                f"{self.path}: the database has schema version {found}, this program needs {SCHEMA_VERSION}.",
                _REBUILD,
            )

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Runs a statement.

        Raises KeyboardInterrupt where the user stopped it, EnvironmentProblem where the disk is full or not writable.
        """
        with self._plainly():
            self.connection.execute(sql, list(parameters))

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Gives DuckDB's errors the types that the rest of the program knows."""
        try:
            yield
        except (duckdb.Error, RuntimeError) as error:
            # DuckDB takes the signal for itself and tells of it with an error of its own, of either type.
            if "interrupted" in str(error).lower():
                raise KeyboardInterrupt from error
            if (problem := _problem_outside(self.path, str(error))) is not None:
                raise problem from error
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: what happens inside is committed together at the end, or rolled back on an exception."""
        self.execute("BEGIN")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            # Already aborted by the failure itself, it may be; the first error is the one to tell.
            with suppress(duckdb.Error, RuntimeError):
                self.connection.execute("ROLLBACK")
            raise

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Returns every row that a query gives."""
        with self._plainly():
            return self.connection.execute(sql, list(parameters)).fetchall()

    def arrow(self, sql: str, parameters: Sequence[object] = ()) -> pa.Table:
        """Returns what a query gives as an Arrow table."""
        with self._plainly():
            return self.connection.sql(sql, params=list(parameters)).to_arrow_table()

    def one(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Returns the first value of the first row, None where there is no row."""
        # All rows, not one: DuckDB refuses other work while a result is unfinished.
        rows = self.rows(sql, parameters)
        return rows[0][0] if rows else None

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Inserts plain tuples through Arrow; the tables' own types decide."""
        if rows:
            data = {name: [row[i] for row in rows] for i, name in enumerate(columns)}
            self.insert_arrow(table, pa.table(data))

    def insert_arrow(self, table: str, rows: pa.Table) -> None:
        """Inserts the rows of an Arrow table whose columns are the table's."""
        names = ", ".join(rows.column_names)
        with self.incoming(rows):
            self.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM incoming")

    @contextmanager
    def incoming(self, rows: pa.Table, name: str = "incoming") -> Iterator[None]:
        """Makes an Arrow table readable in SQL under a name, for the time of the block."""
        with self._plainly():
            self.connection.register(name, rows)
        try:
            yield
        except BaseException:
            # In an aborted transaction DuckDB refuses even this; the first error is the one to tell.
            with suppress(duckdb.Error, RuntimeError):
                self.connection.unregister(name)
            raise
        with self._plainly():
            self.connection.unregister(name)

    def meta(self, key: str) -> str | None:
        """Returns the value kept under a key, None where there is none."""
        value = self.one("SELECT value FROM meta WHERE key = ?", [key])
        return None if value is None else str(value)

    def set_meta(self, key: str, value: str) -> None:
        """Keeps a value under a key."""
        self.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, value])


_REBUILD = (
    "It is derived data: delete that file and run `quarry run --release REF` again;"
    " the fetched repositories and the runs beside it stay."
)


def _refuse_unusable(path: Path) -> None:
    """Raises UsageError for a path that DuckDB would take for another one, or git's configuration cannot hold."""
    words = str(path)
    shown = words.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    wrong = next((f"'{letter}'" for letter in "?\\" if letter in words), "")
    if shown != words:
        wrong = "bytes that are not UTF-8"
    elif not str(path.absolute()).isprintable():
        wrong, shown = "a control character", repr(words)[1:-1]
    if wrong:
        raise UsageError(f"{shown}: a workspace cannot lie at a path with {wrong}.", "Name another with --workspace.")


def _connect(path: Path, *, read_only: bool, threads: int) -> duckdb.DuckDBPyConnection:
    # "./": DuckDB would read a path that starts with "~" or "name:" as something else.
    words = str(path) if path.is_absolute() else f"./{path}"
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": f"{words}.tmp",
    }
    if threads:
        config["threads"] = threads
    connection = duckdb.connect(config=config)
    try:
        # In a notebook, and under python -c, DuckDB draws the progress of statements that take long on standard output.
        connection.execute("SET enable_progress_bar = false")
        quoted = words.replace("'", "''")
        mode = "READ_ONLY" if read_only else f"ROW_GROUP_SIZE {_ROW_GROUP_ROWS}"
        # With the type, since DuckDB would ask the network for what reads a file that another program made.
        connection.execute(f"ATTACH '{quoted}' AS workspace (TYPE duckdb, {mode})")
        connection.execute("USE workspace")
    except BaseException:
        connection.close()
        raise
    return connection


def _opening_problem(path: Path, error: Exception) -> Exception:
    words = str(error)
    holder = re.search(r"\(PID (\d+)", words)
    if "Could not set lock" in words or "Conflicting lock" in words or "already attached" in words:
        other = f"process {holder[1]}" if holder else "another process"
        who = "this process" if "already attached" in words else other
        return EnvironmentProblem(
            f"{path}: the workspace is in use by {who}.",
            "Wait until it is done, or name another folder with --workspace.",
        )
    if (problem := _problem_outside(path, words)) is not None:
        return problem
    if isinstance(error, OSError):
        return EnvironmentProblem(f"{path}: {error.strerror}.", "Name another folder with --workspace.")
    first = words.splitlines()[0] if words else type(error).__name__
    return InvalidInputError(f"{path}: not a database that this program can read ({first}).", _REBUILD)


def _problem_outside(path: Path, words: str) -> EnvironmentProblem | None:
    """What an error's words say of the disk and its permissions; None where they say nothing of them."""
    if "Permission denied" in words:
        return EnvironmentProblem(f"{path}: permission denied.", "Name a folder you may write with --workspace.")
    if "No space left" in words:
        return EnvironmentProblem(f"{path}: the disk is full.", "Free some room and run it again.")
    if "Read-only file system" in words:
        return EnvironmentProblem(f"{path}: the file system is read-only.", "Name another folder with --workspace.")
    return None
