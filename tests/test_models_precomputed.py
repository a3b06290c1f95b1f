"""Vectors made elsewhere: found by the exact text, checked on arrival."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quarry_harness.errors import InvalidInputError
from quarry_harness.models.embedders import open_embedder
from quarry_harness.models.registry import Options, find

TEXTS = ["def f(): pass", "größer", ""]
VECTORS = np.array([[3, 4, 0], [0, 0, 2], [1, 1, 1]], dtype=np.float32)
IDS = [hashlib.sha256(text.encode()).hexdigest() for text in TEXTS]
UNIT = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)


def parquet(folder: Path, **columns: Any) -> str:
    file = folder / "v.parquet"
    pq.write_table(pa.table(columns), file)
    return str(file)


@pytest.mark.parametrize("of", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("fixed", [False, True])
def test_parquet_by_id_gives_unit_vectors_in_the_order_of_the_texts(tmp_path: Path, of: Any, fixed: bool) -> None:
    kind = pa.list_(of, 3) if fixed else pa.list_(of)
    name = parquet(tmp_path, id=IDS, vector=pa.array(VECTORS.astype(of.to_pandas_dtype()).tolist(), type=kind))
    embedder = open_embedder(find(name))
    prepared = embedder.prepare(["", "größer", "def f(): pass", ""], "query")
    vectors = embedder.embed(prepared, "query")
    np.testing.assert_allclose(vectors, UNIT[[2, 1, 0, 2]], atol=1e-6)
    assert vectors.dtype == np.float32


def test_parquet_by_text_is_the_same(tmp_path: Path) -> None:
    embedder = open_embedder(find(parquet(tmp_path, text=TEXTS, vector=VECTORS.tolist())))
    np.testing.assert_allclose(embedder.embed(TEXTS, "document"), UNIT, atol=1e-6)


def test_npy_with_ids_and_a_shorter_dimension(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    (tmp_path / "v.ids").write_text("".join(f"{name}\n" for name in IDS))
    embedder = open_embedder(find(str(tmp_path / "v.npy"), Options(dimension=2)))
    np.testing.assert_allclose(embedder.embed(TEXTS[:1], "document"), [[0.6, 0.8]], atol=1e-6)
    before = embedder.describe()
    (tmp_path / "w.npy").write_bytes((tmp_path / "v.npy").read_bytes())
    (tmp_path / "w.ids").write_text("\n".join(reversed(IDS)))
    assert open_embedder(find(str(tmp_path / "w.npy"))).describe()["revision"] != before["revision"]


def test_a_text_without_a_vector_is_named(tmp_path: Path) -> None:
    embedder = open_embedder(find(parquet(tmp_path, id=IDS, vector=VECTORS.tolist())))
    with pytest.raises(InvalidInputError, match=r"1 of 2 texts have no vector.*a query that starts: no such"):
        embedder.embed([TEXTS[0], "no such\ntext"], "query")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": IDS, "vectors": VECTORS.tolist()}, "its columns are"),
        ({"vector": VECTORS.tolist()}, "its columns are"),
        ({"id": [IDS[0]] * 3, "vector": VECTORS.tolist()}, "an id occurs twice"),
        ({"id": [1, 2, 3], "vector": VECTORS.tolist()}, "no string"),
        ({"id": IDS, "vector": ["a", "b", "c"]}, "not lists of floats"),
        ({"id": IDS, "vector": [[1.0, 2.0], [1.0], [1.0]]}, "differ"),
        ({"id": IDS, "vector": [[1.0], None, [1.0]]}, "missing"),
        ({"id": IDS, "vector": [[1.0], [None], [1.0]]}, "missing"),
    ],
)
def test_a_file_that_is_wrong_is_refused(columns: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=words):
        open_embedder(find(parquet(tmp_path, **columns)))


def test_a_damaged_parquet_or_npy_file_is_refused(tmp_path: Path) -> None:
    for name in ("v.parquet", "v.npy"):
        (tmp_path / name).write_bytes(b"PAR1 no, not at all")
        (tmp_path / "v.ids").write_text("a\n")
        with pytest.raises(InvalidInputError, match=name):
            open_embedder(find(str(tmp_path / name)))
    np.save(tmp_path / "v.npy", VECTORS)
    with pytest.raises(InvalidInputError, match="1 ids for 3 vectors"):
        open_embedder(find(str(tmp_path / "v.npy")))
    np.save(tmp_path / "v.npy", np.arange(3))
    with pytest.raises(InvalidInputError, match="not rows of floats"):
        open_embedder(find(str(tmp_path / "v.npy")))
    (tmp_path / "v.ids").unlink()
    with pytest.raises(InvalidInputError, match=r"v\.ids: there is no such file"):
        open_embedder(find(str(tmp_path / "v.npy")))
