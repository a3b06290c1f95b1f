"""From a model's name to a retriever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from quarry_harness.errors import UsageError
from quarry_harness.retrieve import Corpus, Ranking


class Retriever(Protocol):
    """What every model offers to the evaluation."""

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score; it becomes part of a run's identity."""

    def rank(
        self, queries: Sequence[str], documents: Sequence[str], corpora: Sequence[Corpus], k: int
    ) -> Iterator[list[Ranking]]:
        """Yields for each corpus, in order, the best k of each of its queries, in its order.

        queries and documents are the distinct ones of one repository, to which the numbers of the corpora refer. The
        ranking rule is retrieve's: score descending, then corpus order.
        """


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
