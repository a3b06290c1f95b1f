"""What a report of runs says: their numbers side by side, by language, by size, and where queries fail.

All numbers are over the queries that every run has. Only run folders are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quarry_harness import measures, significance
from quarry_harness.errors import UsageError
from quarry_harness.runs import read_result
from quarry_harness.stages.compare import (
    COLUMNS,
    KeptRun,
    Plan,
    clusters,
    common,
    compare_runs,
    depth_of,
    in_order,
    open_run,
    units_of,
)
from quarry_harness.stages.workspace import runs_folder

REPORT_COLUMNS = (*COLUMNS, "language", "revision", "corpus_chunks", "gold_kinds")
CURVE = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
# Where a gold unit ended, best first; a query ends where the worst of its units does.
OUTCOMES = (
    "top_5", "top_10", "top_20", "top_50", "below_50", "unresolved", "not_in_ranking", "no_result",
)  # fmt: skip
NO_GOLD = "no_gold"


def open_runs(workspace: Path, names: Sequence[str], baseline: str | None, image: str | None = None) -> list[KeptRun]:
    """Returns the runs, the baseline first; all runs of the workspace, or those of an image, where none is named.

    Raises UsageError where there is none, and what open_run raises.
    """
    there = [] if names else sorted(path.parent.name for path in runs_folder(workspace).glob("[!.]*/result.json"))
    wanted = list(names) or [
        name for name in there if image in (None, read_result(runs_folder(workspace) / name).get("image"))
    ]
    if there and not wanted:
        raise UsageError(f"There is no run on the {image} in {runs_folder(workspace)}.", "Name the other --image.")
    if not wanted:
        raise UsageError(f"There is no run in {runs_folder(workspace)}.", "First run: quarry eval")
    first = open_run(workspace, baseline, REPORT_COLUMNS) if baseline else None
    return in_order([open_run(workspace, name, REPORT_COLUMNS) for name in wanted], first)


def survey(runs: Sequence[KeptRun], plan: Plan | None = None) -> dict[str, Any]:
    """Returns the document of a report; the first run is the baseline. Raises what `compare` raises.

    comparison: the document of `compare`. runs: each run's own account of itself. averages: of each run the macro means
    by task, repo and language, pooled recall, and essential_recall with the number of queries that it is over. curves:
    means at more cutoffs. languages, corpus_chunks, gold_units: the same means by group. failures: queries and units by
    outcome.
    """
    plan = plan or Plan()
    comparison = compare_runs(runs, plan)
    rows = common(runs)
    units = [units_of(table) for table in rows]
    languages = rows[0]["language"].to_pylist()
    groups = _Groups([run.run_id for run in runs], units, clusters(rows[0], "task"), plan)
    return {
        "comparison": comparison,
        "runs": [_account(run) for run in runs],
        "averages": [
            {"run_id": run.run_id} | _averages(table, own) for run, table, own in zip(runs, rows, units, strict=True)
        ],
        "curves": [_curve(run, own, _reach(runs)) for run, own in zip(runs, units, strict=True)],
        "languages": groups.by(languages, sorted(set(languages))),
        "corpus_chunks": groups.by_size(rows[0]["corpus_chunks"].to_pylist(), measures.CORPUS_CHUNKS),
        "gold_units": groups.by_size(units[0].count().tolist(), measures.GOLD_COUNTS),
        "failures": [
            {"run_id": run.run_id} | _failures(table, own) for run, table, own in zip(runs, rows, units, strict=True)
        ],
    }


def _account(run: KeptRun) -> dict[str, Any]:
    """What a run says of itself, as a whole, whatever part of it is compared."""
    fields = (
        "model", "release", "release_version", "image", "profile", "filters", "queries", "queries_without_gold",
        "queries_without_result", "queries_without_result_by_reason", "tasks", "release_tasks", "units",
        "unresolved_units", "units_sharing_a_chunk", "revisions_missing", "texts", "versions",
    )  # fmt: skip
    return {
        "run_id": run.run_id,
        **{name: run.result.get(name) for name in fields},
        "revisions": len(run.result.get("revisions", [])),
        "depth": depth_of(run),
        "model_settings": run.result.get("settings", {}).get("model"),
        "macro": {level: run.result.get("rollup", {}).get(level) for level in ("task", "repo", "language")},
        "pooled": run.result.get("pooled"),
    }


def _averages(rows: pa.Table, units: measures.Judged) -> dict[str, Any]:
    """The other means of the same queries."""
    wanted = [f"{family}@{k}" for family in ("recall", "all_gold") for k in measures.CUTOFFS]
    columns = (rows[name].to_pylist() for name in ("query_id", "repo", "task_id", "language"))
    queries = [
        measures.QueryRanks(query, repo, task, language, (), (), 0)
        for query, repo, task, language in zip(*columns, strict=True)
    ]
    levels = measures.rollup(queries, measures.per_query(units, wanted))
    essential = measures.per_query(units, [f"essential_recall@{k}" for k in measures.CUTOFFS])
    return {
        "macro": {level: measures.macro(levels, level) for level in ("task", "repo", "language")},
        "pooled": measures.pooled_recall(units),
        "essential": measures.micro(essential),
        "essential_queries": int((units.count(units.grades == measures.ESSENTIAL) > 0).sum()),
    }


def _reach(runs: Sequence[KeptRun]) -> int:
    """The largest k at which every run can be measured."""
    limits = [depth_of(run) for run in runs if depth_of(run)]
    longest = max(pc.max(run.rows["retrieved"]).as_py() or 0 for run in runs)
    return min(limits) if limits else max(longest, measures.CUTOFFS[-1])


def _curve(run: KeptRun, units: measures.Judged, depth: int) -> dict[str, Any]:
    cutoffs = [k for k in CURVE if k <= depth]
    names = {family: [f"{family}@{k}" for k in cutoffs] for family in ("recall", "all_gold")}
    means = measures.micro(measures.per_query(units, [*names["recall"], *names["all_gold"]]))
    return {"run_id": run.run_id, "k": cutoffs} | {
        family: [means[name] for name in columns] for family, columns in names.items()
    }


class _Groups:
    """The means of all runs over groups of their common queries, with intervals."""

    def __init__(
        self, runs: Sequence[str], units: Sequence[measures.Judged], tasks: Sequence[tuple[str, ...]], plan: Plan
    ) -> None:
        self.runs = runs
        self.tasks = tasks
        self.counts = units[0].count()
        self.names = [f"{family}@{k}" for family in ("recall", "all_gold") for k in measures.CUTOFFS]
        columns = [measures.per_query(own, self.names)[name] for own in units for name in self.names]
        self.values = np.stack(columns, axis=1)
        self.resamples = plan.resamples
        self.seed = plan.seed

    def by(self, labels: Sequence[str], order: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the groups in that order: how many queries, tasks and units each has, and each run's means."""
        there = set(labels)
        return [self._group(label, np.array([name == label for name in labels])) for label in order if label in there]

    def by_size(self, sizes: Sequence[int], starts: Sequence[int]) -> list[dict[str, Any]]:
        """Returns the same by bins of a number of each query, those below the first bin left out."""
        labels = [measures.bin_of(size, starts) if size >= starts[0] else "" for size in sizes]
        return self.by(labels, [measures.bin_of(start, starts) for start in starts])

    def _group(self, label: str, kept: NDArray[np.bool_]) -> dict[str, Any]:
        kept = kept & (self.counts > 0)
        tasks = [task for task, wanted in zip(self.tasks, kept.tolist(), strict=True) if wanted]
        data = significance.clustered(self.values[kept], tasks)
        ends = significance.interval(significance.bootstrap(data, self.resamples, self.seed)).T.tolist()
        means = [measures.micro({"": column})[""] for column in self.values[kept].T]
        cells = [{"value": mean, "interval": pair} for mean, pair in zip(means, ends, strict=True)]
        width = len(self.names)
        return {
            "label": label,
            "queries": int(kept.sum()),
            "tasks": len(set(tasks)),
            "units": int(self.counts[kept].sum()),
            "runs": [
                {"run_id": run, "measures": dict(zip(self.names, cells[i * width : (i + 1) * width], strict=True))}
                for i, run in enumerate(self.runs)
            ],
        }


