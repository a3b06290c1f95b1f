"""Runs side by side on the queries they share: means with intervals, and paired differences with their tests.

Only what the run folders hold is read; the workspace's database is not opened, so a comparison can be made while an
evaluation runs, and of runs that came from other machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from quarry_harness import measures, significance
from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.runs import read_per_query, read_result
from quarry_harness.stages.workspace import runs_folder
from quarry_harness.types import RESAMPLES, SEED

COLUMNS = (
    "query_id", "repo", "task_id", "query", "gold_unit_keys", "gold_relevances", "gold_ranks", "gold_documents",
    "retrieved",
)  # fmt: skip
# Settings of a run whose difference may be the reason of a difference, beside the model.
SETTINGS = (
    "release", "release_files", "selection", "resolutions", "chunk_rules", "image", "profile", "depth", "code",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run folder as it was read: its result.json, and its per-query rows."""

    run_id: str
    folder: Path
    result: dict[str, Any]
    rows: pa.Table

    def keys(self) -> list[tuple[str, str]]:
        """Returns (repo, query id) of each row."""
        return list(zip(self.rows["repo"].to_pylist(), self.rows["query_id"].to_pylist(), strict=True))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared, and how."""

    measures: tuple[str, ...] = ()  # () = recall and all_gold at every cutoff
    by: str = "task"  # what is resampled whole: task or repo
    resamples: int = RESAMPLES
    seed: int = SEED


def compare(
    workspace: Path, names: Sequence[str], baseline: str | None, plan: Plan, first_stage: str | None, pool: int | None
) -> dict[str, Any]:
    """Returns the comparison of runs as a document; the first run is the baseline where none is named.

    names, baseline, first_stage: run ids of the workspace, or run folders. pool: how many results of the first stage
    were re-ranked, its depth where it is None. Raises UsageError for a run that is not there, for one that is named
    twice, for a cutoff or a pool beyond a run's depth, and for a pool without a first stage; InvalidInputError where a
    run cannot be read or contradicts itself, where the runs have no query in common, and where they disagree about a
    query's text or gold units.
    """
    if pool and not first_stage:
        raise UsageError(
            f"A pool of {pool} results is of a first stage, and none is named.", "Name it with --first-stage RUN."
        )
    runs = in_order([open_run(workspace, name) for name in names], baseline and open_run(workspace, baseline))
    return compare_runs(runs, plan, open_run(workspace, first_stage) if first_stage else None, pool)


def compare_runs(
    runs: Sequence[KeptRun], plan: Plan, first: KeptRun | None = None, pool: int | None = None
) -> dict[str, Any]:
    """Returns the comparison of runs that are open, the first one the baseline. Raises what `compare` raises."""
    wanted = plan.measures or tuple(f"{family}@{k}" for family in ("recall", "all_gold") for k in measures.CUTOFFS)
    _check_depth(wanted, runs)
    everything = [*runs, *([first] if first else [])]
    rows = common(everything)
    units = [units_of(table) for table in rows]
    _check_gold(everything, rows)
    document = _about(runs, everything, rows, units) | _compared(
        runs, units[: len(runs)], wanted, clusters(rows[0], plan.by), plan
    )
    if first:
        depth = pool or depth_of(first) or max(1, pc.max(first.rows["retrieved"]).as_py() or 0)
        if 0 < depth_of(first) < depth:
            raise UsageError(
                f"A pool of {depth} results: the first stage {first.run_id} keeps {depth_of(first)} results a query.",
                f"Choose a smaller --pool, or run: quarry eval --depth {depth}",
            )
        pools = zip(runs, units, strict=False)
        document["first_stage"] = {
            "run_id": first.run_id,
            "runs": [{"run_id": run.run_id} | measures.pool(units[-1], own, depth) for run, own in pools],
        }
    return document


def open_run(workspace: Path, name: str, columns: Sequence[str] = COLUMNS) -> KeptRun:
    """Returns the run of that id in the workspace, or in the folder of that path, with those columns of its rows.

    Raises UsageError where there is none, InvalidInputError where it cannot be read or contradicts itself.
    """
    inside = runs_folder(workspace) / name
    folder = inside if (inside / "result.json").is_file() else Path(name)
    if not (folder / "result.json").is_file():
        there = sorted(path.parent.name for path in runs_folder(workspace).glob("*/result.json"))
        raise UsageError(
            f"There is no run '{name}' in {runs_folder(workspace)}, and no run folder of that path.",
            f"Runs: {', '.join(there)}." if there else "First run: quarry eval",
        )
    result = read_result(folder)
    run = KeptRun(str(result.get("run_id", folder.name)), folder, result, read_per_query(folder, columns))
    if fact := next(_contradictions(run), None):
        raise InvalidInputError(
            f"{folder / 'per_query.parquet'}: {fact}.", "Copy the run folder again, or run it anew."
        )
    return run


def _contradictions(run: KeptRun) -> Iterator[str]:
    """What cannot be true of a run's rows, by themselves or beside its result.json; only the first is for sure."""
    keys = run.keys()
    if len(set(keys)) < len(keys):
        yield f"{len(keys) - len(set(keys))} queries stand in it twice"
    lists = [run.rows[name] for name in ("gold_unit_keys", "gold_relevances", "gold_ranks", "gold_documents")]
    lengths = [pc.list_value_length(column).to_pylist() for column in lists]
    if any(None in column or column != lengths[0] for column in lengths):
        yield "the lists of a query's gold units differ in length"
    if any(pc.list_flatten(column).null_count for column in lists):
        yield "a gold unit has no value"
    units = units_of(run.rows)
    if (units.ranks < 0).any():
        yield "a rank is negative"
    try:
        means = measures.micro(measures.per_query(units, [*(f"recall@{k}" for k in measures.CUTOFFS), "RR@10"]))
    except ValueError as error:
        yield str(error)
        return
    with_gold = int((units.count() > 0).sum())
    counts = {"queries": with_gold, "queries_without_gold": len(keys) - with_gold, "units": len(units.ranks)}
    for name, count in counts.items():
        if run.result.get(name, count) != count:
            yield f"{count} {name.replace('_', ' ')}, but result.json says {run.result[name]}"
    for name, mean in means.items():
        said = (run.result.get("measures") or {}).get(name)
        if isinstance(said, float) and not abs(said - mean) <= 1e-9:
            yield f"{name} of its rows is {mean:.6f}, but result.json says {said:.6f}"


