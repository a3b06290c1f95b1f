"""Scoring each pair once: what a store lacks is scored, longest first, batch by batch, each one durable.

A score is kept like a vector of one number (vectors.py), under a key made of the exact query and the exact document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.models.embedders import OutOfMemory
from quarry_harness.models.registry import Limits
from quarry_harness.types import Progress
from quarry_harness.vectors import VectorStore

# No honest score is larger; below it there is room for the scores of what was not re-ranked.
_LARGEST = 1e30


class Scorer(Protocol):
    """A model that scores a query and a document together."""

    limits: Limits  # of one batch

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score; it becomes part of a run's identity."""

    def max_tokens(self) -> int:
        """Returns how many tokens of a pair the model sees; 0: no limit."""

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text alone, before anything is cut and without special ones."""

    def special_tokens(self) -> int:
        """Returns how many tokens a pair has beside those of its two texts."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Returns a score for each (query, document), not yet checked; OutOfMemory where fewer could succeed."""


class Pairs(NamedTuple):
    """Pairs to score, as positions: shape (pairs,) each."""

    queries: NDArray[np.int64]
    documents: NDArray[np.int64]


class PairScores:
    """A scorer with the store of its scores, which is opened when it is first needed."""

    def __init__(self, scorer: Scorer, root: Path, progress: Progress) -> None:
        """root: the folder that holds one store a model."""
        self._scorer = scorer
        self._root = root
        self._progress = progress

    @cached_property
    def _store(self) -> VectorStore:
        return VectorStore(self._root, self._scorer.describe(), 1, "float32")

    def close(self) -> None:
        """Lets other processes have the store."""
        if "_store" in self.__dict__:
            self._store.close()

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score."""
        return self._scorer.describe()

    def score(
        self, queries: Sequence[str], documents: Sequence[str], pairs: Pairs
    ) -> tuple[NDArray[np.float32], dict[str, int]]:
        """Returns the score of each pair, after scoring those that the store lacks, and counts of distinct pairs.

        Counts: pairs, pairs_cut (longer than the model takes). Raises InvalidInputError for an empty text, before
        anything is scored; EnvironmentProblem for a score that is none, after its batch's others are kept, for a pair
        that does not fit alone, and what the scorer and the store raise.
        """
        keys = _keys(queries, documents, pairs)
        self._score_missing(queries, documents, pairs, keys)
        rows = self._store.find(keys)
        scores: NDArray[np.float32] = self._store.read(rows)[:, 0]
        distinct = np.unique(rows)
        longest = self._scorer.max_tokens() if len(rows) else 0
        cut = int(np.count_nonzero(self._store.tokens(distinct) > longest)) if longest else 0
        return scores, {"pairs": len(distinct), "pairs_cut": cut}

    def _score_missing(
        self, queries: Sequence[str], documents: Sequence[str], pairs: Pairs, keys: Sequence[bytes]
    ) -> None:
        missing, counts = self._missing(queries, documents, pairs, keys)
        longest = self._scorer.max_tokens() if len(missing) else 0
        tokens = np.minimum(counts, longest) if longest else counts
        limits = self._scorer.limits
        most = limits.texts or len(missing)
        budget = limits.tokens or len(missing) * int(tokens.max(initial=1))
        words = f"tokens of {len(missing)} pairs scored"
        start, done, total = 0, 0, int(tokens.sum())
        while start < len(missing):
            self._progress(done, total, words)
            widest = max(1, int(tokens[start]))
            batch = slice(start, start + max(1, min(most, budget // widest)))
            which = missing[batch]
            some = [(queries[pairs.queries[i]], documents[pairs.documents[i]]) for i in which]
            try:
                scores = self._scorer.score(some)
            except OutOfMemory as error:
                if len(some) == 1:
                    raise EnvironmentProblem(
                        f"{_name(some[0])}: {error}, though it is alone.",
                        "A smaller number of tokens (--max-tokens) or a machine with more memory may do.",
                    ) from error
                budget = len(some) * widest // 2
                continue
            good = np.abs(scores) <= _LARGEST  # false for NaN
            self._store.append([keys[i] for i in which[good]], counts[batch][good], scores[good][:, None])
            if not good.all():
                bad = int(np.flatnonzero(~good)[0])
                raise EnvironmentProblem(
                    f"{self._scorer.describe().get('name')}: the score of {_name(some[bad])} is {scores[bad]}"
                    f" ({np.count_nonzero(~good)} of {len(good)} in its batch).",
                    "The batch's other scores are kept. Check the model and its dtype; no place would be honest.",
                )
            start, done = start + len(some), done + int(tokens[batch].sum())
        if total:
            self._progress(total, total, words)

    def _missing(
        self, queries: Sequence[str], documents: Sequence[str], pairs: Pairs, keys: Sequence[bytes]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the positions of the distinct pairs that the store lacks, and their token counts, longest first."""
        for texts, numbers, role in ((queries, pairs.queries, "query"), (documents, pairs.documents, "document")):
            for number in np.unique(numbers).tolist():
                if not texts[number].strip():
                    raise InvalidInputError(f"a {role} is empty: {texts[number]!r}.", "A model has nothing to say.")
        first: dict[bytes, int] = {}
        for position in np.flatnonzero(self._store.find(keys) < 0).tolist():
            first.setdefault(keys[position], position)
        positions = np.array(list(first.values()), dtype=np.int64)
        if not len(positions):
            return positions, positions
        counts = self._tokens_of(queries, pairs.queries[positions])
        counts = counts + self._tokens_of(documents, pairs.documents[positions]) + self._scorer.special_tokens()
        order = np.argsort(-counts, kind="stable")
        return positions[order], counts[order]

    def _tokens_of(self, texts: Sequence[str], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        distinct, place = np.unique(numbers, return_inverse=True)
        return self._scorer.count_tokens([texts[number] for number in distinct.tolist()])[place]


def _keys(queries: Sequence[str], documents: Sequence[str], pairs: Pairs) -> list[bytes]:
    """Returns the store's key of each pair: the sha256 of the sha256 of both texts."""
    hashes = [
        {number: hashlib.sha256(texts[number].encode("utf-8")).digest() for number in np.unique(numbers).tolist()}
        for texts, numbers in ((queries, pairs.queries), (documents, pairs.documents))
    ]
    both = zip(pairs.queries.tolist(), pairs.documents.tolist(), strict=True)
    return [hashlib.sha256(b"pair\0" + hashes[0][query] + hashes[1][document]).digest() for query, document in both]


def _name(pair: tuple[str, str]) -> str:
    """What a pair is called in a message: its document by its first line, which is path and name, and its query."""
    query, document = (" ".join(text.split("\n", 1)[0].split())[:120] for text in pair)
    return f"the document {document!r} for the query {query!r}"
