"""Small real repositories for tests, made by git itself, the same bytes every time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# Content, or (mode, content) where the mode is not 100644; a submodule's content is its commit id.
Content = bytes | tuple[str, bytes]
Files = Mapping[str, Content] | Mapping[bytes, Content] | Mapping[str | bytes, Content] | Mapping[str, bytes]

_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null/home",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "A Tester"), ("EMAIL", "tester@example.org"), ("DATE", "1700000000 +0000"))
    },
}


def git(repo: Path, *arguments: str, stdin: bytes = b"") -> str:
    """What a git command prints, stripped; raises where it fails."""
    command = ["git", f"--git-dir={repo}", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, env=_ENV, check=True).stdout.decode().strip()


def make_repository(repo: Path, commits: Sequence[Files]) -> list[str]:
    """A bare repository with one branch; every commit has exactly the given files. Returns the commit ids."""
    repo.parent.mkdir(parents=True, exist_ok=True)
    git(repo, "init", "-q", "--bare", "--initial-branch=main", str(repo))
    script = b""
    for number, files in enumerate(commits, 1):
        script += b"commit refs/heads/main\nmark :%d\n" % number
        script += b"committer A Tester <tester@example.org> %d +0000\ndata 4\nwork\n" % (1700000000 + number)
        script += b"from :%d\n" % (number - 1) if number > 1 else b""
        script += b"deleteall\n" + b"".join(_change(path, content) for path, content in files.items())
    marks = repo / "marks"
    git(repo, "fast-import", "--quiet", f"--export-marks={marks}", stdin=script)
    by_mark = dict(line.split() for line in marks.read_text().splitlines())
    marks.unlink()
    return [by_mark[f":{number}"] for number in range(1, len(commits) + 1)]


def _change(path: str | bytes, content: Content) -> bytes:
    mode, data = content if isinstance(content, tuple) else ("100644", content)
    raw = path.encode() if isinstance(path, str) else path
    quoted = b'"' + b"".join(b"\\%03o" % byte for byte in raw) + b'"'
    if mode == "160000":
        return b"M 160000 %s %s\n" % (data, quoted)
    return b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), quoted, len(data), data)


def write_object(repo: Path, kind: str, data: bytes) -> str:
    """Writes an object as it is, malformed or not; returns its id."""
    return git(repo, "hash-object", "-t", kind, "-w", "--literally", "--stdin", stdin=data)


def commit_tree(repo: Path, tree: str) -> str:
    """A commit of a tree, which need not exist."""
    who = "A Tester <tester@example.org> 1700000000 +0000"
    return write_object(repo, "commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nwork\n".encode())


# Python code: kills its process at the step that the first argument counts; a step is a change of a file's name, a
# removal, a new folder or a new process. Imports stand before it, so that they count no step; the work after it.
KILL_AT_STEP = """
import os, sys
from pathlib import Path
left = int(sys.argv[1])
def step(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "subprocess.Popen"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(step)
"""