def in_order(runs: list[KeptRun], baseline: KeptRun | str | None) -> list[KeptRun]:
    """Returns the runs with the baseline first; UsageError where one is named twice."""
    if isinstance(baseline, KeptRun):
        runs = [baseline, *(run for run in runs if run.run_id != baseline.run_id)]
    twice = next((run.run_id for i, run in enumerate(runs) if run.run_id in {other.run_id for other in runs[:i]}), None)
    if twice:
        raise UsageError(f"The run {twice} is named twice.", "Name each run once.")
    return runs


def depth_of(run: KeptRun) -> int:
    """Returns how many results a run keeps of each query; 0 where it has no limit of ours: another system's."""
    return int(run.result.get("settings", {}).get("depth", 0))


def _check_depth(wanted: Sequence[str], runs: Sequence[KeptRun]) -> None:
    for name in wanted:
        _, k = measures.parse(name)
        for run in runs:
            if k is not None and 0 < depth_of(run) < k:
                raise UsageError(
                    f"{name}: the run {run.run_id} keeps {depth_of(run)} results a query.",
                    f"Choose a smaller cutoff, or run: quarry eval --depth {k}",
                )


def common(runs: Sequence[KeptRun]) -> list[pa.Table]:
    """Returns each run's rows of the queries that all have, by repo and query id; InvalidInputError where none is."""
    places = [{key: i for i, key in enumerate(run.keys())} for run in runs]
    shared = sorted(set(places[0]).intersection(*places[1:]))
    if not shared:
        raise InvalidInputError(
            f"The runs {', '.join(run.run_id for run in runs)} have no query in common.",
            "Compare runs of one release and one selection.",
        )
    return [run.rows.take([place[key] for key in shared]) for run, place in zip(runs, places, strict=True)]


