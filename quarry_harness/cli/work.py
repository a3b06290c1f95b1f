"""The commands that do the work, one a stage, and `run` for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from quarry_harness.cli.options import (
    OK,
    WRONG_DATA,
    accept_missing_option,
    choice,
    image_option,
    jobs_option,
    model_options,
    output_options,
    print_result,
    profile_option,
    release_options,
    source,
    transformer_options,
    workspace_option,
)


@click.command()
@release_options
@image_option
@model_options
@profile_option
@accept_missing_option
@jobs_option("Repositories fetched and processes parsing side by side.")
@workspace_option
@output_options
def run(
    workspace: Path, as_json: bool, quiet: bool, ref: str | None, image: str, profile: str, depth: int, jobs: int,
    accept_missing: bool, **options: Any,
) -> int:  # fmt: skip
    """Do all stages: fetch, chunk, canonicalize, eval.

    Each stage does only what is not done yet, so the same command continues after an interruption.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.canonicalize import check_lines
    from quarry_harness.stages.pipeline import run as run_all

    texts = {
        "fetch": report.fetched,
        "chunk": report.chunked,
        "canonicalize": report.canonicalized,
        "eval": report.evaluated,
    }
    with Console(quiet=quiet) as console:
        came_from, model = source(options), choice(options)
        documents = run_all(
            workspace, ref, _selection(options), image, came_from, jobs, model, profile, depth, console.progress,
            lambda stage, document: console.say(texts[stage](document)), accept_missing=accept_missing,
        )  # fmt: skip
    print_result(documents, as_json, lambda: report.evaluation(documents["eval"]))
    check_lines(workspace, image, profile)
    return WRONG_DATA if documents["fetch"]["missing"] or documents["canonicalize"]["unresolved"] else OK


@click.command()
@release_options
@image_option
@click.option("--dry-run", is_flag=True, help="Count what would be fetched, and its size where one is known.")
@click.option("--retry-missing", is_flag=True, help="Ask again for what the host has said it does not have.")
@jobs_option("Repositories fetched side by side.")
@workspace_option
@output_options
def fetch(
    workspace: Path, as_json: bool, quiet: bool, ref: str | None, image: str, dry_run: bool, retry_missing: bool,
    jobs: int, **options: Any,
) -> int:  # fmt: skip
    """Import a release and fetch the revisions it pins.

    The filters choose the tasks that the workspace works on from now on; without any, all of them. What is there
    already is not fetched again, and what the same place has said it does not have is not asked for again.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.fetch import fetch as fetch_stage
    from quarry_harness.stages.pipeline import refuse_incomplete

    with Console(quiet=quiet) as console:
        came_from = source(options, retry_missing=retry_missing)
        document = fetch_stage(
            workspace, ref, _selection(options), image, came_from, jobs, console.progress, dry_run=dry_run
        )
    print_result(document, as_json, lambda: report.fetched(document))
    if dry_run:
        return OK
    refuse_incomplete(document)
    return WRONG_DATA if document["missing"] else OK


@click.command()
@image_option
@jobs_option("Processes that parse side by side.")
@workspace_option
@output_options
def chunk(workspace: Path, as_json: bool, quiet: bool, image: str, jobs: int) -> int:
    """Cut the fetched revisions into function chunks.

    A file that occurs in many revisions is parsed once.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.chunk import chunk as chunk_stage

    with Console(quiet=quiet) as console:
        document = chunk_stage(workspace, image, jobs, console.progress)
    print_result(document, as_json, lambda: report.chunked(document))
    return WRONG_DATA if document["missing"] else OK


@click.command()
@image_option
@profile_option
@accept_missing_option
@workspace_option
@output_options
def canonicalize(
    workspace: Path, as_json: bool, quiet: bool, image: str, profile: str, accept_missing: bool
) -> int:  # fmt: skip
    """Resolve the gold units to chunks, or say why not.

    \b
    Tiers, tried in order:
      exact    path, name and lines agree
      overlap  path and name agree; the largest overlap of lines
      lines    path and lines agree, the name differs
      fqmn     type and name at the end of the qualified name agree
    Equal candidates resolve to none.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.canonicalize import canonicalize as canonicalize_stage
    from quarry_harness.stages.canonicalize import check_lines

    with Console(quiet=quiet) as console:
        document = canonicalize_stage(workspace, image, profile, console.progress, accept_missing=accept_missing)
    print_result(document, as_json, lambda: report.canonicalized(document))
    check_lines(workspace, image, profile)
    return WRONG_DATA if document["unresolved"] else OK


@click.command("eval")
@model_options
@click.option("--dry-run", is_flag=True, help="Count what would be embedded, and its cost where a price is known.")
@click.option(
    "--texts",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --dry-run: write the exact texts to a Parquet file, for vectors made elsewhere.",
)
@image_option
@profile_option
@accept_missing_option
@workspace_option
@output_options
def evaluate(
    workspace: Path, as_json: bool, quiet: bool, image: str, profile: str, depth: int, dry_run: bool,
    texts: Path | None, accept_missing: bool, **options: Any,
) -> int:  # fmt: skip
    """Rank every query's corpus with a model and measure recall.

    The run is kept in the workspace under runs/: the ranking as a TREC run, one row a query as Parquet, and
    result.json with everything needed to repeat it. Vectors are kept under embeddings/: no text is embedded twice.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.evaluate import dry_run as dry_run_stage
    from quarry_harness.stages.evaluate import evaluate as evaluate_stage

    if texts is not None and not dry_run:
        raise click.UsageError("--texts needs --dry-run: it writes texts and ranks nothing.")
    with Console(quiet=quiet) as console:
        if dry_run:
            plan = dry_run_stage(
                workspace, choice(options), image, profile, console.progress, accept_missing=accept_missing, texts=texts
            )
            print_result(plan, as_json, lambda: report.to_embed(plan))
            return OK
        document = evaluate_stage(
            workspace, choice(options), image, profile, depth, console.progress, accept_missing=accept_missing
        )
        console.say(report.evaluated(document))
    print_result(document, as_json, lambda: report.evaluation(document))
    return WRONG_DATA if document["unresolved_units"] else OK


