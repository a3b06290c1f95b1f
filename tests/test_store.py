"""What the store must never give: something made under other rules than the present ones."""

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
