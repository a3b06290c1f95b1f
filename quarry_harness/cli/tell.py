"""The commands that turn runs into something to read: report, show."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from quarry_harness.cli.options import OK, json_option, print_result, workspace_option
from quarry_harness.errors import EnvironmentProblem
from quarry_harness.types import IMAGES

FORMATS = ("md", "html", "json", "latex", "mteb")


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="md", show_default=True,
    help="Markdown for a README; one HTML page that works offline; JSON; a LaTeX table; MTEB-style JSON of one run.",
)  # fmt: skip
@click.option("--baseline", metavar="RUN", help="The run the others are compared with.  [default: the first]")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write to a file.  [default: standard output]",
)  # fmt: skip
@click.option(
    "--image", type=click.Choice(IMAGES), default="preimage", show_default=True,
    help="Without a RUN: which of the workspace's runs, those before the tasks' changes or after them.",
)  # fmt: skip
@workspace_option
def report(
    workspace: Path, runs: tuple[str, ...], form: str, baseline: str | None, output: Path | None, image: str
) -> int:
    """Report runs side by side, on the queries that all of them have.

    RUN is a run id of the workspace or the path of a run folder; without one, all runs of the workspace on one image.
    The HTML page shows every query with its gold units and the best results, with their source from the workspace.
    """
    text = _report(workspace, runs, form, baseline, image)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
        click.echo(f"report: {output} ({len(text.encode('utf-8')) / 1e6:.1f} MB)", err=True)
    return OK


def _write(output: Path, text: str) -> None:
    """Writes the whole file or leaves what was there; what is no file of its own (/dev/stdout) is written to."""
    part = output.with_name(f".{output.name}.part")
    try:
        if output.exists() and not output.is_file():
            output.write_text(text, "utf-8", newline="\n")
            return
        part.write_text(text, "utf-8", newline="\n")
        part.replace(output)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise EnvironmentProblem(
            f"{output}: cannot be written: {error.strerror or error}.", "Name a file in a folder that you may write to."
        ) from error


def _report(workspace: Path, names: tuple[str, ...], form: str, baseline: str | None, image: str) -> str:
    from quarry_harness.report import HEADLINE
    from quarry_harness.reports import markdown, mteb, page, tables
    from quarry_harness.runs import json_text
    from quarry_harness.stages.browse import browse
    from quarry_harness.stages.survey import open_runs, survey

    runs = open_runs(workspace, names, baseline, image)
    if form == "mteb":
        return json_text(mteb.mteb([run.result for run in runs]))
    document = survey(runs)
    if form == "html":
        return page.html(document, browse(workspace, runs))
    if form == "json":
        return json_text({"title": HEADLINE, "warnings": tables.warnings(document), **document})
    return markdown.latex(document) if form == "latex" else markdown.markdown(document)


@click.command()
@click.argument("query", metavar="QUERY_ID")
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Only this run; can be given several times.")
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True, help="Results of each run.")
@click.option(
    "--lines", type=click.IntRange(min=0), default=5, show_default=True, help="Lines of each result's source."
)
@workspace_option
@json_option
def show(workspace: Path, as_json: bool, query: str, runs: tuple[str, ...], top: int, lines: int) -> int:
    """Show one query: its gold units with their rank in each run, and the best results with their source.

    QUERY_ID may be cut short as long as one query alone is meant, also within its commit: 1a2b3c4d-2::q1. A * stands
    before a result that is gold.
    """
    from quarry_harness.reports.terminal import shown
    from quarry_harness.stages.show import show as show_stage

    document = show_stage(workspace, query, runs, top, lines)
    print_result(document, as_json, lambda: shown(document))
    return OK
