"""What the store must never give: something made under other rules than the present ones."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from quarry_harness.store import Store


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
