"""The processes that parse, for tests: found, and with limits that do not hold."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

import quarry_harness

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

# With a string that nothing ends, Python's parser ends its process where it has to remember more than 512 levels.
TOO_DEEP = b"x\n%b%bx = '''\n" % (b"".join(b"%bif a:\n" % (b" " * depth) for depth in range(700)), b" " * 700)


def weaken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the workers of this test use a copy of the package without guards, and with low limits."""
    shutil.copytree(Path(quarry_harness.__file__).parent, folder / "quarry_harness")
    for name, line, instead in (
        ("readable.py", "_MAX_LEVELS = 400", "_MAX_LEVELS = 10_000"),
        ("readable.py", "_LONGEST_RUN = 20_000", "_LONGEST_RUN = 1_000_000"),
        ("trees.py", "PARSE_CPU_S = 60.0", "PARSE_CPU_S = 0.5"),
        ("trees.py", "PARSE_MEMORY_BYTES = 1 << 30", "PARSE_MEMORY_BYTES = 1 << 28"),
    ):
        file = folder / "quarry_harness" / name
        source = file.read_text("utf-8")
        assert line in source
        file.write_text(source.replace(line, instead), "utf-8")
    monkeypatch.syspath_prepend(str(folder))


def workers_of_this_process() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"serve()" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
    return found