def _failures(rows: pa.Table, units: measures.Judged) -> dict[str, Any]:
    codes, worst = outcomes(rows, units)
    queries = Counter(worst)
    cells = Counter(OUTCOMES[code] for code in codes.tolist())
    return {
        "queries": {name: queries[name] for name in OUTCOMES},
        "queries_without_gold": queries[NO_GOLD],
        "units": {name: cells[name] for name in OUTCOMES},
    }


def outcomes(rows: pa.Table, units: measures.Judged) -> tuple[NDArray[np.int64], list[str]]:
    """Returns where each unit ended, as places in OUTCOMES, and where each query did: OUTCOMES or NO_GOLD."""
    resolved = np.array([bool(kind) for kinds in rows["gold_kinds"].to_pylist() for kind in kinds], np.bool_)
    retrieved = np.array(rows["retrieved"].to_pylist(), np.int64)
    codes = np.searchsorted(np.array(measures.CUTOFFS), units.ranks)
    codes[units.ranks == 0] = OUTCOMES.index("not_in_ranking")
    codes[~resolved] = OUTCOMES.index("unresolved")
    codes[retrieved[units.query] == 0] = OUTCOMES.index("no_result")
    worst = np.full(units.queries, -1)
    np.maximum.at(worst, units.query, codes)
    return codes, [NO_GOLD if code < 0 else OUTCOMES[code] for code in worst.tolist()]
