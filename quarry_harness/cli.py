"""The command line: the only room that prints results or ends the process.

Results go to standard output (with --json as one document), everything else to standard error. Heavy packages are
imported inside the commands, so that `quarry --help` answers at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from quarry_harness import __version__
from quarry_harness.errors import QuarryError
from quarry_harness.types import IMAGES

OK = 0
WRONG_DATA = 1
UNREADABLE = 3
BUG = 70

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_CODES = """\b
Exit codes:
  0   done
  1   finished, and something is wrong with the data: checksum, missing revision, unresolved gold
  2   usage
  3   unreadable or invalid input
  4   environment: git, network, model, key, locked database, disk
  70  a fault of this program, with its traceback
"""


def _workspace_option(command: Command) -> Command:
    return click.option(
        "--workspace",
        "-w",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="QUARRY_WORKSPACE",
        default=Path("quarry-workspace"),
        show_default="./quarry-workspace",
        show_envvar=True,
        help="Folder for repositories, database and runs.",
    )(command)


def _json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def _output_options(command: Command) -> Command:
    quiet = click.option("--quiet", "-q", is_flag=True, help="No progress and no notes on standard error.")
    return _json_option(quiet(command))


def _image_option(command: Command) -> Command:
    return click.option(
        "--image",
        type=click.Choice(IMAGES),
        default="preimage",
        show_default=True,
        help="Search the code before the task's change, or after it.",
    )(command)


def _profile_option(command: Command) -> Command:
    return click.option(
        "--profile",
        type=click.Choice(["quarry", "all"]),
        default="quarry",
        show_default=True,
        help="Which kinds of chunks are in the corpus: the benchmark's, or every kind that is extracted.",
    )(command)


def _jobs_option(what: str) -> Callable[[Command], Command]:
    return click.option(
        "--jobs",
        "-j",
        type=click.IntRange(min=1, max=256),
        default=lambda: min(8, os.cpu_count() or 1),
        show_default="number of cores, at most 8",
        help=what,
    )


def _release_options(command: Command) -> Command:
    for option in reversed(
        [
            click.option(
                "--release",
                "ref",
                metavar="REF",
                help="A folder, hf://owner/name[@revision], or demo. Without it: the workspace's release.",
            ),
            click.option(
                "--mirror",
                metavar="TEMPLATE",
                help="Where repositories come from, with {owner} and {name}, for example"
                " file:///srv/mirror/{owner}/{name}.git. Without it: https from GitHub.",
            ),
            click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="Only tasks of this repository."),
            click.option("--language", "languages", multiple=True, metavar="L", help="Only tasks of this language."),
            click.option("--task", "tasks", multiple=True, metavar="ID", help="Only this task."),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N of these tasks."),
        ]
    ):
        command = option(command)
    return command


def _model_options(command: Command) -> Command:
    command = click.option(
        "--depth",
        type=click.IntRange(min=50),
        default=100,
        show_default=True,
        help="Results kept for each query; recall@50 needs 50.",
    )(command)
    return click.option("--model", default="bm25", show_default=True, metavar="NAME", help="The retriever.")(command)


class _InOrder(click.Group):
    """Lists the commands in the order of the work, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="quarry")
def cli() -> None:
    """Run the Quarry code-retrieval benchmark.

    A release holds queries and labels, no code. The stages fetch the pinned revisions, cut them into function chunks,
    resolve the labels to chunks, and measure a model's rankings. Try it without any download:

        quarry run --release demo
    """


@cli.command()
@_release_options
@_image_option
@_model_options
@_profile_option
@_jobs_option("Repositories fetched and processes parsing side by side.")
@_workspace_option
@_output_options
def run(
    workspace: Path, as_json: bool, quiet: bool, ref: str | None, mirror: str | None, image: str, model: str,
    profile: str, depth: int, jobs: int, **filters: Any,
) -> int:  # fmt: skip
    """Do all stages: fetch, chunk, canonicalize, eval.

    Each stage does only what is not done yet, so the same command continues after an interruption.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.pipeline import run as run_all

    texts = {
        "fetch": report.fetched,
        "chunk": report.chunked,
        "canonicalize": report.canonicalized,
        "eval": report.evaluated,
    }
    with Console(quiet=quiet) as console:
        documents = run_all(
            workspace, ref, _selection(filters), image, mirror, jobs, model, profile, depth, console.progress,
            lambda stage, document: console.say(texts[stage](document)),
        )  # fmt: skip
    _print(documents, as_json, lambda: report.evaluation(documents["eval"]))
    return WRONG_DATA if documents["fetch"]["missing"] or documents["canonicalize"]["unresolved"] else OK


@cli.command()
@_release_options
@_image_option
@click.option("--dry-run", is_flag=True, help="Count what would be fetched; change nothing.")
@_jobs_option("Repositories fetched side by side.")
@_workspace_option
@_output_options
def fetch(
    workspace: Path, as_json: bool, quiet: bool, ref: str | None, mirror: str | None, image: str, dry_run: bool,
    jobs: int, **filters: Any,
) -> int:  # fmt: skip
    """Import a release and fetch the revisions it pins.

    The filters choose the tasks that the workspace works on from now on; without any, all of them.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.fetch import fetch as fetch_stage
    from quarry_harness.stages.pipeline import refuse_incomplete

    with Console(quiet=quiet) as console:
        document = fetch_stage(
            workspace, ref, _selection(filters), image, mirror, jobs, console.progress, dry_run=dry_run
        )
    _print(document, as_json, lambda: report.fetched(document))
    if dry_run:
        return OK
    refuse_incomplete(document)
    return WRONG_DATA if document["missing"] else OK


