"""All stages in a row, each of which does only what is not done yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quarry_harness import models
from quarry_harness.errors import EnvironmentProblem
from quarry_harness.stages.canonicalize import canonicalize
from quarry_harness.stages.chunk import chunk
from quarry_harness.stages.evaluate import evaluate
from quarry_harness.stages.fetch import Selection, fetch
from quarry_harness.stages.repositories import Source
from quarry_harness.stages.workspace import IN_THE_WAY
from quarry_harness.types import Progress


def run(
    workspace: Path,
    ref: str | None,
    selection: Selection,
    image: str,
    source: Source,
    jobs: int,
    choice: models.Choice,
    profile: str,
    depth: int,
    progress: Progress,
    done: Callable[[str, dict[str, Any]], None],
    *,
    accept_missing: bool = False,
) -> dict[str, dict[str, Any]]:
    """Returns {stage: its document}; `done` hears of each stage as it ends.

    A revision that does not exist is an account to give at the end. One that could not be had for what lies IN_THE_WAY
    stops the run before anything is measured (EnvironmentProblem), unless what is missing is accepted.
    """
    models.models_of(choice)
    documents: dict[str, dict[str, Any]] = {}

    def keep(stage: str, document: dict[str, Any]) -> None:
        documents[stage] = document
        done(stage, document)

    keep("fetch", fetch(workspace, ref, selection, image, source, jobs, progress))
    refuse_incomplete(documents["fetch"], accept_missing=accept_missing)
    keep("chunk", chunk(workspace, image, jobs, progress))
    keep("canonicalize", canonicalize(workspace, image, profile, progress, accept_missing=accept_missing))
    document = evaluate(workspace, choice, image, profile, depth, progress, accept_missing=accept_missing)
    keep("eval", document)
    return documents


def refuse_incomplete(fetched: dict[str, Any], *, accept_missing: bool = False) -> None:
    """Raises EnvironmentProblem where a fetch brought none at all, or could not bring some for what lies IN_THE_WAY.

    accept_missing: only where it brought none.
    """
    if fetched["missing"] and len(fetched["missing"]) == fetched["revisions"]:
        first = fetched["missing"][0]
        raise EnvironmentProblem(
            f"None of the {fetched['revisions']} revisions could be had;"
            f" the first: {first['repo']}@{first['revision']}: {first['reason']}.",
            "Check the network and --mirror, and run it again.",
        )
    again = [row for row in fetched["missing"] if row["status"] in IN_THE_WAY]
    if again and not accept_missing:
        first = again[0]
        raise EnvironmentProblem(
            f"{first['repo']}@{first['revision']}: {first['reason']}"
            f" ({len(again)} of {fetched['revisions']} revisions could not be had now).",
            "What was fetched is kept; run the same command again (or go on without them: --accept-missing).",
        )
