"""What several commands share: their options, their exit codes, and how a result is printed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from quarry_harness.types import IMAGES

OK = 0
WRONG_DATA = 1
UNREADABLE = 3

Command = TypeVar("Command", bound=Callable[..., Any])


class _Folder(click.Path):
    """A folder's path. An empty one is a shell variable that is not set, and never the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The name is empty.", param, ctx)
        return super().convert(value, param, ctx)


def workspace_option(command: Command) -> Command:
    """Adds --workspace: passes `workspace`, a Path."""
    return click.option(
        "--workspace",
        "-w",
        type=_Folder(file_okay=False, path_type=Path),
        envvar="QUARRY_WORKSPACE",
        default=Path("quarry-workspace"),
        show_default="./quarry-workspace",
        show_envvar=True,
        help="Folder for repositories, database and runs.",
    )(command)


def json_option(command: Command) -> Command:
    """Adds --json: passes `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")(command)


def output_options(command: Command) -> Command:
    """Adds --quiet and --json: passes `quiet` and `as_json`."""
    quiet = click.option("--quiet", "-q", is_flag=True, help="No progress and no notes on standard error.")
    return json_option(quiet(command))


def image_option(command: Command) -> Command:
    """Adds --image: passes `image`, one of types.IMAGES."""
    return click.option(
        "--image",
        type=click.Choice(IMAGES),
        default="preimage",
        show_default=True,
        help="Search the code before the task's change, or after it.",
    )(command)


def profile_option(command: Command) -> Command:
    """Adds --profile: passes `profile`, a key of languages.PROFILES."""
    return click.option(
        "--profile",
        type=click.Choice(["quarry", "all"]),
        default="quarry",
        show_default=True,
        help="Which kinds of chunks are in the corpus: the benchmark's, or every kind that is extracted.",
    )(command)


def accept_missing_option(command: Command) -> Command:
    """Adds --accept-missing: passes `accept_missing`."""
    return click.option(
        "--accept-missing",
        is_flag=True,
        help="Go on without revisions that could not be had now; their gold counts as not found.",
    )(command)


def jobs_option(what: str) -> Callable[[Command], Command]:
    """Adds --jobs: passes `jobs`; `what` says what runs side by side."""
    return click.option(
        "--jobs",
        "-j",
        type=click.IntRange(min=1, max=256),
        default=lambda: min(8, os.cpu_count() or 1),
        show_default="number of cores, at most 8",
        help=what,
    )


def release_options(command: Command) -> Command:
    """Adds --release, where repositories come from, and the filters.

    Passes `ref`; `mirror`, `token_env`, `credential_helper`, which `source` takes; `repos`, `languages`, `tasks`,
    `limit`, which `selection` takes.
    """
    for option in reversed(
        [
            click.option(
                "--release",
                "ref",
                metavar="REF",
                help="A folder, hf://owner/name[@revision], or demo. Without it: the workspace's release and filters.",
            ),
            click.option(
                "--mirror",
                metavar="TEMPLATE",
                envvar="QUARRY_MIRROR",
                show_envvar=True,
                help="Where repositories come from, with {owner} and {name}, for example"
                " file:///srv/mirror/{owner}/{name}.git. Without it: https from GitHub, or, without --release, the"
                " workspace's mirror.",
            ),
            click.option(
                "--token-env",
                metavar="NAME",
                envvar="QUARRY_TOKEN_ENV",
                show_envvar=True,
                help="The environment variable that holds a token for the mirror. The token itself is kept nowhere.",
            ),
            click.option(
                "--credential-helper",
                metavar="HELPER",
                envvar="QUARRY_CREDENTIAL_HELPER",
                show_envvar=True,
                help="A git credential helper to ask for the mirror's password, for example store or cache.",
            ),
            click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="Only tasks of this repository."),
            click.option("--language", "languages", multiple=True, metavar="L", help="Only tasks of this language."),
            click.option("--task", "tasks", multiple=True, metavar="ID", help="Only this task."),
            click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N of these tasks."),
        ]
    ):
        command = option(command)
    return command


def source(options: dict[str, Any], *, retry_missing: bool = False) -> Any:
    """Takes the options that say where repositories come from out of a command's options."""
    from quarry_harness.stages.fetch import source_of

    names = ("mirror", "token_env", "credential_helper")
    return source_of(*(options.pop(name) for name in names), retry_missing=retry_missing)


_DTYPE = click.option("--dtype", metavar="TYPE", help="What a transformer computes in: float32, bf16 or fp16.")
_MAX_TOKENS = click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Cut longer texts.")
_REVISION = click.option("--revision", metavar="SHA", help="A commit of the hub.")
_TRUST = click.option("--trust-remote-code", is_flag=True, default=None, help="Let a model run its own code.")


def transformer_options(command: Command) -> Command:
    """Adds --dtype, --max-tokens, --revision and --trust-remote-code: passes what registry.Options calls the same."""
    return _DTYPE(_MAX_TOKENS(_REVISION(_TRUST(command))))


def model_options(command: Command) -> Command:
    """Adds --depth, --model and what may be said about a model: passes `depth`, and what `choice` takes."""
    for option in reversed(
        [
            click.option(
                "--model",
                default="bm25",
                show_default=True,
                metavar="NAME",
                help="A name that `quarry models` lists, a folder, a file, OWNER/NAME of the hub; A+B fuses two.",
            ),
            click.option("--dimension", type=click.IntRange(min=1), metavar="N", help="Keep the first N numbers."),
            _DTYPE,
            _MAX_TOKENS,
            _REVISION,
            click.option("--query-prompt", metavar="TEXT", help="What is put before every query."),
            click.option("--document-prompt", metavar="TEXT", help="What is put before every document."),
            _TRUST,
            click.option("--base-url", metavar="URL", help="A server that speaks OpenAI's protocol."),
            click.option("--key-env", metavar="NAME", help="The environment variable that holds the server's key."),
            click.option("--kind", metavar="KIND", help="What a model of your own is, where its name does not say."),
            click.option(
                "--stored-as",
                type=click.Choice(["float32", "float16"]),
                default="float32",
                show_default=True,
                help="What vectors are kept as; float16 takes half the room.",
            ),
            click.option("--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Stop before it costs more."),
            click.option(
                "--depth",
                type=click.IntRange(min=50),
                default=100,
                show_default=True,
                help="Results kept for each query; recall@50 needs 50.",
            ),
        ]
    ):
        command = option(command)
    return command


def choice(options: dict[str, Any]) -> Any:
    """Takes the options that name a model, and say something about it, out of a command's options."""
    from quarry_harness.stages.models import choice_of

    return choice_of(options.pop("model"), options.pop("stored_as"), options.pop("max_cost"), options)


def print_result(document: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Prints a command's result on standard output: its document as JSON, or its text."""
    if as_json:
        from quarry_harness.runs import json_text

        click.echo(json_text(document), nl=False)
    else:
        from quarry_harness.report import printable_lines

        click.echo(printable_lines(text()))
