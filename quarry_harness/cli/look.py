"""The commands that look and change nothing: verify, status, chunks, models, compare."""

from __future__ import annotations

import json
from pathlib import Path

import click

from quarry_harness.cli.options import (
    OK,
    UNREADABLE,
    WRONG_DATA,
    json_option,
    print_result,
    profile_option,
    workspace_option,
)
from quarry_harness.types import RESAMPLES, SEED


@click.command()
@click.option("--release", "ref", metavar="REF", help="A folder, hf://owner/name[@revision], or demo.")
@workspace_option
@json_option
def verify(workspace: Path, as_json: bool, ref: str | None) -> int:
    """Check a release and the workspace against what is recorded of them.

    The release's files are compared with the checksums and row counts known of release 1.0 and with the release's own
    RELEASE_MANIFEST.json; the workspace's database, repositories and runs with what the workspace recorded. What
    cannot be checked is said, never passed over.
    """
    from quarry_harness import report
    from quarry_harness.stages.check import verify as verify_stage

    checks = verify_stage(workspace, ref)
    wrong = any(check.ok is False for check in checks)
    rows = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks]
    print_result({"ok": not wrong, "checks": rows}, as_json, lambda: report.checks(checks))
    return WRONG_DATA if wrong else OK


@click.command()
@workspace_option
@json_option
def status(workspace: Path, as_json: bool) -> int:
    """Show what the workspace holds, stage by stage, and what is missing."""
    from quarry_harness import report
    from quarry_harness.stages.check import status as status_stage

    document = status_stage(workspace)
    print_result(document, as_json, lambda: report.state(document))
    return OK


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@profile_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list at the end instead of JSON lines.")
def chunks(paths: tuple[Path, ...], profile: str, as_json: bool) -> int:
    """Print the chunks of files or folders as JSON lines, without a workspace.

    A folder's paths are relative to it. Sources that are skipped, and why, are named on standard error.
    """
    from quarry_harness.stages.look import looking

    code = OK
    rows = []
    with looking(profile) as chunks_of:
        for path in paths:
            try:
                for row in chunks_of(path):
                    if "skipped" in row:
                        click.echo(f"{row['path']}: skipped: {row['skipped']}", err=True)
                    elif as_json:
                        rows.append(row)
                    else:
                        click.echo(json.dumps(row, ensure_ascii=False))
            except OSError as error:
                # Standard output's own trouble names no file.
                if error.filename is None:
                    raise
                click.echo(f"{path}: {error.strerror}", err=True)
                code = UNREADABLE
    if as_json:
        print_result(rows, as_json, str)
    return code


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def models(names: tuple[str, ...], as_json: bool) -> int:
    """Show the models that --model knows, or all that is known of some.

    A NAME may also be your own model: a TOML file, a folder, OWNER/NAME of the hub, a file of vectors. Nothing is
    loaded or downloaded to tell whether a model is ready.
    """
    from quarry_harness import report
    from quarry_harness.stages.models import models as models_stage

    rows = models_stage(names)
    print_result(rows, as_json, lambda: report.model_details(rows) if names else report.model_table(rows))
    return OK


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN...]")
@click.option("--baseline", metavar="RUN", help="The run the others are compared with.  [default: the first]")
@click.option(
    "--measure", "measures", multiple=True, metavar="NAME",
    help="A measure and its cutoff, for example recall@5, nDCG@10, RR; can be given several times."
    "  [default: recall and all_gold at 5, 10, 20, 50]",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["task", "repo"]), default="task", show_default=True,
    help="What is resampled whole, since its queries depend on each other.",
)  # fmt: skip
@click.option(
    "--resamples", type=click.IntRange(100, 100_000), default=RESAMPLES, show_default=True,
    help="How often everything is resampled.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=SEED, show_default=True, help="Where chance starts.")
@click.option(
    "--first-stage", metavar="RUN", help="The run whose results the runs have re-ranked: is it recall or ranking?"
)
@click.option(
    "--pool", type=click.IntRange(min=1), metavar="N", help="The top N of the first stage.  [default: its depth]"
)
@click.option("--published", is_flag=True, help="Show the published results beside, which cannot be tested against.")
@workspace_option
@json_option
def compare(
    workspace: Path, as_json: bool, runs: tuple[str, ...], baseline: str | None, measures: tuple[str, ...], by: str,
    resamples: int, seed: int, first_stage: str | None, pool: int | None, published: bool,
) -> int:  # fmt: skip
    """Compare runs on the queries they share.

    RUN is a run id of the workspace or the path of a run folder; one alone is shown with its intervals. Each mean and
    each paired difference has a 95% bootstrap interval, each difference a permutation test with Holm's correction over
    the whole table. Queries that not every run has are left out and counted; runs that disagree about the text or gold
    of a query are refused (exit code 3).
    """
    from quarry_harness.comparison import comparison, published_beside
    from quarry_harness.stages.compare import Plan
    from quarry_harness.stages.compare import compare as compare_stage

    plan = Plan(tuple(dict.fromkeys(measures)), by, resamples, seed)
    document = compare_stage(workspace, runs, baseline, plan, first_stage, pool)
    if published:
        document["published"] = published_beside(document)
    print_result(document, as_json, lambda: comparison(document))
    return OK
