"""The exact texts in a file: vectors made of them elsewhere are the ones that an evaluation asks for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Ended
from toy_embedder import toy_vector

from quarry_harness.stages import texts as stage

Quarry = Callable[..., Ended]


def test_texts_become_vectors_elsewhere_and_the_vectors_a_run(
    quarry: Quarry, demo_workspace: Path, workspace: Path, tmp_path: Path
) -> None:
    file = tmp_path / "texts.parquet"
    done = quarry("eval", "--dry-run", "--texts", file, "-w", demo_workspace)
    assert done.code == 0, done.err
    table = pq.read_table(file)
    rows = table.to_pylist()
    roles = [row["role"] for row in rows]
    assert table.column_names == ["id", "role", "text"]
    assert f"{roles.count('query')} queries and {roles.count('document')} documents are in {file}" in done.out
    assert roles == sorted(roles, reverse=True)
    assert roles.count("query") == 79
    assert all(row["id"] == hashlib.sha256(row["text"].encode()).hexdigest() for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)
    # What somebody else's machine does, with the file alone.
    vectors = [toy_vector(row["text"], 16).tolist() for row in rows]
    pq.write_table(pa.table({"id": table["id"], "vector": vectors}), tmp_path / "vectors.parquet")
    ran = quarry("eval", "--model", tmp_path / "vectors.parquet", "-w", workspace, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["queries_without_result"] == 0
    assert ran.json["texts"]["vectors.parquet"]["queries"] == 79
    # Every text is asked for: without the last one the file does not do.
    pq.write_table(pa.table({"id": table["id"][:-1], "vector": vectors[:-1]}), tmp_path / "less.parquet")
    less = quarry("eval", "--model", tmp_path / "less.parquet", "-w", workspace)
    assert (less.code, "1 of " in less.err) == (3, True)


def test_the_file_is_written_in_parts_and_is_whole(
    demo_workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quarry_harness.stages.ranking import EvalQuery
    from quarry_harness.store import Store

    monkeypatch.setattr(stage, "_ROWS_AT_A_TIME", 100)
    with Store.open(demo_workspace, read_only=True) as store:
        queries = [EvalQuery(*row) for row in store.selected_queries("preimage")]
        written = stage.write_texts(
            store, tmp_path / "t", queries, store.revisions("preimage"), "quarry", lambda *_: None
        )
    read = pq.ParquetFile(tmp_path / "t")
    total = written["queries"] + written["documents"]
    assert read.num_row_groups == -(-total // 100)
    assert read.metadata.num_rows == total
    assert list(tmp_path.iterdir()) == [tmp_path / "t"]


def test_texts_alone_or_where_nobody_may_write_are_refused(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    done = quarry("eval", "--texts", tmp_path / "t", "-w", demo_workspace)
    assert (done.code, "--texts needs --dry-run" in done.err) == (2, True)
    done = quarry("eval", "--dry-run", "--texts", tmp_path / "no" / "t", "-w", demo_workspace)
    assert (done.code, "cannot be written" in done.err) == (4, True)
