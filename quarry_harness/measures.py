"""Per-query measures and their aggregation.

`recall@k` is the headline, "strict all-gold micro recall@k": of ALL positive units of a query (both relevance tiers,
unresolved ones included) the share found in the top k, then the mean over queries. `all_gold@k` is 1 when every unit
is found, else 0. A query without any positive unit has no denominator: it is left out and counted.

Two things are counted, and docs/measures.md says which measure counts which. The measures named after the gold count
gold UNITS (recall, all_gold, essential_recall, hit). Those that weigh the places of a ranking count DOCUMENTS
(precision, RR, AP, nDCG): units that lie in one chunk are one document there, of the higher grade, as in qrels.trec.

All queries are computed at once, on flat arrays with one entry a unit.
"""

from __future__ import annotations

import functools
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import UsageError

CUTOFFS = (5, 10, 20, 50)
ESSENTIAL = 2
RELATED = 1
# The smallest member of each bin by which results are broken down.
GOLD_COUNTS = (1, 2, 4, 8)
CORPUS_CHUNKS = (0, 1_000, 5_000, 20_000)
CHUNK_BYTES = (0, 500, 2_000, 8_000)

Values = Mapping[str, float]
Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QueryRanks:
    """Where one query's gold units stand in its ranking."""

    query_id: str
    repo: str
    task_id: str
    language: str
    unit_ranks: tuple[int, ...]  # 1-based rank of each unit in release order, 0 = not in the ranking
    essential: tuple[bool, ...]  # per unit: is its relevance ESSENTIAL
    retrieved: int  # length of the ranking
    documents: tuple[int, ...] = ()  # per unit: a number that units in one chunk share; () = each in its own


