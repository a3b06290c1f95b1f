"""Per-query measures and their aggregation.

`recall@k` is the headline, "strict all-gold micro recall@k": of ALL positive units of a query (both relevance tiers,
unresolved ones included) the share found in the top k, then the mean over queries. `all_gold@k` is 1 when every unit
is found, else 0. A query without any positive unit has no denominator: it is left out and counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CUTOFFS = (5, 10, 20, 50)

Values = Mapping[str, float]


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


def names(cutoffs: Sequence[int] = CUTOFFS) -> list[str]:
    """Returns the measures' names in the order of every table."""
    return [f"{measure}@{k}" for measure in ("recall", "all_gold", "essential_recall") for k in cutoffs]


def per_query(queries: Sequence[QueryRanks], cutoffs: Sequence[int] = CUTOFFS) -> dict[str, NDArray[np.float64]]:
    """Returns one array a measure, aligned with `queries`; NaN where the measure has no denominator for a query."""
    values = {name: np.full(len(queries), np.nan) for name in names(cutoffs)}
    for i, query in enumerate(queries):
        ranks = np.array(query.unit_ranks, dtype=np.int64)
        essential = np.array(query.essential, dtype=bool)
        for k in cutoffs:
            found = (ranks > 0) & (ranks <= k)
            if len(ranks):
                values[f"recall@{k}"][i] = found.sum() / len(ranks)
                values[f"all_gold@{k}"][i] = float(found.all())
            if essential.any():
                values[f"essential_recall@{k}"][i] = found[essential].sum() / essential.sum()
    return values


def micro(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Returns the mean of each measure over the queries that have a denominator for it; NaN where none has."""
    return {name: _mean(list(column[~np.isnan(column)])) for name, column in values.items()}


def pooled_recall(queries: Sequence[QueryRanks], cutoffs: Sequence[int] = CUTOFFS) -> dict[str, float]:
    """Returns the sum of found units over the sum of units, a query weighing as much as it has units."""
    ranks = np.array([rank for query in queries for rank in query.unit_ranks], dtype=np.int64)
    if not len(ranks):
        return {f"pooled_recall@{k}": float("nan") for k in cutoffs}
    return {f"pooled_recall@{k}": float(((ranks > 0) & (ranks <= k)).mean()) for k in cutoffs}


def rollup(
    queries: Sequence[QueryRanks], values: Mapping[str, NDArray[np.float64]]
) -> dict[str, dict[tuple[str, ...], dict[str, float]]]:
    """Returns the staged macro means query -> task -> repo -> language.

    For each level its groups with their values: "task" keyed (language, repo, task), "repo" keyed (language, repo),
    "language" keyed (language,), "all" keyed (). A group's value is the unweighted mean of the groups one level below.
    """
    level: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for i, query in enumerate(queries):
        for name, column in values.items():
            if not np.isnan(column[i]):
                level[query.language, query.repo, query.task_id][name].append(float(column[i]))
    result = {}
    for title in ("task", "repo", "language", "all"):
        result[title] = {key: {name: _mean(cells[name]) for name in values} for key, cells in sorted(level.items())}
        above: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for key, means in result[title].items():
            for name, mean in means.items():
                if not np.isnan(mean):
                    above[key[:-1]][name].append(mean)
        level = above
    return result


def macro(levels: Mapping[str, Mapping[tuple[str, ...], Values]], level: str) -> dict[str, float]:
    """Returns the unweighted mean over all groups of one level of a rollup."""
    cells: dict[str, list[float]] = defaultdict(list)
    for means in levels[level].values():
        for name, mean in means.items():
            if not np.isnan(mean):
                cells[name].append(mean)
    return {name: _mean(column) for name, column in cells.items()}


def _mean(numbers: Sequence[float]) -> float:
    # fsum, so that the order of queries can never show in a published digit.
    return float(math.fsum(numbers) / len(numbers)) if numbers else float("nan")
