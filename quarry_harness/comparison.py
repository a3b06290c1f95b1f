"""A comparison of runs as text for people; printing is the command line's business."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from quarry_harness.report import (
    few_clusters,
    percent,
    percents,
    published_results,
    published_table,
    selected_words,
    table,
)


def comparison(document: Mapping[str, Any]) -> str:
    """Returns a comparison of runs: which queries, the table, how it was made."""
    parts = [_compared_what(document), _comparison_table(document), "\n".join(how(document))]
    if "first_stage" in document:
        parts.append(_first_stage(document))
    if "published" in document:
        parts.append(_beside_published(document))
    return "\n\n".join(parts)


def _compared_what(document: Mapping[str, Any]) -> str:
    runs = document["runs"]
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    lines = [f"{count} on the same {document['queries']} queries; values in percent"]
    if not document["same_queries"]:
        lines = [f"{count} on the {document['queries']} queries that all have; values in percent"]
        lines += [
            f"  {run['run_id']}: {run['queries_not_compared']} of its {run['queries']} queries are not compared"
            for run in runs
        ]
    lines += [
        f"  {run['name']}: {run['queries_compared_without_result']} of these queries have no result (they count 0)"
        for run in runs
        if run["queries_compared_without_result"]
    ]
    lines += [f"  {run['name']} is {words}" for run in runs if (words := selected_words(run))]
    lines += [f"  {line}" for line in smaller_means(document)]
    if document["queries_without_gold"]:
        lines.append(f"  {document['queries_without_gold']} more have no gold unit: left out of every mean")
    lines += [f"  {run['name']}: {run['run_id']}" for run in runs if run["name"] != run["run_id"]]
    if document["differing_settings"]:
        lines.append(f"  beside the model, the runs differ in: {', '.join(differing(document))}")
    return "\n".join(lines)


def smaller_means(document: Mapping[str, Any]) -> list[str]:
    """Returns for each measure that not every query has a value of, over how many queries its means are."""
    counts = {row["measure"]: row["queries"] for row in document["rows"]}
    return [
        f"{name} is defined for {count} of the {document['queries']} queries, and its means are over these"
        for name, count in counts.items()
        if count != document["queries"]
    ]


def differing(document: Mapping[str, Any]) -> list[str]:
    """Returns the settings in which the runs of a comparison differ beside the model, with their values if short."""
    return [_setting(name, values) for name, values in document["differing_settings"].items()]


def _setting(name: str, values: list[Any]) -> str:
    if name == "depth":
        values = [value or "its own" for value in values]
    short = all(isinstance(value, int) or (isinstance(value, str) and len(value) < 20) for value in values)
    return f"{name} ({' / '.join(map(str, values))})" if short else name


def _comparison_table(document: Mapping[str, Any]) -> str:
    names = {run["run_id"]: run["name"] for run in document["runs"]}
    level = f"{100 * document['level']:.0f}% interval"
    header = ["measure", "run", "value", level]
    paired = len(document["runs"]) > 1
    if paired:
        header += ["difference", level, "p", "p (Holm)", "win/tie/loss", "detectable"]
    digits = max(4, len(str(document["resamples"])))
    rows = []
    for row in document["rows"]:
        cells = [row["measure"], names[row["run_id"]], percent(row["value"]), percents(row["interval"])]
        if "difference" in row:
            cells += [
                _signed(row["difference"]),
                " to ".join(map(_signed, row["difference_interval"])),
                *("-" if math.isnan(row[p]) else f"{row[p]:.{digits}f}" for p in ("p", "p_corrected")),
                f"{row['wins']}/{row['ties']}/{row['losses']}",
                percent(row["detectable"]),
            ]
        elif paired:
            cells += ["baseline", *[""] * 5]
        rows.append(cells)
    return table(header, rows)


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:+.1f}"


def how(document: Mapping[str, Any]) -> list[str]:
    """Returns how a comparison was made, a line a fact: clusters, resamples, seed, test, correction."""
    lines = [
        f"interval: {document['interval']}; {document['clusters']} {document['by']}s resampled"
        f" {document['resamples']:,} times, seed {document['seed']}"
    ]
    if len(document["runs"]) > 1:
        lines += [
            f"difference: to the baseline, in percentage points, on the same {document['by']}s",
            f"p: {document['test']}; clusters are {document['by']}s, {document['resamples']:,} resamples",
            f"p (Holm): {document['correction']}",
            "win/tie/loss: queries on which the run is above, equal to, below the baseline",
            f"detectable: the smallest true difference found with probability {document['power']} at p <"
            f" {document['alpha']}, before correction",
        ]
    return lines + few_clusters(document["clusters"], document["by"], 30)


def _first_stage(document: Mapping[str, Any]) -> str:
    names = {run["run_id"]: run["name"] for run in document["runs"]}
    stage = document["first_stage"]
    columns = ("oracle", "candidate_recall", "RR")
    rows = [
        [names[row["run_id"]], *(percent(row[name]) for name in columns)]
        + ["-" if math.isnan(row["eff"]) else f"{row['eff']:.3f}", str(row["units_from_outside_the_pool"])]
        for row in stage["runs"]
    ]
    return (
        f"recall or ranking? the pool is the top {stage['runs'][0]['pool_depth']} of {stage['run_id']}\n"
        + table(["run", *columns, "eff", "units from outside"], rows)
        + "\noracle: queries with a gold unit in the pool; candidate_recall: share of a query's units in it;"
        "\neff: RR / oracle; units from outside: gold units that the run has found and the pool does not hold"
    )


def _beside_published(document: Mapping[str, Any]) -> str:
    ours = {run["name"]: run["recall"] for run in document["runs"]}
    return "\n".join(
        [
            "Beside the published results, which have no values per query: nothing can be tested against them.",
            published_table(ours),
            *(f"- {reason}" for reason in document["published"]["may_differ"]),
        ]
    )


def published_beside(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the published rows for a comparison's document, with the reasons why they may differ from its runs."""
    known = published_results()
    reasons = [
        "the published results' corpora, chunks, label resolution and prompts are not known in full",
        "some published rows come from a second-hand copy (source: model card)",
    ]
    if document["queries"] != known["queries"]:
        reasons.insert(0, f"here {document['queries']} queries, there the {known['queries']} of release 1.0")
    for run in document["runs"]:
        for field, words in (
            ("unresolved_units", "unresolved gold units"),
            ("revisions_missing", "missing revisions"),
            ("queries_without_result", "queries without a result"),
        ):
            if run[field]:
                reasons.append(f"{run['name']}: {words}: {run[field]}")
        if run["image"] != "preimage":
            reasons.append(f"{run['name']}: measured on the {run['image']}")
    return {"tested": False, "may_differ": reasons, "metric": known["metric"], "result": known["result"]}