@dataclass(frozen=True, slots=True)
class Judged:
    """The gold units of many queries as flat arrays, a query's units side by side."""

    queries: int
    query: NDArray[np.int64]  # per unit: which query, 0-based and ascending
    ranks: NDArray[np.int64]  # per unit: 1-based rank, 0 = not in the ranking
    grades: NDArray[np.int64]  # per unit: ESSENTIAL or RELATED
    documents: NDArray[np.int64]  # per unit: a number that the units of one query share where they lie in one chunk

    def only(self, kept: NDArray[np.bool_] | NDArray[np.intp]) -> Judged:
        """Returns the same queries with those units alone, chosen by a mask or by their places."""
        return Judged(self.queries, self.query[kept], self.ranks[kept], self.grades[kept], self.documents[kept])

    def count(self, kept: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """Returns the number of units of each query, or of those kept."""
        return np.bincount(self.query if kept is None else self.query[kept], minlength=self.queries)


def judged(queries: Sequence[QueryRanks]) -> Judged:
    """Returns the queries' units as flat arrays."""
    counts = [len(query.unit_ranks) for query in queries]
    total = sum(counts)
    numbers = (query.documents or range(len(query.unit_ranks)) for query in queries)
    return Judged(
        len(queries),
        np.repeat(np.arange(len(queries)), counts),
        np.fromiter(chain.from_iterable(query.unit_ranks for query in queries), np.int64, total),
        np.fromiter(chain.from_iterable(query.essential for query in queries), np.int64, total) + RELATED,
        np.fromiter(chain.from_iterable(numbers), np.int64, total),
    )


def names() -> list[str]:
    """Returns the measures that every evaluation computes, in the order of its table."""
    at_all = [f"{family}@{k}" for family in ("recall", "all_gold", "essential_recall", "hit") for k in CUTOFFS]
    return [*at_all, "precision@5", "precision@10", "RR@10", "AP@10", "nDCG@10", "nDCG_binary@10"]


def parse(name: str) -> tuple[str, int | None]:
    """Returns (family, cutoff) of a measure's name; the cutoff is None where the whole ranking counts.

    Raises UsageError where there is no such measure.
    """
    family, at, cutoff = name.partition("@")
    number = int(cutoff) if cutoff.isascii() and cutoff.isdigit() else 0
    if family not in _FAMILIES or (at and number < 1) or (family == "precision" and not at):
        raise UsageError(
            f"There is no measure '{name}'.", f"A measure is one of {', '.join(_FAMILIES)} with its cutoff: recall@5."
        )
    return family, number if at else None


def per_query(queries: Sequence[QueryRanks] | Judged, wanted: Sequence[str] | None = None) -> dict[str, Column]:
    """Returns one array a measure, aligned with `queries`; NaN where the measure has no denominator for a query.

    wanted: names that `parse` reads, names() where it is None. Raises UsageError for an unknown one, ValueError where
    two units of one document differ in rank.
    """
    units = queries if isinstance(queries, Judged) else judged(queries)
    documents = _documents(units)
    empty = units.count() == 0
    values = {}
    for name in names() if wanted is None else wanted:
        family, k = parse(name)
        of_documents = family in ("precision", "RR", "AP", "nDCG", "nDCG_binary")
        column = _FAMILIES[family](documents if of_documents else units, k)
        column[empty] = np.nan
        values[name] = column
    return values


def first_and_last(units: Judged) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the best rank among each query's units, and the rank at which all of them are found.

    0 where no unit is in the ranking, and where not every one is.
    """
    absent = np.iinfo(np.int64).max
    ranks = np.where(units.ranks > 0, units.ranks, absent)
    first = np.full(units.queries, absent)
    last = np.zeros(units.queries, np.int64)
    np.minimum.at(first, units.query, ranks)
    np.maximum.at(last, units.query, ranks)
    return np.where(first == absent, 0, first), np.where(last == absent, 0, last)


def _documents(units: Judged) -> Judged:
    """The distinct documents, by query and rank, those not in the ranking last; each with its highest grade."""
    units = units.only(np.lexsort((-units.grades, units.documents, units.query)))
    twins = (np.diff(units.query) == 0) & (np.diff(units.documents) == 0)
    if np.diff(units.ranks)[twins].any():
        raise ValueError("units of one document have different ranks")
    documents = units.only(np.concatenate([np.ones(min(1, len(units.ranks)), np.bool_), ~twins]))
    documents = documents.only(np.lexsort((documents.ranks, documents.ranks == 0, documents.query)))
    if ((np.diff(documents.query) == 0) & (np.diff(documents.ranks) == 0) & (documents.ranks[1:] > 0)).any():
        raise ValueError("two documents have one rank")
    return documents


def _within(items: Judged, k: int | None) -> NDArray[np.bool_]:
    found = items.ranks > 0
    return found if k is None else found & (items.ranks <= k)


def _divide(
    above: NDArray[np.int64] | Column, below: NDArray[np.int64] | Column, undefined: float = math.nan
) -> Column:
    result: Column = np.full(len(above), undefined, np.float64)
    np.divide(above, below, out=result, where=np.asarray(below != 0))
    return result


def _recall(units: Judged, k: int | None) -> Column:
    return _divide(units.count(_within(units, k)), units.count())


def _all_gold(units: Judged, k: int | None) -> Column:
    return np.asarray(units.count(_within(units, k)) == units.count(), np.float64)


def _essential_recall(units: Judged, k: int | None) -> Column:
    return _recall(units.only(units.grades == ESSENTIAL), k)


def _hit(units: Judged, k: int | None) -> Column:
    return np.asarray(units.count(_within(units, k)) > 0, np.float64)


def _precision(documents: Judged, k: int | None) -> Column:
    return _divide(documents.count(_within(documents, k)), np.full(documents.queries, k))


def _rr(documents: Judged, k: int | None) -> Column:
    first, _ = first_and_last(documents.only(_within(documents, k)))
    return _divide(np.ones(documents.queries), first, undefined=0)


def _ap(documents: Judged, k: int | None) -> Column:
    found = documents.only(_within(documents, k))
    sums = np.bincount(found.query, _position(found) / found.ranks, minlength=documents.queries)
    return _divide(sums, documents.count())


def _ndcg(documents: Judged, k: int | None) -> Column:
    found = documents.only(_within(documents, k))
    gain = found.grades / _discounts(int(found.ranks.max(initial=1)))[found.ranks]
    ideal = documents.only(np.lexsort((-documents.grades, documents.query)))
    position = _position(ideal)
    best = ideal.grades / _discounts(int(position.max(initial=1)))[position]
    if k is not None:
        best[position > k] = 0
    return _divide(
        np.bincount(found.query, gain, minlength=documents.queries),
        np.bincount(ideal.query, best, minlength=documents.queries),
    )


def _ndcg_binary(documents: Judged, k: int | None) -> Column:
    grades = np.ones_like(documents.grades)
    return _ndcg(Judged(documents.queries, documents.query, documents.ranks, grades, documents.documents), k)


def _position(items: Judged) -> NDArray[np.int64]:
    """1, 2, 3, ... within each query, in the order of the items."""
    starts = np.cumsum(items.count()) - items.count()
    return np.arange(1, len(items.query) + 1) - starts[items.query]


@functools.lru_cache(maxsize=4)
def _discounts(depth: int) -> Column:
    """log2(rank + 1) at index rank. By Decimal, which rounds the same on every machine; libm's last digit differs."""
    two = Decimal(2).ln()
    return np.array([float(Decimal(rank + 1).ln() / two) for rank in range(depth + 1)])


_FAMILIES: dict[str, Callable[[Judged, int | None], Column]] = {
    "recall": _recall,
    "all_gold": _all_gold,
    "essential_recall": _essential_recall,
    "hit": _hit,
    "precision": _precision,
    "RR": _rr,
    "AP": _ap,
    "nDCG": _ndcg,
    "nDCG_binary": _ndcg_binary,
}


def micro(values: Mapping[str, Column]) -> dict[str, float]:
    """Returns the mean of each measure over the queries that have a denominator for it; NaN where none has."""
    return {name: _mean(column[~np.isnan(column)].tolist()) for name, column in values.items()}


def pooled_recall(queries: Sequence[QueryRanks] | Judged, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """Returns the sum of found units over the sum of units, a query weighing as much as it has units."""
    units = queries if isinstance(queries, Judged) else judged(queries)
    if not len(units.ranks):
        return {f"pooled_recall@{k}": float("nan") for k in cutoffs}
    return {f"pooled_recall@{k}": float(_within(units, k).mean()) for k in cutoffs}


def by_query(values: Mapping[str, Column], labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns label -> {queries, micro}: the means over the queries of one label, those without gold left out.

    labels: one a query, for example its language.
    """
    groups = {}
    for label in sorted(set(labels), key=_in_order):
        kept = np.array([name == label for name in labels])
        columns = {name: column[kept] for name, column in values.items()}
        queries = max((int((~np.isnan(column)).sum()) for column in columns.values()), default=0)
        groups[label] = {"queries": queries, "micro": micro(columns)}
    return groups


def by_unit(units: Judged, labels: Sequence[str], cutoffs: Sequence[int] = CUTOFFS) -> dict[str, dict[str, Any]]:
    """Returns label -> {queries, units, micro, pooled} where only the units of one label count as gold.

    labels: one a unit, for example the kind of its chunk. The means are over the queries that have such a unit, as
    essential_recall is over those that have an ESSENTIAL one.
    """
    wanted = [f"{family}@{k}" for family in ("recall", "all_gold", "hit") for k in cutoffs]
    groups = {}
    for label in sorted(set(labels), key=_in_order):
        some = units.only(np.array([name == label for name in labels]))
        groups[label] = {
            "queries": int((some.count() > 0).sum()),
            "units": len(some.ranks),
            "micro": micro(per_query(some, wanted)),
            "pooled": pooled_recall(some, cutoffs),
        }
    return groups


def _in_order(label: str) -> tuple[int, str]:
    digits = re.match(r"\d*", label)
    return int(digits[0]) if digits and digits[0] else -1, label


def bin_of(number: int, starts: Sequence[int]) -> str:
    """Returns the name of the bin that holds a number: "1", "2-3", "8+"; starts: each bin's smallest, ascending."""
    place = bisect_right(starts, number) - 1
    if place < 0:
        raise ValueError(f"{number} is below the first bin")
    if place == len(starts) - 1:
        return f"{starts[place]}+"
    last = starts[place + 1] - 1
    return str(last) if last == starts[place] else f"{starts[place]}-{last}"


def pool(first_stage: Judged, reranked: Judged, depth: int) -> dict[str, Any]:
    """Returns whether candidates or their order cost the points: means over the queries that have gold.

    The pool is the top `depth` of the first stage. oracle: share of queries with a gold unit in the pool, the RR of the
    best possible order. candidate_recall: share of a query's units in the pool. eff: RR of the re-ranked run / oracle,
    of the means; NaN where the oracle is 0. Units that the re-ranked run has from outside the pool are counted.
    """
    found = micro(per_query(first_stage, [f"hit@{depth}", f"recall@{depth}"]))
    oracle, recall = found[f"hit@{depth}"], found[f"recall@{depth}"]
    rr = micro(per_query(reranked, ["RR"]))["RR"]
    return {
        "pool_depth": depth,
        "queries": int((first_stage.count() > 0).sum()),
        "oracle": oracle,
        "candidate_recall": recall,
        "RR": rr,
        "eff": rr / oracle if oracle else math.nan,
        "units_from_outside_the_pool": int(((reranked.ranks > 0) & ~_within(first_stage, depth)).sum()),
    }


def rollup(
    queries: Sequence[QueryRanks], values: Mapping[str, Column]
) -> dict[str, dict[tuple[str, ...], dict[str, float]]]:
    """Returns the staged macro means query -> task -> repo -> language.

    For each level its groups with their values: "task" keyed (language, repo, task), "repo" keyed (language, repo),
    "language" keyed (language,), "all" keyed (). A group's value is the unweighted mean of the groups one level below.
    """
    level: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, column in values.items():
        for query, value in zip(queries, column.tolist(), strict=True):
            if not math.isnan(value):
                level[query.language, query.repo, query.task_id][name].append(value)
    result = {}
    for title in ("task", "repo", "language", "all"):
        result[title] = {key: {name: _mean(cells[name]) for name in values} for key, cells in sorted(level.items())}
        above: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for key, means in result[title].items():
            for name, mean in means.items():
                if not math.isnan(mean):
                    above[key[:-1]][name].append(mean)
        level = above
    return result


def macro(levels: Mapping[str, Mapping[tuple[str, ...], Values]], level: str) -> dict[str, float]:
    """Returns the unweighted mean over all groups of one level of a rollup."""
    cells: dict[str, list[float]] = defaultdict(list)
    for means in levels[level].values():
        for name, mean in means.items():
            if not math.isnan(mean):
                cells[name].append(mean)
    return {name: _mean(column) for name, column in cells.items()}


def _mean(numbers: Sequence[float]) -> float:
    # fsum, so that the order of queries can never show in a published digit.
    return float(math.fsum(numbers) / len(numbers)) if numbers else float("nan")
