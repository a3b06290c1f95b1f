"""From a model's name to a retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import UsageError


class Retriever(Protocol):
    """What every model offers to the evaluation."""

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score; it becomes part of a run's identity."""

    def score(self, queries: Sequence[str], documents: Sequence[str]) -> NDArray[np.float32]:
        """Returns scores of shape (queries, documents); retrieve.NOT_RETRIEVED where a document is no result."""


MODELS = ("bm25",)


def check_name(name: str) -> str:
    """Returns the name as the registry spells it; UsageError for a model that is not there."""
    folded = name.casefold()
    if folded not in MODELS:
        raise UsageError(f"There is no model '{name}'.", f"Models: {', '.join(MODELS)}.")
    return folded


def load(name: str) -> Retriever:
    """Returns the model of that name, ready to score. Raises UsageError for an unknown name."""
    check_name(name)
    # Imported here so that a command that scores nothing does not pay for it.
    from quarry_harness.models.bm25 import BM25

    return BM25()
