"""Lexical retrieval: BM25 over words and the parts of identifiers.

The weighting is bm25s's (Lù 2024), variant `lucene`: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), k1 1.5, b 0.75.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Sequence

import bm25s
import numpy as np
from numpy.typing import NDArray

from quarry_harness.retrieve import NOT_RETRIEVED

K1 = 1.5
B = 0.75

_WORD = re.compile(r"\w+")
# HTTPServer2go -> HTTP, Server, 2, go.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def tokens(text: str) -> list[str]:
    """Returns the lower-cased words of a text in order, each followed by its camelCase and snake_case parts."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        # Upper and lower case mean nothing to a regular expression outside ASCII, so there only "_" parts a word.
        parts = _PART.findall(word) if word.isascii() else [part for part in word.split("_") if part]
        if len(parts) > 1:
            found.extend(part.lower() for part in parts)
    return found


class BM25:
    """The base install's model; it needs no download and no key."""

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score, for the identity of a run."""
        return {
            "name": "bm25",
            "kind": "lexical",
            "library": f"bm25s {bm25s.__version__}",
            "method": "lucene",
            "k1": K1,
            "b": B,
            "tokens": "words lower-cased, with camelCase and snake_case parts",
            "code": hashlib.sha256(inspect.getsource(sys.modules[__name__]).encode()).hexdigest()[:16],
        }

    def score(self, queries: Sequence[str], documents: Sequence[str]) -> NDArray[np.float32]:
        """Returns scores of shape (queries, documents); NOT_RETRIEVED where no word is shared."""
        scores = np.full((len(queries), len(documents)), NOT_RETRIEVED, dtype=np.float32)
        if not documents:
            return scores
        # Ids in order of first appearance: bm25s would number a set of strings, whose order changes between runs.
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokens(text)] for text in documents]
        if not vocabulary:
            return scores
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        for row, query in enumerate(queries):
            known = [vocabulary[token] for token in tokens(query) if token in vocabulary]
            if known:
                found = np.asarray(index.get_scores_from_ids(known), dtype=np.float32)
                scores[row] = np.where(found > 0, found, NOT_RETRIEVED)
        return scores
