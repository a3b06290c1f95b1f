"""Exact top-k under the one ranking rule of every measure: score descending, then the corpus order.

A corpus is sorted by path, then start line (then end line, name and place in the file), so the corpus position is the
tie-breaker; nothing here or elsewhere breaks ties another way.

A model that gives every document of a corpus the same score has ranked nothing, and gets no result: the order of paths
is no achievement of its own.

Vectors are searched in two steps. A float32 matrix product, block by block, finds the documents that can be among the
best k; its sums depend on the blocks, the processor and the number of threads, so it decides nothing. The few that
are left, all within the product's largest possible error of the k-th, are scored again by sums that are exact, and
those scores decide. So identical vectors have bit-identical scores, and equal vectors give an equal ranking on every
machine and under every memory budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NOT_RETRIEVED = np.float32(-np.inf)

# What a search may hold beside the vectors themselves, where the caller does not say otherwise.
SEARCH_BYTES = 512_000_000

_EXACT_ROWS = 1024
_HALF_ULP = 2.0**-24  # the relative rounding error of one float32 operation
# How much longer than 1 a vector may be: rounding each component of a unit vector to float16 adds less.
_LONGEST = 1.001


@dataclass(frozen=True, slots=True)
class Corpus:
    """One revision's corpus and the queries asked of it.

    documents: in corpus order, as numbers into the repository's distinct documents; a number may come twice.
    queries: as numbers into the repository's queries.
    """

    documents: NDArray[np.int64]
    queries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best k of one query: corpus positions, best first, and their scores: float32, of other systems float64."""

    positions: NDArray[np.intp]
    scores: NDArray[np.floating[Any]]


class Rows(Protocol):
    """Vectors as rows: a matrix, or anything that gives them for a slice or an array of row numbers as one does."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, dimension)."""

    def __getitem__(self, key: Any, /) -> NDArray[Any]:
        """Returns the rows of a slice or of an array of row numbers, float16 or float32."""


def is_constant(scores: NDArray[np.floating[Any]], documents: int) -> bool:
    """Returns whether the scores rank nothing: every document has one, there are two or more, and all are alike."""
    return bool(documents > 1 and len(scores) == documents and scores.min() == scores.max())


def top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Returns the corpus positions of the best k scores, best first; shorter where fewer documents were retrieved.

    scores: shape (documents,), NOT_RETRIEVED where a document is no result at all. Nothing is returned where two or
    more documents all have one score. Raises ValueError on NaN: a model that gives NaN has failed, and no place in a
    ranking would be honest.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    k = min(k, int(np.count_nonzero(scores > NOT_RETRIEVED)))
    if k == 0 or is_constant(scores, len(scores)):
        return np.empty(0, dtype=np.intp)
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    better = np.flatnonzero(scores > kth)
    equal = np.flatnonzero(scores == kth)[: k - len(better)]
    # Both parts ascend in corpus order and a stable sort keeps it among equal scores.
    kept = np.concatenate([better, equal])
    kept.sort()
    return kept[np.argsort(-scores[kept], kind="stable")]


def best(scores: NDArray[np.float32], k: int) -> Ranking:
    """Returns the ranking of top_k with its scores."""
    positions = top_k(scores, k)
    return Ranking(positions, scores[positions])


def search(
    queries: NDArray[np.float32],
    documents: Rows,
    corpora: Sequence[Corpus],
    k: int,
    *,
    longest: float = 1.0,
    budget_bytes: int = SEARCH_BYTES,
) -> Iterator[list[Ranking]]:
    """Yields for each corpus, in order, the best k documents of each of its queries by the dot product.

    queries: (queries, dimension) and documents: (documents, dimension). longest: the length of the longest document's
    vector, up to the rounding of float16; with 1 and vectors of length 1 the dot product is the cosine. A score is the
    sum of the products, each rounded to about 2**-51 of the largest score there can be, rounded once, to float32.
    budget_bytes bounds what is held at a time beside queries, corpora and rankings; one row of scores and one row of
    vectors are held however small it is. Raises ValueError where a number is NaN or infinite.
    """
    ranked = _rank_pairs(queries, documents, corpora, k, longest, budget_bytes)
    for corpus in corpora:
        yield list(islice(ranked, len(corpus.queries)))


