"""Reciprocal rank fusion: rankings of several models made into one, by rank alone.

A document's score is the sum of 1 / (60 + rank) over the rankings that have it (Cormack, Clarke and Büttcher, SIGIR
2009). Each model's best 1,000 take part, or more where more are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from quarry_harness.models import Plan, Retriever
from quarry_harness.retrieve import Corpus, Ranking

CONSTANT = 60
DEPTH = 1000


def fuse(rankings: Sequence[Ranking], k: int) -> Ranking:
    """Returns the best k of the fused ranking, by the ranking rule: score descending, then corpus order."""
    positions: NDArray[np.intp] = np.unique(np.concatenate([ranking.positions for ranking in rankings]))
    scores = np.zeros(len(positions))
    for ranking in rankings:
        scores[np.searchsorted(positions, ranking.positions)] += 1 / (CONSTANT + 1 + np.arange(len(ranking.positions)))
    rounded = scores.astype(np.float32)
    order = np.argsort(-rounded, kind="stable")[:k]
    return Ranking(positions[order], rounded[order])


class Fusion:
    """Several retrievers as one."""

    def __init__(self, name: str, parts: Sequence[Retriever]) -> None:
        self._name = name
        self._parts = parts

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score."""
        return {
            "name": self._name,
            "kind": "fusion",
            "method": f"reciprocal rank fusion, 1 / ({CONSTANT} + rank)",
            "depth": DEPTH,
            "parts": [part.describe() for part in self._parts],
        }

    def begin_with(self, documents: Sequence[str]) -> None:
        """Has the parts that embed begin with these documents."""
        for part in self._parts:
            part.begin_with(documents)

    def rank(
        self, queries: Sequence[str], documents: Sequence[str], corpora: Sequence[Corpus], k: int
    ) -> Iterator[list[Ranking]]:
        """Yields for each corpus, in order, the best k of each of its queries."""
        ranked = [part.rank(queries, documents, corpora, max(k, DEPTH)) for part in self._parts]
        for of_corpus in zip(*ranked, strict=True):
            yield [fuse(rankings, k) for rankings in zip(*of_corpus, strict=True)]

    def plan(self, queries: Sequence[str], documents: Sequence[str], seen: dict[str, set[bytes]]) -> dict[str, Plan]:
        """Returns by embedding model what it has yet to embed of these texts."""
        return {name: plan for part in self._parts for name, plan in part.plan(queries, documents, seen).items()}

    def count_cut(self, queries: Sequence[str], documents: Sequence[str]) -> dict[str, dict[str, int]]:
        """Returns by embedding model how many of the texts that were ranked it did not see whole."""
        return {name: dict(c) for part in self._parts for name, c in part.count_cut(queries, documents).items()}

    def close(self) -> None:
        """Lets go of what the parts hold."""
        for part in self._parts:
            part.close()