@cli.command()
@_image_option
@_jobs_option("Processes that parse side by side.")
@_workspace_option
@_output_options
def chunk(workspace: Path, as_json: bool, quiet: bool, image: str, jobs: int) -> int:
    """Cut the fetched revisions into function chunks.

    A file that occurs in many revisions is parsed once.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.chunk import chunk as chunk_stage

    with Console(quiet=quiet) as console:
        document = chunk_stage(workspace, image, jobs, console.progress)
    _print(document, as_json, lambda: report.chunked(document))
    return WRONG_DATA if document["missing"] else OK


@cli.command()
@_image_option
@_profile_option
@_workspace_option
@_output_options
def canonicalize(workspace: Path, as_json: bool, quiet: bool, image: str, profile: str) -> int:
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
        document = canonicalize_stage(workspace, image, profile, console.progress)
    _print(document, as_json, lambda: report.canonicalized(document))
    check_lines(workspace, image, profile)
    return WRONG_DATA if document["unresolved"] else OK


@cli.command("eval")
@_model_options
@_image_option
@_profile_option
@_workspace_option
@_output_options
def evaluate(workspace: Path, as_json: bool, quiet: bool, image: str, model: str, profile: str, depth: int) -> int:
    """Rank every query's corpus with a model and measure recall.

    The run is kept in the workspace under runs/: the ranking as a TREC run, one row a query as Parquet, and
    result.json with everything needed to repeat it.
    """
    from quarry_harness import report
    from quarry_harness.console import Console
    from quarry_harness.stages.evaluate import evaluate as evaluate_stage

    with Console(quiet=quiet) as console:
        document = evaluate_stage(workspace, model, image, profile, depth, console.progress)
        console.say(report.evaluated(document))
    _print(document, as_json, lambda: report.evaluation(document))
    return WRONG_DATA if document["unresolved_units"] else OK


@cli.command()
@click.option("--release", "ref", metavar="REF", help="A folder, hf://owner/name[@revision], or demo.")
@_workspace_option
@_json_option
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
    _print({"ok": not wrong, "checks": rows}, as_json, lambda: report.checks(checks))
    return WRONG_DATA if wrong else OK


@cli.command()
@_workspace_option
@_json_option
def status(workspace: Path, as_json: bool) -> int:
    """Show what the workspace holds, stage by stage, and what is missing."""
    from quarry_harness import report
    from quarry_harness.stages.check import status as status_stage

    document = status_stage(workspace)
    _print(document, as_json, lambda: report.state(document))
    return OK


@cli.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@_profile_option
def chunks(paths: tuple[Path, ...], profile: str) -> int:
    """Print the chunks of files or folders as JSON lines, without a workspace.

    A folder's paths are relative to it. Files that have no chunks to give, and why, are named on standard error.
    """
    from quarry_harness.stages.look import chunks_of

    code = OK
    for path in paths:
        try:
            for row in chunks_of(path, profile):
                if "skipped" in row:
                    click.echo(f"{row['path']}: skipped: {row['skipped']}", err=True)
                else:
                    click.echo(json.dumps(row, ensure_ascii=False))
        except BrokenPipeError:
            raise
        except OSError as error:
            click.echo(f"{path}: {error.strerror}", err=True)
            code = UNREADABLE
    return code


def _selection(filters: dict[str, Any]) -> Any:
    from quarry_harness.stages.fetch import Selection

    return Selection(**filters)


def _print(document: Any, as_json: bool, text: Callable[[], str]) -> None:
    if as_json:
        from quarry_harness.runs import json_text

        click.echo(json_text(document), nl=False)
    else:
        click.echo(text())


def main() -> NoReturn:
    """Runs the command line and ends the process with the error's exit code; a fault of ours shows its traceback."""
    try:
        code = cli.main(standalone_mode=False)
        # Flushed here, so that a closed pipe is met inside this try.
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else OK)
    except QuarryError as error:
        click.echo(f"error: {error.message}", err=True)
        if error.hint:
            click.echo(f"       {error.hint}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was finished is kept, the same command goes on", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader has had enough (`quarry ... | head`); python would complain once more while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    except Exception:  # noqa: BLE001 the last resort of the process
        import traceback

        click.echo(traceback.format_exc(), err=True, nl=False)
        click.echo(
            f"error: this is a fault of quarry-harness {__version__}; please report it with the lines above.", err=True
        )
        sys.exit(BUG)
