"""Lexical retrieval: BM25 over words and the parts of identifiers.

The weighting is bm25s's (Lù 2024), variant `lucene`: idf = ln(1 + (N - df + 0.5) / (df + 0.5)), k1 1.5, b 0.75.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain

import bm25s
import numpy as np
from numpy.typing import NDArray

from quarry_harness.models import Plan
from quarry_harness.retrieve import NOT_RETRIEVED, Corpus, Ranking, best

K1 = 1.5
B = 0.75

_WORD = re.compile(r"\w+")
# HTTPServer2go -> HTTP, Server, 2, go.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def tokens(text: str) -> list[str]:
    """Returns the lower-cased words of a text in order, each followed by its camelCase and snake_case parts."""
    return [token for word in _WORD.findall(text) for token in _word_tokens(word)]


def _word_tokens(word: str) -> list[str]:
    # Upper and lower case mean nothing to a regular expression outside ASCII, so there only "_" parts a word.
    parts = _PART.findall(word) if word.isascii() else [part for part in word.split("_") if part]
    return [word.lower(), *(part.lower() for part in parts if len(parts) > 1)]


class _Vocabulary(dict[str, list[int]]):
    """Word as written -> the numbers of its tokens, made when first asked for; `number` has each token's.

    A repository writes the same words again and again: cutting each one once is most of the speed.
    """

    def __init__(self) -> None:
        super().__init__()
        # Numbered in order of first appearance: bm25s would number a set of strings, whose order changes between runs.
        self.number: dict[str, int] = {}

    def __missing__(self, word: str) -> list[int]:
        numbers = [self.number.setdefault(token, len(self.number)) for token in _word_tokens(word)]
        self[word] = numbers
        return numbers


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

    def begin_with(self, documents: Sequence[str]) -> None:
        """Does nothing: no text costs this model anything before it is ranked."""

    def rank(
        self, queries: Sequence[str], documents: Sequence[str], corpora: Sequence[Corpus], k: int
    ) -> Iterator[list[Ranking]]:
        """Yields for each corpus, in order, the best k of each of its queries; a document that shares no word is none.

        Frequencies and lengths are those of the corpus alone. A document is cut into words once, however many of the
        corpora hold it.
        """
        vocabulary = _Vocabulary()
        cut = [array("i", chain.from_iterable(map(vocabulary.__getitem__, _WORD.findall(text)))) for text in documents]
        number = vocabulary.number
        for corpus in corpora:
            members = [cut[document] for document in corpus.documents.tolist()]
            asked = [[number[token] for token in tokens(queries[q]) if token in number] for q in corpus.queries]
            yield [best(scores, k) for scores in _scores(members, number, asked)]

    def plan(self, queries: Sequence[str], documents: Sequence[str], seen: dict[str, set[bytes]]) -> dict[str, Plan]:
        """Returns nothing: words need no embedding."""
        return {}

    def count_cut(self, queries: Sequence[str], documents: Sequence[str]) -> dict[str, dict[str, int]]:
        """Returns nothing: every text is read to its end."""
        return {}

    def close(self) -> None:
        """Does nothing: nothing is held."""


def _scores(
    documents: Sequence[array[int]], vocabulary: dict[str, int], queries: Sequence[Sequence[int]]
) -> Iterator[NDArray[np.float32]]:
    """Yields each query's scores of the documents; NOT_RETRIEVED where no word is shared."""
    if not any(documents):
        yield from (np.full(len(documents), NOT_RETRIEVED, dtype=np.float32) for _ in queries)
        return
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
    for query in queries:
        found = np.asarray(index.get_scores_from_ids(list(query)), dtype=np.float32)
        yield np.where(found > 0, found, NOT_RETRIEVED)