def _check_gold(runs: Sequence[KeptRun], rows: Sequence[pa.Table]) -> None:
    """Raises InvalidInputError where two runs disagree about a query's text or gold: they measured other things."""
    for run, table in zip(runs[1:], rows[1:], strict=True):
        texts = (column.to_pylist() for column in (rows[0]["query_id"], rows[0]["query"], table["query"]))
        if other_text := next((query for query, one, other in zip(*texts, strict=True) if one != other), None):
            raise InvalidInputError(
                f"{other_text}: {runs[0].run_id} and {run.run_id} have different texts of this query.",
                "Name runs of one release.",
            )
        if all(table[name].equals(rows[0][name]) for name in ("gold_unit_keys", "gold_relevances")):
            continue
        for query, one, other in zip(rows[0]["query_id"].to_pylist(), _gold(rows[0]), _gold(table), strict=True):
            if one != other:
                unit = min(set(one) ^ set(other) or set(one))[0]
                raise InvalidInputError(
                    f"{query}: {runs[0].run_id} and {run.run_id} have different gold units ({unit}).",
                    "Name runs of one release and one image.",
                )


def _gold(table: pa.Table) -> list[list[tuple[str, str]]]:
    columns = (table[name].to_pylist() for name in ("gold_unit_keys", "gold_relevances"))
    return [sorted(zip(keys, words, strict=True)) for keys, words in zip(*columns, strict=True)]


def units_of(rows: pa.Table) -> measures.Judged:
    """Returns the gold units of a per-query table with their ranks, as the measures take them."""
    counts = pc.list_value_length(rows["gold_ranks"]).to_numpy()
    essential = pc.equal(pc.list_flatten(rows["gold_relevances"]), "ESSENTIAL").to_numpy().astype(np.int64)
    return measures.Judged(
        len(rows),
        np.repeat(np.arange(len(rows)), counts),
        pc.list_flatten(rows["gold_ranks"]).to_numpy().astype(np.int64),
        essential + measures.RELATED,
        pc.list_flatten(rows["gold_documents"]).to_numpy().astype(np.int64),
    )


def clusters(rows: pa.Table, by: str) -> list[tuple[str, ...]]:
    """Returns the cluster of each row: its task, or its repository."""
    columns = (rows[name].to_pylist() for name in (("repo", "task_id") if by == "task" else ("repo",)))
    return list(zip(*columns, strict=True))


def _about(
    runs: Sequence[KeptRun], everything: Sequence[KeptRun], rows: Sequence[pa.Table], units: Sequence[measures.Judged]
) -> dict[str, Any]:
    """Which runs and which queries, and what else is not the same about them."""
    queries = len(rows[0])
    with_gold = int((units[0].count() > 0).sum())
    headline = [f"recall@{k}" for k in measures.CUTOFFS]
    return {
        "runs": [
            {
                "run_id": run.run_id,
                "name": name,
                "queries": len(run.rows),
                "queries_not_compared": len(run.rows) - queries,
                "queries_compared_without_result": _without_result(table, own),
                "recall": measures.micro(measures.per_query(own, headline)),
                **{
                    field: run.result.get(field)
                    for field in ("model", "release", "release_version", "image", "queries_without_result")
                    + ("unresolved_units", "revisions_missing", "filters", "tasks", "release_tasks")
                },
            }
            for run, name, table, own in zip(runs, _names(runs), rows, units, strict=False)
        ],
        "baseline": runs[0].run_id,
        "queries": with_gold,
        "queries_without_gold": queries - with_gold,
        "same_queries": all(len(run.rows) == queries for run in everything),
        "differing_settings": _differing(everything),
    }


def _without_result(rows: pa.Table, units: measures.Judged) -> int:
    """How many queries have gold units and no result; where nothing was retrieved is known by `retrieved`."""
    return int(((rows["retrieved"].to_numpy() == 0) & (units.count() > 0)).sum())