def _rank_pairs(
    queries: NDArray[np.float32],
    documents: Rows,
    corpora: Sequence[Corpus],
    k: int,
    longest: float,
    budget_bytes: int,
) -> Iterator[Ranking]:
    """Yields the ranking of every (corpus, query) in order, as many at a time as half the budget holds scores for."""
    pairs = [(corpus.documents, query) for corpus in corpora for query in corpus.queries]
    together = max(1, budget_bytes // 2 // (4 * max(1, documents.shape[0])))
    for start in range(0, len(pairs), together):
        group = pairs[start : start + together]
        wanted, rows = np.unique([query for _, query in group], return_inverse=True)
        scores = _product(queries[wanted], documents, budget_bytes // 2)
        for (members, query), row in zip(group, rows, strict=True):
            yield _decide(queries[query], documents, members, scores[row][members], k, longest)


def _product(queries: NDArray[np.float32], documents: Rows, budget_bytes: int) -> NDArray[np.float32]:
    """Returns the dot products, (queries, documents), without holding more than the budget of documents at a time."""
    count, dimension = documents.shape
    scores = np.empty((len(queries), count), dtype=np.float32)
    step = max(1, budget_bytes // (4 * dimension))
    for start in range(0, count, step):
        block = np.asarray(documents[start : start + step], dtype=np.float32)
        np.matmul(queries, block.T, out=scores[:, start : start + step])
    return scores


def _decide(
    query: NDArray[np.float32],
    documents: Rows,
    members: NDArray[np.int64],
    estimates: NDArray[np.float32],
    k: int,
    longest: float,
) -> Ranking:
    """Returns the best k of a corpus by exact scores, given estimates of them by float32 sums in any order."""
    nothing = Ranking(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32))
    k = min(k, len(estimates))
    if k == 0:
        return nothing
    wide = query.astype(np.float64)
    # No score is larger. Summed exactly, since the scores' last bits depend on its power of two.
    reach = _LONGEST * longest * math.sqrt(math.fsum((wide * wide).tolist()))
    if not (math.isfinite(reach) and np.isfinite(estimates).all()):
        raise ValueError("a score is NaN or infinite")
    kth = np.partition(estimates, len(estimates) - k)[len(estimates) - k]
    # An estimate is wrong by at most n u / (1 - n u) times the lengths, whatever the order of its sum (Higham, Accuracy
    # and Stability of Numerical Algorithms, 2002, section 3.1). So k documents score at least kth less one error, and
    # one that is left out scores at most what is asked here plus one error. The last term keeps the two apart by more
    # than rounding to float32 could bring together.
    error = len(query) * _HALF_ULP / (1 - len(query) * _HALF_ULP)
    candidates = np.flatnonzero(estimates >= np.float64(kth) - reach * (2 * error + 2.0**-22))
    scores = _exact_scores(wide, documents, members[candidates], reach)
    if is_constant(scores, len(estimates)):
        return nothing
    order = np.argsort(-scores, kind="stable")[:k]
    return Ranking(candidates[order], scores[order])


def _exact_scores(
    query: NDArray[np.float64], documents: Rows, members: NDArray[np.int64], reach: float
) -> NDArray[np.float32]:
    """Returns the dot products with the given documents, the same bits whatever the order of summation.

    A product of two float32 numbers is exact in float64, and so is scaling it by a power of two to below 1. Adding 3
    and taking it away then rounds it to a multiple of 2**-51. No partial sum of such products is larger than the
    product of the lengths, which is below 1, so every partial sum is a float64 number: no addition rounds, and any
    order gives the same.
    """
    scores = np.empty(len(members), dtype=np.float32)
    scale = 2.0 ** math.frexp(reach)[1]
    query = query / scale
    for start in range(0, len(members), _EXACT_ROWS):
        products = documents[members[start : start + _EXACT_ROWS]].astype(np.float64)
        products *= query
        products += 3.0
        products -= 3.0
        scores[start : start + _EXACT_ROWS] = products.sum(axis=1) * scale
    return scores
