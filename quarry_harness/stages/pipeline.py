"""All stages in a row, each of which does only what is not done yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quarry_harness import models
from quarry_harness.errors import EnvironmentProblem
from quarry_harness.stages.canonicalize import canonicalize, check_lines
from quarry_harness.stages.chunk import chunk
from quarry_harness.stages.evaluate import evaluate
from quarry_harness.stages.fetch import Selection, fetch
from quarry_harness.stages.repositories import Source
from quarry_harness.stages.workspace import RETRYABLE
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
) -> dict[str, dict[str, Any]]:
    """Returns {stage: its document}; `done` hears of each stage as it ends.

    A revision that does not exist is an account to give at the end. One that could not be had now stops the run before
    anything is measured (EnvironmentProblem): a number over half the corpora would look like a result.
    """
    models.models_of(choice)
    documents: dict[str, dict[str, Any]] = {}

    def keep(stage: str, document: dict[str, Any]) -> None:
        documents[stage] = document
        done(stage, document)

    keep("fetch", fetch(workspace, ref, selection, image, source, jobs, progress))
    refuse_incomplete(documents["fetch"])
    keep("chunk", chunk(workspace, image, jobs, progress))
    keep("canonicalize", canonicalize(workspace, image, profile, progress))
    check_lines(workspace, image, profile)
    keep("eval", evaluate(workspace, choice, image, profile, depth, progress))
    return documents


def refuse_incomplete(fetched: dict[str, Any]) -> None:
    """Raises EnvironmentProblem where a fetch left revisions that another try may bring, or brought none at all."""
    if fetched["missing"] and len(fetched["missing"]) == fetched["revisions"]:
        first = fetched["missing"][0]
        raise EnvironmentProblem(
            f"None of the {fetched['revisions']} revisions could be had;"
            f" the first: {first['repo']}@{first['revision']}: {first['reason']}.",
            "Check the network and --mirror, and run it again.",
        )
    again = [row for row in fetched["missing"] if row["status"] in RETRYABLE]
    if again:
        first = again[0]
        raise EnvironmentProblem(
            f"{first['repo']}@{first['revision']}: {first['reason']}"
            f" ({len(again)} of {fetched['revisions']} revisions could not be had now).",
            "What was fetched is kept; run the same command again.",
        )
