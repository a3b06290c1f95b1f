"""What the store must never give: something made under other rules than the present ones."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.store import Store
from quarry_harness.store.database import Database


def test_resolutions_do_not_outlive_the_chunks_they_name(workspace: Path) -> None:
    with Store.open(workspace) as store:
        assert store.resolutions("preimage", "quarry")
        assert store.meta("resolved:preimage:quarry")
        dropped = store.drop_stale_blobs({"python": "made by another version"})
        assert dropped == store.drop_stale_blobs({}) + dropped > 0
        assert store.resolutions("preimage", "quarry") == []
        assert store.meta("resolved:preimage:quarry") is None
        assert all(count == 0 for _, count in store.integrity())
        assert store.revisions("preimage")[0].rules == ""


def test_a_failed_transaction_leaves_nothing(workspace: Path) -> None:
    with Store.open(workspace) as store:
        before = store.counts()
        with pytest.raises(duckdb.Error), store.transaction():
            store.add_blobs(pa.table({"id": [10**6]}), pa.table({}))
        assert store.counts() == before


def test_a_statement_that_takes_long_draws_nothing_on_standard_output(tmp_path: Path) -> None:
    # DuckDB takes python -c for somebody who watches.
    program = (
        "import sys; from pathlib import Path; from quarry_harness.store.database import Database\n"
        "database = Database(Path(sys.argv[1]), threads=1)\n"
        "print(database.one(\"SELECT current_setting('enable_progress_bar')\"))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "quarry.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_rows_are_written_in_groups_of_a_size_and_stay_in_them(tmp_path: Path) -> None:
    # What a checkpoint finds in the last group it writes anew when a row is added.
    count = 200_000
    rows = pa.table({"revision": range(count), "path": ["p"] * count, "blob": range(count), "status": ["s"] * count})
    file = tmp_path / "quarry.duckdb"
    for part in (rows, rows.slice(0, 1)):
        database = Database(file)
        database.insert_arrow("entry", part)
        database.execute("CHECKPOINT")
        groups = database.rows(
            "SELECT max(count) FROM pragma_storage_info('entry') WHERE column_name = 'blob' GROUP BY row_group_id"
        )
        assert len(groups) >= 4
        assert max(groups) <= (65_536,)
        database.connection.close()


def test_a_file_of_another_program_is_no_reason_to_ask_the_network(tmp_path: Path) -> None:
    (tmp_path / "quarry.duckdb").write_bytes(b"SQLite format 3\0" + bytes(4096))
    with pytest.raises(InvalidInputError, match="not a database that this program can read") as told:
        Store.open(tmp_path)
    assert "http" not in told.value.message


def test_what_memory_cannot_hold_is_spilled_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").mkdir()
    database = Database(Path("w", "quarry.duckdb"))
    assert database.one("SELECT current_setting('temp_directory')") == "./w/quarry.duckdb.tmp"
    database.connection.close()


def test_a_workspace_that_this_process_holds_is_said_to_be_in_use(tmp_path: Path) -> None:
    with Store.open(tmp_path, create=True), pytest.raises(EnvironmentProblem, match="in use by this process"):
        Store.open(tmp_path)


@pytest.mark.parametrize("name", ["it's", "a b", "~", "x:y"])
def test_a_workspace_lies_where_its_path_says(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for read_only in (False, True):
        with Store.open(Path(name), create=True, read_only=read_only):
            assert (tmp_path / name / "quarry.duckdb").is_file()
    assert [file.name for file in tmp_path.iterdir()] == [name]
