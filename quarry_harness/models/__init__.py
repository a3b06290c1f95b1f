"""From a model's name to a retriever."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from quarry_harness.errors import UsageError
from quarry_harness.models import registry
from quarry_harness.models.registry import Model, Options
from quarry_harness.retrieve import Corpus, Ranking
from quarry_harness.types import Progress
from quarry_harness.vectors import DTYPES

if TYPE_CHECKING:
    from quarry_harness.models.embedding import Allowance


class Plan(NamedTuple):
    """What is still to embed: how many texts, the tokens that the model will see, the longest text's before anything
    is cut, how many texts will be cut, and how tokens are counted ("exact", or the estimate's rule).
    """

    texts: int
    tokens: int
    longest_tokens: int
    cut: int
    token_count: str


class Retriever(Protocol):
    """What every model offers to the evaluation. Queries and documents are the distinct ones of one repository."""

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score; it becomes part of a run's identity."""

    def begin_with(self, documents: Sequence[str]) -> None:
        """Embeds these documents of any repositories before all others, where the model embeds at all."""

    def rank(
        self, queries: Sequence[str], documents: Sequence[str], corpora: Sequence[Corpus], k: int
    ) -> Iterator[list[Ranking]]:
        """Yields for each corpus, in order, the best k of each of its queries, in its order.

        The corpora's numbers are those of queries and documents. The ranking rule is retrieve's: score descending,
        then corpus order.
        """

    def plan(self, queries: Sequence[str], documents: Sequence[str], seen: dict[str, set[bytes]]) -> Mapping[str, Plan]:
        """Returns by embedding model what it has yet to embed of these texts, and adds to `seen` what it returns.

        seen: by model, the keys of texts that were planned before and do not count again.
        """

    def count_cut(self, queries: Sequence[str], documents: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """Returns by embedding model how many of the texts that were ranked it did not see whole.

        Keys of each: queries, queries_cut, documents, documents_cut.
        """

    def close(self) -> None:
        """Lets go of what the model holds."""


_NOTHING_SAID = Options()


@dataclass(frozen=True, slots=True)
class Choice:
    """The model a user asks for. name: of one model, or of several joined by "+", whose rankings are fused.

    options: what the user says about it, of a fusion about each part that embeds. stored_as: what its vectors are kept
    as, one of vectors.DTYPES. max_cost_usd: what embedding may cost in one go, None where nothing limits it.
    """

    name: str = "bm25"
    options: Options = _NOTHING_SAID
    stored_as: str = "float32"
    max_cost_usd: float | None = None


def models_of(choice: Choice) -> tuple[Model, ...]:
    """Returns the models that a choice means. Raises UsageError and InvalidInputError as registry.find does."""
    if choice.stored_as not in DTYPES:
        raise UsageError(f"Vectors are not kept as {choice.stored_as}.", f"Choose one of {', '.join(DTYPES)}.")
    if choice.max_cost_usd is not None and not 0 <= choice.max_cost_usd < math.inf:  # which NaN is not, either
        raise UsageError(f"--max-cost {choice.max_cost_usd:g} is no sum of money.", "For example: --max-cost 20")
    if "+" not in choice.name or Path(choice.name).exists():
        return (registry.find(choice.name, choice.options),)
    lexical = {row.name.casefold() for row in registry.rows() if row.kind == "lexical"}
    parts = tuple(
        registry.find(name, None if name.casefold() in lexical else choice.options) for name in choice.name.split("+")
    )
    if len({part.name for part in parts}) < len(parts):
        raise UsageError(f"{choice.name}: a model is fused with itself.", "Name different models.")
    return parts


def name_of(choice: Choice) -> str:
    """Returns what a choice is called in results. Raises what models_of raises."""
    return "+".join(model.name for model in models_of(choice))


def load(choice: Choice, root: Path, progress: Progress) -> Retriever:
    """Returns the model ready to rank; close it at the end. root: the folder of the stores of vectors.

    Raises what models_of raises, EnvironmentProblem where a package, a key or a model is not to be had or another
    process has the vectors open.
    """
    from quarry_harness.models.embedding import Allowance

    parts: list[Retriever] = []
    allowance = None if choice.max_cost_usd is None else Allowance(choice.max_cost_usd)
    try:
        for model in models_of(choice):
            parts.append(_load(model, choice.stored_as, root, progress, allowance))  # noqa: PERF401 what is open is closed when one fails
    except BaseException:
        for part in parts:
            part.close()
        raise
    if len(parts) == 1:
        return parts[0]
    from quarry_harness.models.fusion import Fusion

    return Fusion(name_of(choice), parts)


def _load(model: Model, stored_as: str, root: Path, progress: Progress, allowance: Allowance | None) -> Retriever:
    # Imported here so that a command that scores nothing does not pay for it.
    if model.kind == "lexical":
        from quarry_harness.models.bm25 import BM25

        return BM25()
    from quarry_harness.models.dense import Dense
    from quarry_harness.models.embedders import open_embedder

    spend = None
    if allowance is not None:
        if not model.price_usd:
            raise UsageError(
                f"{model.name}: no price is known of it, so --max-cost cannot hold.",
                "Leave --max-cost out, or put price_usd, of a million tokens, into a TOML file of the model.",
            )
        spend = partial(allowance.spend, model.price_usd)
    return Dense(open_embedder(model, spend), root, progress, dtype=stored_as, spend=spend)
