"""Progress: a bar with rate and time left where somebody watches, plain lines at intervals elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

import click

_INTERVAL_S = 10.0


class Console:
    """Writes to standard error only. Use as a context manager; `progress` is what the stages call."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._last = time.monotonic()
        self._started = self._last

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def say(self, words: str) -> None:
        """Prints a line about the work, above the bar where there is one."""
        self._end_bar()
        if not self._quiet:
            _echo(words)

    def progress(self, done: int, total: int, words: str) -> None:
        """Shows that `done` of `total` things are done and what is in hand."""
        if self._quiet or not total:
            return
        if sys.stderr.isatty():
            self._move_bar(done, total, words)
        elif done == 0:
            self._started = self._last = time.monotonic()
        elif time.monotonic() - self._last >= _INTERVAL_S:
            self._last = time.monotonic()
            left = (self._last - self._started) / done * (total - done)
            _echo(f"  {done} of {total}, about {left:.0f} s left: {words}")

    def _move_bar(self, done: int, total: int, words: str) -> None:
        if self._bar is None:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
            self._bar = Progress(*columns, console=RichConsole(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(words, total=total)
        self._bar.update(self._task, completed=done, total=total, description=words.replace("[", "\\["))
        if done >= total:
            self._end_bar()

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _echo(words: str) -> None:
    # Nobody reading along is no reason to stop.
    with suppress(OSError):
        click.echo(words, err=True)
