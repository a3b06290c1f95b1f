"""The command line: the only room that prints results or ends the process.

Results go to standard output (with --json as one document), everything else to standard error. Heavy packages are
imported inside the commands, so that `quarry --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from quarry_harness import __version__
from quarry_harness.cli.look import chunks, models, status, verify
from quarry_harness.cli.options import OK
from quarry_harness.cli.work import canonicalize, checkout, chunk, evaluate, fetch, gc, run, score
from quarry_harness.errors import QuarryError

BUG = 70

EXIT_CODES = """\b
Exit codes:
  0   done
  1   finished, and something is wrong with the data: checksum, missing revision, unresolved gold
  2   usage
  3   unreadable or invalid input
  4   environment: git, network, model, key, locked database, disk
  70  a fault of this program, with its traceback
"""


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


for _command in (run, fetch, chunk, canonicalize, evaluate, score, models, verify, status, chunks, checkout, gc):
    cli.add_command(_command)


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
