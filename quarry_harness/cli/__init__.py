"""The command line: the only room that prints results or ends the process.

Results go to standard output (with --json as one document), everything else to standard error. Heavy packages are
imported inside the commands, so that `quarry --help` answers at once.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from quarry_harness import __version__
from quarry_harness.cli.look import chunks, compare, models, status, verify
from quarry_harness.cli.options import OK
from quarry_harness.cli.tell import report, show
from quarry_harness.cli.work import canonicalize, checkout, chunk, evaluate, fetch, gc, rerank, run, score
from quarry_harness.errors import EnvironmentProblem, QuarryError

BUG = 70
INTERRUPTED = 130
# What a call of the system may answer without a fault of ours.
_SURROUNDINGS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EPERM}
    | {errno.EROFS}
)

EXIT_CODES = """\b
Exit codes:
  0   done
  1   finished, and something is wrong with the data: checksum, missing revision, unresolved gold
  2   usage
  3   unreadable or invalid input
  4   environment: git, network, model, key, locked database, disk
  70  a fault of this program, with its traceback
  130 interrupted (Ctrl-C, SIGTERM); what was finished is kept
"""


class _NobodyReads(Exception):
    """Standard output is a pipe whose reader has had enough."""


class _Commands(click.Group):
    """Lists the commands in the order of the work, not of the alphabet, and minds standard output."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _standard_output():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _standard_output():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="quarry")
def cli() -> None:
    """Run the Quarry code-retrieval benchmark.

    A release holds queries and labels, no code. The stages fetch the pinned revisions, cut them into function chunks,
    resolve the labels to chunks, and measure a model's rankings. Try it without any download:

        quarry run --release demo
    """


for _command in (
    *(run, fetch, chunk, canonicalize, evaluate, score, rerank, models, compare, report, show),
    *(verify, status, chunks, checkout, gc),
):
    cli.add_command(_command)


def main() -> NoReturn:
    """Runs the command line and ends the process with the error's exit code; a fault of ours shows its traceback."""
    _occupy_standard_streams()
    _heed_signals(_stop)
    try:
        code = cli.main(standalone_mode=False)
        # Flushed here, so that a closed pipe or a full disk is met inside this try.
        if sys.stdout is not None:
            with _standard_output():
                sys.stdout.flush()
        _heed_signals(signal.SIG_DFL)
        sys.exit(code if isinstance(code, int) else OK)
    except QuarryError as error:
        _tell(error.message, error.hint)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _end_interrupted()
    except _NobodyReads:
        _drop_output()
        sys.exit(OK)
    except OSError as error:
        if error.errno not in _SURROUNDINGS:
            _report_bug()
        _drop_output()
        _tell(f"{error.filename or 'writing failed'}: {error.strerror}.", "What was finished is kept; run it again.")
        sys.exit(EnvironmentProblem.exit_code)
    except Exception:  # noqa: BLE001 the last resort of the process
        _report_bug()


# The signals that asked the process to end.
_stops: list[int] = []


def _heed_signals(how: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """A cluster's polite end (SIGTERM) leaves as tidily as Ctrl-C. What the caller ignores stays ignored."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, how)
    sys.unraisablehook = _stop_again
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, how)
    # Where it is ignored, nobody learns how git ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _stop(number: int, _frame: FrameType | None) -> None:
    _stops.append(number)
    raise KeyboardInterrupt


def _stop_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Stops once more, a moment later, where Python drops the exception: in a finalizer, or in a weakref's callback."""
    if _stops and unraisable.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, _MOMENT_S)
    else:
        sys.__unraisablehook__(unraisable)


_MOMENT_S = 0.02


def _end_interrupted() -> NoReturn:
    with suppress(OSError):
        click.echo("interrupted; what was finished is kept, the same command goes on", err=True)
    sys.exit(INTERRUPTED)


def _occupy_standard_streams() -> None:
    """Keeps 0, 1 and 2 from becoming a database's file where the caller closed them (`quarry ... >&-`)."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:  # closed by the caller; what is told goes nowhere
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # as long as the process


@contextmanager
def _standard_output() -> Iterator[None]:
    """Tells the end of standard output's reader (`quarry ... | head`) from other trouble.

    Inside click's own handling, which would make it exit code 1.
    """
    try:
        yield
    except BrokenPipeError as error:
        poll = select.poll()
        poll.register(1, 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise _NobodyReads from error
        raise


def _drop_output() -> None:
    """Lets what is still buffered go nowhere; python would complain once more while closing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _tell(message: str, hint: str) -> None:
    from quarry_harness.report import printable_lines

    with suppress(OSError):  # nobody reads; the exit code says it
        click.echo(f"error: {printable_lines(message)}", err=True)
        if hint:
            click.echo(f"       {printable_lines(hint)}", err=True)


def _report_bug() -> NoReturn:
    # Libraries make errors of their own of an interruption, as where one is being imported.
    if _stops:
        _end_interrupted()
    import traceback

    click.echo(traceback.format_exc(), err=True, nl=False)
    click.echo(
        f"error: this is a fault of quarry-harness {__version__}; please report it with the lines above.", err=True
    )
    sys.exit(BUG)