@click.command()
@click.option(
    "--run",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A TREC run: query-id Q0 document-id rank score tag.",
)
@click.option("--name", metavar="NAME", help="What the system is called. Without it: the run's tag.")
@image_option
@profile_option
@accept_missing_option
@workspace_option
@output_options
def score(
    workspace: Path, as_json: bool, quiet: bool, file: Path, name: str | None, image: str, profile: str,
    accept_missing: bool,
) -> int:  # fmt: skip
    """Measure the ranking of another system.

    Query ids are the release's, document ids are path:name:start-end as in a run.trec of ours. An unknown id is an
    error: nothing is scored. Equal scores are ranked in corpus order, as everywhere; the rank column is not read. The
    result is kept in the workspace under runs/, like one of eval.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.score import score as score_stage

    with Console(quiet=quiet) as console:
        document = score_stage(workspace, file, name, image, profile, console.progress, accept_missing=accept_missing)
        console.say(report.evaluated(document))
    print_result(document, as_json, lambda: report.evaluation(document))
    return WRONG_DATA if document["unresolved_units"] else OK


@click.command()
@click.option(
    "--run", "first", required=True, metavar="RUN", help="The run to re-rank: an id of the workspace, or a run folder."
)
@click.option(
    "--model",
    required=True,
    metavar="NAME",
    help="A cross-encoder: a folder, OWNER/NAME of the hub, or a TOML file with the kind cross-encoder.",
)
@click.option(
    "--top", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Results of each query."
)
@transformer_options
@accept_missing_option
@workspace_option
@output_options
def rerank(
    workspace: Path, as_json: bool, quiet: bool, first: str, model: str, top: int, accept_missing: bool, **options: Any
) -> int:  # fmt: skip
    """Re-rank the best of a run with a cross-encoder.

    The top N of each query are ordered by the cross-encoder's score, equal scores in corpus order; the rest of the
    ranking follows as it was. Needs the extra [models]. The result is kept in the workspace under runs/, like one of
    eval; scores are kept under embeddings/: no pair of a query and a document is scored twice.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.models import cross_encoder_of
    from quarry_harness.stages.rerank import rerank as rerank_stage

    with Console(quiet=quiet) as console:
        reranker = cross_encoder_of(model, options)
        document = rerank_stage(workspace, first, reranker, top, console.progress, accept_missing=accept_missing)
        console.say(report.evaluated(document))
    print_result(document, as_json, lambda: report.evaluation(document))
    return WRONG_DATA if document["unresolved_units"] else OK


@click.command()
@click.argument("what", metavar="REPO@REVISION")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@workspace_option
@output_options
def checkout(workspace: Path, as_json: bool, quiet: bool, what: str, directory: Path) -> int:
    """Write a fetched revision's files into DIR, for other tools.

    REPO is owner/name, REVISION a pinned revision or its first characters, DIR a new or an empty folder. The files
    are the bytes of the blobs: no filters, no attributes. Links and submodules are not made but told of; what the
    fetch left out is told of too, and ends with exit code 1. DIR appears when it is whole: after a kill, DIR.part-*
    is what was begun.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.checkout import HARMLESS
    from quarry_harness.stages.checkout import checkout as checkout_stage

    with Console(quiet=quiet) as console:
        document = checkout_stage(workspace, what, directory, console.progress)
    print_result(document, as_json, lambda: report.checked_out(document))
    return WRONG_DATA if any(row["reason"] not in HARMLESS for row in document["not_written"]) else OK


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would be freed; free nothing.")
@workspace_option
@output_options
def gc(workspace: Path, as_json: bool, quiet: bool, dry_run: bool) -> int:
    """Free what the workspace's release no longer needs.

    Repositories, pinned revisions and chunks that no task of the release needs, at either image; what killed
    processes left; the demo's own mirror. It says what it will free, and frees it. Runs are never touched.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.collect import collect

    with Console(quiet=quiet) as console:
        document = collect(workspace, lambda plan: console.say(report.to_free(plan)), dry_run=dry_run)
    print_result(document, as_json, lambda: report.freed(document))
    return OK


def _selection(filters: dict[str, Any]) -> Any:
    from quarry_harness.stages.fetch import Selection

    return Selection(**filters)
