"""The tables and notes of a report, the same in every form of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarry_harness.comparison import differing, how, smaller_means
from quarry_harness.measures import CUTOFFS
from quarry_harness.report import (
    FEW,
    cut_of,
    few_clusters,
    percent,
    percents,
    printable,
    release_words,
    selected_words,
)
from quarry_harness.types import LANGUAGES

# What each outcome of a unit means; a query's outcome is that of its worst unit.
OUTCOMES: Mapping[str, str] = {
    "top_5": "in the top 5",
    "top_10": "at 6 to 10",
    "top_20": "at 11 to 20",
    "top_50": "at 21 to 50",
    "below_50": "below 50",
    "unresolved": "label not resolved",
    "not_in_ranking": "never found",
    "no_result": "query without a result",
}
NO_GOLD = "no gold unit"
DEFINITION = (
    "recall@k: the share of a query's gold units in its top k, then the mean over the queries; both relevance tiers and"
    " unresolved units count. all_gold@k: the share of queries that have every gold unit in the top k."
)


_FOREIGN = "everything that another system's run has"

Cell = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are text, or a value with its interval."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left: int = 1  # columns of words; the others are numbers


def names(document: Mapping[str, Any]) -> dict[str, str]:
    """Returns run id -> what the run is called in this report."""
    return {run["run_id"]: printable(run["name"]) for run in document["comparison"]["runs"]}


def scope(document: Mapping[str, Any]) -> str:
    """Returns what the numbers are over: release, image, queries, runs."""
    comparison = document["comparison"]
    runs = comparison["runs"]
    about = list(dict.fromkeys(f"{release_words(run)}, {run['image']}" for run in runs))
    which = "" if comparison["same_queries"] else ", those that every run has"
    over = f"{comparison['queries']:,} queries of {comparison['clusters']:,} {comparison['by']}s"
    return printable(f"{'; '.join(about)}: {over}{which}; {len(runs)} run{'s' if len(runs) > 1 else ''}")


def ranked(document: Mapping[str, Any]) -> list[str]:
    """Returns the run ids, the best recall at the smallest cutoff first."""
    values = {row["run_id"]: row["value"] for row in document["comparison"]["rows"] if row["measure"] == "recall@5"}
    return sorted(values, key=lambda run: (math.isnan(values[run]), -values[run], run))


def values(document: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Returns (run id, measure) -> the row of the comparison."""
    return {(row["run_id"], row["measure"]): row for row in document["comparison"]["rows"]}


def leaderboard(document: Mapping[str, Any]) -> Table:
    """Returns the runs, best first, with recall and all_gold at every cutoff."""
    comparison = document["comparison"]
    cells = values(document)
    called = names(document)
    rows: list[list[Cell]] = [
        [called[run], *(_value(cells[run, name]) for name in comparison["measures"])] for run in ranked(document)
    ]
    level = f"{100 * comparison['level']:.0f}% intervals"
    caption = f"Means over {comparison['queries']:,} queries, in percent, with {level}; best recall@5 first."
    return Table(caption, ["run", *comparison["measures"]], rows)


def averages(document: Mapping[str, Any]) -> Table:
    """Returns the means of each run beside the micro mean: macro by each level, pooled, essential_recall."""
    called = names(document)
    by_run = {row["run_id"]: row for row in document["averages"]}
    recall, all_gold = ([f"{family}@{k}" for k in CUTOFFS] for family in ("recall", "all_gold"))
    rows: list[list[Cell]] = []
    for run in ranked(document):
        own = by_run[run]
        lines = [(f"macro by {level}", [values.get(name) for name in (*recall, *all_gold)])
                 for level, values in own["macro"].items()]  # fmt: skip
        lines += [
            (words, [own[kind][f"{family}@{k}"] for k in CUTOFFS] + [None] * len(all_gold))
            for words, kind, family in (
                ("pooled: units found / units", "pooled", "pooled_recall"),
                (f"essential_recall, over {own['essential_queries']:,} queries", "essential", "essential_recall"),
            )
        ]
        rows += [
            [called[run] if place == 0 else "", words, *map(percent, cells)]
            for place, (words, cells) in enumerate(lines)
        ]
    caption = "Other means of the same queries, in percent; essential_recall is over those with an ESSENTIAL unit."
    return Table(caption, ["run", "mean", *recall, *all_gold], rows, left=2)


def grouped(document: Mapping[str, Any], field: str, cutoffs: Sequence[int] = CUTOFFS) -> Table:
    """Returns recall and all_gold by language, corpus size or number of gold units; one row a group and run."""
    titles = {"languages": "language", "corpus_chunks": "chunks in the corpus", "gold_units": "gold units"}
    measures = [f"{family}@{k}" for family in ("recall", "all_gold") for k in cutoffs]
    called = names(document)
    rows: list[list[Cell]] = []
    for group in document[field]:
        by_run = {run["run_id"]: run["measures"] for run in group["runs"]}
        for place, run in enumerate(ranked(document)):
            first = [group_name(field, group), str(group["queries"]), str(group["tasks"]), str(group["units"])]
            cells = [_value(by_run[run][name]) for name in measures]
            rows.append([*(first if place == 0 else [""] * 4), called[run], *cells])
    caption = f"By {titles[field]}, in percent, with intervals over the tasks of the group."
    return Table(caption, [titles[field], "queries", "tasks", "units", "run", *measures], rows)


def group_name(field: str, group: Mapping[str, Any]) -> str:
    """Returns what a group is called."""
    return LANGUAGES.get(group["label"], group["label"]) if field == "languages" else str(group["label"])