def _names(runs: Sequence[KeptRun]) -> list[str]:
    """What each run is called: its model; runs of one model by the settings that tell them apart, or by their ids."""
    models = [str(run.result.get("model", run.run_id)) for run in runs]
    settings = [name for name in ("image", "profile", "depth") if name in _differing(runs)]
    words = [
        f"{model}, " + ", ".join(f"{name} {run.result.get('settings', {}).get(name) or 'its own'}" for name in settings)
        for run, model in zip(runs, models, strict=True)
    ]
    return [
        model if models.count(model) == 1 else word if settings and words.count(word) == 1 else run.run_id
        for run, model, word in zip(runs, models, words, strict=True)
    ]


def _differing(runs: Sequence[KeptRun]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, with each run's value."""
    values = {name: [run.result.get("settings", {}).get(name) for run in runs] for name in SETTINGS}
    values["versions"] = [run.result.get("versions") for run in runs]
    return {name: column for name, column in values.items() if any(value != column[0] for value in column)}


def _compared(
    runs: Sequence[KeptRun],
    units: Sequence[measures.Judged],
    wanted: Sequence[str],
    clusters: Sequence[tuple[str, ...]],
    plan: Plan,
) -> dict[str, Any]:
    """The table, a row a measure and run, with the names of everything that was done for it."""
    by_run = [measures.per_query(own, list(wanted)) for own in units]
    values = np.stack([columns[name] for columns in by_run for name in wanted], axis=1)
    data = significance.clustered(values, clusters)
    drawn = significance.bootstrap(data, plan.resamples, plan.seed)
    ends = significance.interval(drawn)
    rows = [
        {
            "measure": name,
            "run_id": run.run_id,
            "value": measures.micro({name: column})[name],
            "interval": list(pair),
            "queries": int((~np.isnan(column)).sum()),
        }
        for (run, name), column, pair in zip(_pairs(runs, wanted), values.T, ends.T.tolist(), strict=True)
    ]
    width = len(wanted)
    differences = values[:, width:] - np.tile(values[:, :width], (1, len(runs) - 1))
    tests = _tests(differences, drawn[:, width:] - np.tile(drawn[:, :width], (1, len(runs) - 1)), clusters, plan)
    rows = rows[:width] + [row | test for row, test in zip(rows[width:], tests, strict=True)]
    return {
        "measures": list(wanted),
        "by": plan.by,
        "clusters": len(data.sums),
        "resamples": plan.resamples,
        "seed": plan.seed,
        "level": significance.LEVEL,
        "interval": "percentile interval of the cluster bootstrap",
        "test": "paired permutation test, two-sided, random signs of whole clusters, p = (hits + 1) / (resamples + 1)",
        "correction": f"Holm over the {len(tests)} tests of this table",
        "alpha": significance.ALPHA,
        "power": significance.POWER,
        "rows": sorted(rows, key=lambda row: wanted.index(row["measure"])),
    }


def _pairs(runs: Sequence[KeptRun], wanted: Sequence[str]) -> list[tuple[KeptRun, str]]:
    return [(run, name) for run in runs for name in wanted]


def _tests(
    differences: NDArray[np.float64],
    drawn: NDArray[np.float64],
    clusters: Sequence[tuple[str, ...]],
    plan: Plan,
) -> list[dict[str, Any]]:
    """Each column of paired differences with its interval, p, corrected p, wins, and what could have been found."""
    if not differences.shape[1]:
        return []
    p = significance.permutation(significance.clustered(differences, clusters), plan.resamples, plan.seed).tolist()
    corrected = significance.holm(p)
    ends = significance.interval(drawn).T.tolist()
    smallest = significance.detectable(drawn).tolist()
    tests = []
    for i, column in enumerate(differences.T):
        wins, ties, losses = significance.win_tie_loss(column)
        tests.append(
            {
                "difference": measures.micro({"": column})[""],
                "difference_interval": list(ends[i]),
                "p": p[i],
                "p_corrected": corrected[i],
                "wins": wins,
                "ties": ties,
                "losses": losses,
                "detectable": smallest[i],
            }
        )
    return tests
