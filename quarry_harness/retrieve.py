"""Exact top-k under the one ranking rule of every measure: score descending, then the corpus order.

A corpus is sorted by path, then start line (then end line, name and place in the file), so the corpus index is the
tie-breaker; nothing here or elsewhere breaks ties another way.

A model that gives every document of a corpus the same score has ranked nothing, and gets no result: the order of paths
is no achievement of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOT_RETRIEVED = np.float32(-np.inf)


def top_k(scores: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Returns the corpus indices of the best k scores, best first; shorter where fewer documents were retrieved.

    scores: shape (documents,), NOT_RETRIEVED where a document is no result at all. Nothing is returned where two or
    more documents all have one score. Raises ValueError on NaN: a model that gives NaN has failed, and no place in a
    ranking would be honest.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    k = min(k, int(np.count_nonzero(scores > NOT_RETRIEVED)))
    if k == 0 or (len(scores) > 1 and scores.min() == scores.max()):
        return np.empty(0, dtype=np.intp)
    kth = np.partition(scores, len(scores) - k)[len(scores) - k]
    better = np.flatnonzero(scores > kth)
    equal = np.flatnonzero(scores == kth)[: k - len(better)]
    # Both parts ascend in corpus order and a stable sort keeps it among equal scores.
    kept = np.concatenate([better, equal])
    kept.sort()
    return kept[np.argsort(-scores[kept], kind="stable")]
