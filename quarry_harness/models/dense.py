"""Dense retrieval: an embedding model's vectors, each text embedded once and kept, and exact search among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quarry_harness.models import Plan
from quarry_harness.models.embedders import Embedder
from quarry_harness.models.embedding import Spend, count_cut, embed_missing, keys, plan
from quarry_harness.retrieve import SEARCH_BYTES, Corpus, Ranking, search
from quarry_harness.types import Progress
from quarry_harness.vectors import VectorStore

# Vectors read together to find the longest.
_ROWS_AT_A_TIME = 65_536


class Dense:
    """A retriever made of an embedder and its store of vectors."""

    def __init__(
        self,
        embedder: Embedder,
        root: Path,
        progress: Progress,
        *,
        dtype: str = "float32",
        spend: Spend | None = None,
        budget_bytes: int = SEARCH_BYTES,
    ) -> None:
        """root: the folder that holds one store a model; dtype: what vectors are kept as, one of vectors.DTYPES.

        The store is opened when it is first needed; what then asks raises what VectorStore raises.
        """
        self._embedder = embedder
        self._name = str(embedder.describe()["name"])
        self._dtype = dtype
        self._progress = progress
        self._spend = spend
        self._budget_bytes = budget_bytes
        self._root = root

    @cached_property
    def _store(self) -> VectorStore:
        # Opened when it is first needed: a run that is done already needs no vectors.
        return VectorStore(self._root, self._embedder.describe(), self._embedder.dimension, self._dtype)

    def close(self) -> None:
        """Lets other processes have the store."""
        if "_store" in self.__dict__:
            self._store.close()

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score: the embedder's description and how vectors are kept."""
        return self._embedder.describe() | {"stored_as": self._dtype}

    def begin_with(self, documents: Sequence[str]) -> None:
        """Embeds these documents before all others. Raises what embed_missing raises."""
        self._rows(documents, "document")

    def rank(
        self, queries: Sequence[str], documents: Sequence[str], corpora: Sequence[Corpus], k: int
    ) -> Iterator[list[Ranking]]:
        """Yields for each corpus, in order, the best k of each of its queries; every document has a score.

        Whatever of the queries and documents has no vector yet is embedded first. Raises what embed_missing raises.
        """
        asked = self._rows(queries, "query")
        rows, number = np.unique(self._rows(documents, "document"), return_inverse=True)
        vectors = self._store.read(asked).astype(np.float32)
        there = [Corpus(number[corpus.documents], corpus.queries) for corpus in corpora]
        longest = 1.0 if self._embedder.similarity == "cosine" else self._longest(rows)
        yield from search(vectors, self._store.select(rows), there, k, longest=longest, budget_bytes=self._budget_bytes)

    def plan(self, queries: Sequence[str], documents: Sequence[str], seen: dict[str, set[bytes]]) -> dict[str, Plan]:
        """Returns, under the model's name, what of these texts has no vector yet, queries and documents together."""
        known = seen.setdefault(self._name, set())
        one, other = (
            plan(self._embedder, texts, role, self._store, known)
            for texts, role in ((queries, "query"), (documents, "document"))
        )
        longest = max(one.longest_tokens, other.longest_tokens)
        both = (one.texts + other.texts, one.tokens + other.tokens, longest, one.cut + other.cut)
        return {self._name: Plan(*both, one.token_count)}

    def count_cut(self, queries: Sequence[str], documents: Sequence[str]) -> dict[str, dict[str, int]]:
        """Returns, under the model's name, how many texts were ranked and how many it did not see whole.

        Keys: queries, queries_cut, documents, documents_cut.
        """
        counts: dict[str, int] = {}
        for name, texts, role in (("queries", queries, "query"), ("documents", documents, "document")):
            rows = np.unique(self._store.find(keys(self._embedder, texts, role)))
            counts |= {name: len(rows), f"{name}_cut": count_cut(self._embedder, self._store, rows)}
        return {self._name: counts}

    def _rows(self, texts: Sequence[str], role: str) -> NDArray[np.int64]:
        return embed_missing(self._embedder, texts, role, self._store, self._progress, self._spend)

    def _longest(self, rows: NDArray[np.int64]) -> float:
        """Returns the length of the longest of these vectors."""
        longest = 0.0
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            part = self._store.read(rows[start : start + _ROWS_AT_A_TIME])
            longest = max(longest, float(np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64).max())))
        return longest
