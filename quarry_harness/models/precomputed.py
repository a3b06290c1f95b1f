"""Vectors that were made elsewhere, by id: the SHA-256 (hex) of the exact text in UTF-8.

A Parquet file has a column `vector` (lists of numbers) and a column `id`, or `text`, whose ids are computed. A .npy
file of shape (n, dimension) has its ids, one a line, in the file of the same name with the ending .ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import InvalidInputError
from quarry_harness.models.embedders import HERE, unit_length
from quarry_harness.models.registry import Model
from quarry_harness.models.tokens import Estimate


class PrecomputedVectors:
    """The vectors of a file. Raises InvalidInputError for a file that is not as described above."""

    token_count = Estimate.how
    max_tokens = 0
    cuts = HERE

    def __init__(self, model: Model) -> None:
        self._model = model
        self._file = Path(model.model)
        if not self._file.is_file():
            raise InvalidInputError(f"{self._file}: there is no such file of vectors.")
        ids_file = Path(model.ids) if model.ids else self._file.with_suffix(".ids")
        if self._file.suffix == ".npy":
            ids, self._vectors = _from_npy(self._file, ids_file)
            self._digest = f"{_sha256(self._file)}+{_sha256(ids_file)}"
        else:
            ids, self._vectors = _from_parquet(self._file)
            self._digest = _sha256(self._file)
        self._row = {name: row for row, name in enumerate(ids)}
        if len(self._row) != len(ids):
            raise InvalidInputError(f"{self._file}: an id occurs twice.", "Every text has one vector.")
        given = int(self._vectors.shape[1])
        self.dimension = model.output_dimension or given
        if self.dimension > given:
            raise InvalidInputError(f"{self._file}: the vectors have {given} dimensions, not {self.dimension}.")
        self.limits = model.limits
        self.similarity = model.similarity

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a vector: the file's content, wherever it lies."""
        return {
            "name": self._model.name,
            "kind": "precomputed",
            "revision": f"sha256:{self._digest}",
            "dimension": self.dimension,
            "similarity": self.similarity,
        }

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        """Returns the texts as they are: prompts were the business of whoever made the vectors."""
        return list(texts)

    def count_tokens(self, prepared: Sequence[str]) -> NDArray[np.int64]:
        """Returns an estimate; nothing is cut here."""
        return Estimate().count(prepared)

    def embed(self, prepared: Sequence[str], role: str) -> NDArray[np.float32]:
        """Returns vectors of shape (texts, dimension); InvalidInputError for a text that the file does not have."""
        ids = [text_id(text) for text in prepared]
        missing = [position for position, name in enumerate(ids) if name not in self._row]
        if missing:
            start = " ".join(prepared[missing[0]].split())[:60]
            raise InvalidInputError(
                f"{self._file}: {len(missing)} of {len(ids)} texts have no vector; the first is"
                f" {ids[missing[0]]}, a {role} that starts: {start}",
                "The ids are the SHA-256 of the exact text; every query and every document needs one.",
            )
        rows = np.array([self._row[name] for name in ids], dtype=np.int64)
        vectors = np.asarray(self._vectors[rows], dtype=np.float32)[:, : self.dimension]
        return unit_length(vectors) if self.similarity == "cosine" else vectors


def text_id(text: str) -> str:
    """Returns the id of a text: the SHA-256 of its UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _from_npy(file: Path, ids_file: Path) -> tuple[list[str], NDArray[Any]]:
    try:
        vectors = np.load(file, mmap_mode="r", allow_pickle=False)
        ids = ids_file.read_text("utf-8").split("\n")
    except FileNotFoundError as error:
        raise InvalidInputError(f"{error.filename}: there is no such file.", "Ids stand one a line.") from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{file}: {error}") from None
    ids = ids[:-1] if ids and not ids[-1] else ids
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise InvalidInputError(f"{file}: it holds {vectors.dtype} of shape {vectors.shape}, not rows of floats.")
    if len(ids) != len(vectors):
        raise InvalidInputError(f"{ids_file}: it has {len(ids)} ids for {len(vectors)} vectors.")
    return ids, vectors


def _from_parquet(file: Path) -> tuple[list[str], NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInputError(f"{file}: {error}") from None
    names = set(table.column_names)
    if "vector" not in names or not names & {"id", "text"}:
        raise InvalidInputError(f"{file}: its columns are {sorted(names)}.", "It needs vector, and id or text.")
    column = table["vector"].combine_chunks()
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not (lists or pa.types.is_fixed_size_list(column.type)) or not pa.types.is_floating(column.type.value_type):
        raise InvalidInputError(f"{file}: the column vector holds {column.type}, not lists of floats.")
    values = column.flatten()
    width = len(values) // max(1, len(column))
    sizes = pa.compute.list_value_length(column).to_pylist()
    if set(sizes) != {width} or not width or values.null_count:
        raise InvalidInputError(f"{file}: the vectors are missing, or differ in their number of dimensions.")
    keys = table["id" if "id" in names else "text"].to_pylist()
    if not all(isinstance(key, str) for key in keys):
        raise InvalidInputError(f"{file}: an id or text is no string.")
    ids = keys if "id" in names else [text_id(key) for key in keys]
    return ids, values.to_numpy(zero_copy_only=False).reshape(len(ids), width)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