def against(document: Mapping[str, Any]) -> Table | None:
    """Returns each run's difference to the baseline and its tests; None where there is one run alone."""
    comparison = document["comparison"]
    called = names(document)
    digits = max(4, len(str(comparison["resamples"])))
    rows = [
        [
            called[row["run_id"]],
            row["measure"],
            (signed(row["difference"]), " to ".join(map(signed, row["difference_interval"]))),
            *("-" if math.isnan(row[p]) else f"{row[p]:.{digits}f}" for p in ("p", "p_corrected")),
            *(str(row[name]) for name in ("wins", "ties", "losses")),
            percent(row["detectable"]),
        ]
        for run in ranked(document)
        for row in comparison["rows"]
        if row["run_id"] == run and "difference" in row
    ]
    if not rows:
        return None
    caption = f"Against {called[comparison['baseline']]}: percentage points, and queries won, tied and lost."
    header = ["run", "measure", "difference", "p", "p (Holm)", "won", "tied", "lost", "detectable"]
    return Table(caption, header, rows, left=2)


def failures(document: Mapping[str, Any], of: str) -> Table:
    """Returns how many queries or units (`of`) of each run ended where."""
    called = names(document)
    by_run = {row["run_id"]: row for row in document["failures"]}
    rows = []
    for run in ranked(document):
        counts = by_run[run][of]
        whole = sum(counts.values())
        rows.append([called[run], str(whole), *(_share(counts[name], whole) for name in OUTCOMES)])
    caption = {
        "queries": "Queries by where the worst of their gold units is.",
        "units": "Gold units by where they are.",
    }[of]
    return Table(caption, ["run", of, *OUTCOMES.values()], rows)


def accounts(document: Mapping[str, Any]) -> Table:
    """Returns what could lower each run's numbers without being its model's fault, of the whole run."""
    called = names(document)
    by_run = {run["run_id"]: run for run in document["runs"]}
    rows = []
    for name in ranked(document):
        run = by_run[name]
        reasons = run["queries_without_result_by_reason"] or {}
        words = f" ({', '.join(f'{count} {reason}' for reason, count in reasons.items())})" if reasons else ""
        rows.append(
            [
                called[name],
                _count(run["queries"]),
                f"{_count(run['tasks'])} of {_count(run['release_tasks'])}",
                _count(run["units"]),
                _count(run["unresolved_units"]),
                f"{_count(run['queries_without_result'])}{words}",
                _count(run["queries_without_gold"]),
                f"{_count(run['revisions_missing'])} of {_count(run['revisions'])}",
                _count(run["units_sharing_a_chunk"]),
            ]
        )
    header = [
        "run", "queries", "tasks of the release", "gold units", "unresolved units", "queries without a result",
        "queries without gold", "missing revisions", "units sharing a chunk",
    ]  # fmt: skip
    return Table("What each run says of itself.", header, rows)


def warnings(document: Mapping[str, Any]) -> list[str]:
    """Returns why these numbers are not those of a whole release, or not of whole data: to stand at the top."""
    comparison = document["comparison"]
    called = names(document)
    lines = [f"{called[run['run_id']]} is {words}." for run in document["runs"] if (words := selected_words(run))]
    lines += [f"{line}." for line in few_clusters(comparison["clusters"], comparison["by"], FEW)]
    if not comparison["same_queries"]:
        lines += [
            f"{printable(run['name'])}: {run['queries_not_compared']} of its {run['queries']} queries are not in this"
            " report, since another run does not have them."
            for run in comparison["runs"]
            if run["queries_not_compared"]
        ]
    lines += [
        f"{printable(run['name'])}: {run['queries_compared_without_result']} of the {comparison['queries']} queries"
        " have no result, and count 0."
        for run in comparison["runs"]
        if run["queries_compared_without_result"]
    ]
    for run in document["runs"]:
        if run["revisions_missing"]:
            lines.append(
                f"{called[run['run_id']]}: {run['revisions_missing']} of {run['revisions']} revisions are missing, and"
                " nothing can be found in them."
            )
        if run["unresolved_units"]:
            lines.append(
                f"{called[run['run_id']]}: {run['unresolved_units']} of {run['units']} gold units are unresolved, and"
                " count as not found."
            )
    return lines


def notes(document: Mapping[str, Any]) -> list[str]:
    """Returns how to read the numbers, after the warnings."""
    comparison = document["comparison"]
    lines = [
        "An unresolved unit and a query without a result count as not found; a query without a gold unit is left out"
        f" of every mean ({comparison['queries_without_gold']} here)."
    ]
    if comparison["differing_settings"]:
        lines.append(f"Beside the model, the runs differ in: {printable(', '.join(differing(comparison)))}.")
    lines += [f"{line}." for line in smaller_means(comparison)]
    called = names(document)
    lines += [
        f"{called[run['run_id']]}: longer than {printable(model)} takes, and cut: {cut_of(count)}."
        for run in document["runs"]
        for model, count in (run["texts"] or {}).items()
    ]
    depths = sorted({run["depth"] for run in document["runs"]})
    kept = [f"the {depth} results that a run keeps of each query" if depth else _FOREIGN for depth in depths]
    lines.append(f"Never found: not among {' or '.join(kept)}.")
    return lines


def method(document: Mapping[str, Any]) -> list[str]:
    """Returns how the numbers were made, a line a fact."""
    return [DEFINITION, *how(document["comparison"])]


def signed(value: float) -> str:
    """Returns a difference of fractions in percentage points, with its sign."""
    return "-" if math.isnan(value) else f"{100 * value:+.1f}"


def _value(cell: Mapping[str, Any]) -> tuple[str, str]:
    return percent(cell["value"]), percents(cell["interval"])


def _share(count: int, whole: int) -> str:
    return f"{count} ({100 * count / whole:.1f}%)" if whole else str(count)


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
