"""A run's numbers in the shape of an MTEB results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarry_harness.errors import UsageError
from quarry_harness.types import LANGUAGES

# MTEB's names of the measures that both have; ours keep their own names beside.
_NAMES = {"nDCG": "ndcg", "AP": "map", "RR": "mrr", "hit": "hit_rate", "nDCG_binary": "ndcg_binary"}
MAIN = "recall@5"


def mteb(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the document of one task and one run, from its result.json alone in a list.

    One split `test` with one subset `default`; main_score is recall@5, since the headline names no single cutoff.
    mteb_version and evaluation_time are null: MTEB did not run it, and a time would differ from run to run. Raises
    UsageError where there are several runs, and where the run has no measures.
    """
    if len(results) != 1:
        names = ", ".join(str(result.get("run_id")) for result in results)
        raise UsageError(f"An MTEB results file is of one run; here are {len(results)}: {names}.", "Name one of them.")
    result = results[0]
    measures = result.get("measures")
    if not measures or measures.get(MAIN) is None:
        raise UsageError(f"The run {result.get('run_id')} has no {MAIN}.", "Run quarry eval again.")
    languages = sorted(result.get("rollup", {}).get("by_language", {}))
    scores = {_name(name): value for name, value in sorted(measures.items())}
    intervals = result.get("intervals") or {}
    return {
        "dataset_revision": str(result.get("release")),
        "task_name": "Quarry" + ("" if result.get("image") == "preimage" else "Postimage"),
        "mteb_version": None,
        "scores": {
            "test": [
                {
                    "hf_subset": "default",
                    "languages": ["eng-Latn", *(f"{LANGUAGES.get(name, name).lower()}-Code" for name in languages)],
                    "main_score": measures[MAIN],
                    **scores,
                    "confidence_intervals": {
                        _name(name): ends for name, ends in sorted(intervals.get("measures", {}).items())
                    },
                    **{
                        name: result.get(name)
                        for name in ("queries", "queries_without_result", "queries_without_gold", "tasks")
                        + ("release_tasks", "units", "unresolved_units", "revisions_missing")
                    },
                }
            ]
        },
        "evaluation_time": None,
        "kg_co2_emissions": None,
        "run_id": result.get("run_id"),
        "model_name": result.get("model"),
        "main_score_name": _name(MAIN),
    }


def _name(measure: str) -> str:
    family, at, cutoff = measure.partition("@")
    return f"{_NAMES.get(family, family)}{'_at_' if at else ''}{cutoff}"
