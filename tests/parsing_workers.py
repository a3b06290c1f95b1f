"""The processes that parse, for tests: found, and with limits that do not hold."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import quarry_harness

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

# With a string that nothing ends, Python's parser ends its process where it has to remember more than 512 levels.
TOO_DEEP = b"x\n%b%bx = '''\n" % (b"".join(b"%bif a:\n" % (b" " * depth) for depth in range(700)), b" " * 700)


def change_workers(folder: Path, monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, str, str]) -> None:
    """Makes the workers of this test use a copy of the package with these changes: file, words, other words."""
    shutil.copytree(Path(quarry_harness.__file__).parent, folder / "quarry_harness")
    for name, words, instead in changes:
        file = folder / "quarry_harness" / name
        source = file.read_text("utf-8")
        assert words in source
        file.write_text(source.replace(words, instead), "utf-8")
    monkeypatch.syspath_prepend(str(folder))


def weaken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the workers of this test no guards, and low limits."""
    change_workers(
        folder,
        monkeypatch,
        ("readable.py", "_MAX_LEVELS = 400", "_MAX_LEVELS = 10_000"),
        ("readable.py", "_LONGEST_RUN = 20_000", "_LONGEST_RUN = 1_000_000"),
        ("trees.py", "PARSE_CPU_S = 60.0", "PARSE_CPU_S = 1.0"),
        ("trees.py", "PARSE_MEMORY_BYTES = 1 << 30", "PARSE_MEMORY_BYTES = 1 << 27"),
    )


DEADLY = b"def deadly():\n    return 1\n"


def make_deadly(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, times: int = 1_000) -> Path:
    """Lets a statement run in the worker that cuts `DEADLY`, so many times; returns a file with a byte for each cut."""
    log = folder / "cut"
    lines = (
        "if b'deadly' in data:",
        f"    log = Path({str(log)!r})",
        "    with log.open('ab') as file: file.write(b'x')",
        f"    if log.stat().st_size <= {times}: {what}",
        "return chunk_blob(data, dialect)",
    )
    last = f"            {lines[-1]}\n"
    change_workers(folder, monkeypatch, ("parsing.py", last, "".join(f"            {line}\n" for line in lines)))
    return log


def signalled(name: str) -> str:
    """The statement with which a process ends itself by a signal."""
    return f"os.kill(os.getpid(), signal.{name})"


@contextlib.contextmanager
def killing_workers(most: int) -> Iterator[set[int]]:
    """Kills so many processes that parse, each as soon as it is seen; gives which so far."""
    ended: set[int] = set()
    stop = threading.Event()

    def kill() -> None:
        while len(ended) < most and not stop.wait(0.01):
            for process in set(workers_of_this_process()) - ended:
                ended.add(process)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join()


def workers_of_this_process() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"serve(" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
    return found
