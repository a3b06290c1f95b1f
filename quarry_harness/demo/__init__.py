"""The built-in release: small repositories in eleven languages with queries about them, for a first run offline.

`trees/<owner>__<name>/<NN>/` holds one plain source tree a revision. They become git repositories with a fixed author
and fixed dates, so the commit ids are the same on every machine, and `release/` can name them.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from quarry_harness.errors import DataError, EnvironmentProblem
from quarry_harness.git import one_line, run_git

_HERE = Path(__file__).resolve().parent
TREES = _HERE / "trees"
MANIFEST = "RELEASE_MANIFEST.json"

_WHO = "Quarry demo <demo@quarry.invalid>"
_FIRST_COMMIT_S = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
_DAY_S = 86_400
# A real host allows both; a bare repository of git's own does not unless told so.
_SERVED = (("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true"), ("gc.auto", "0"))


def release_folder() -> Path:
    """The folder with RELEASE_MANIFEST.json and data/, laid out as any other release."""
    return _HERE / "release"


def build_mirror(folder: Path) -> str:
    """Builds `folder/<owner>/<name>.git` for every repository of the demo and returns the URL template of the mirror.

    What is already there and right is kept; each repository appears at once or not at all. Raises EnvironmentProblem
    without git or room to write, and DataError when an installed source file is not what it was when the release was
    made.
    """
    expected: dict[str, list[str]] = json.loads((release_folder() / MANIFEST).read_bytes())["revisions"]
    folder = folder.resolve()
    try:
        for repo, revisions in expected.items():
            owner, _, name = repo.partition("__")
            _build(TREES / repo, folder / owner / f"{name}.git", revisions)
    except OSError as error:
        raise EnvironmentProblem(
            f"{folder}: the demo's repositories cannot be written: {error.strerror or error}.",
            "Name a folder with free space where you may write.",
        ) from error
    # as_uri writes spaces, braces and the like as %20, which git reads back.
    return folder.as_uri() + "/{owner}/{name}.git"


def _build(source: Path, destination: Path, expected: Sequence[str]) -> None:
    if commits(destination) == list(expected):
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(f".{destination.name}.{secrets.token_hex(6)}")
    try:
        found = write_repository(source, part)
        if found != list(expected):
            raise DataError(
                f"{source}: the files give the revisions {found}, the demo release names {list(expected)}.",
                "Install quarry-harness again: a source file of the demo was changed, added or lost.",
            )
        if destination.exists():
            shutil.rmtree(destination)  # another version's demo
        part.replace(destination)
    except OSError:
        # Another process may have been faster, with the same bytes.
        if commits(destination) != list(expected):
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_repository(source: Path, git_dir: Path) -> list[str]:
    """Turns the numbered trees below `source` into a bare repository; returns its commit ids, oldest first."""
    _git(["init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(git_dir)], None)
    for key, value in _SERVED:
        _git(["config", key, value], git_dir)
    # One pack instead of loose objects.
    _git(["-c", "fastimport.unpackLimit=1", "fast-import", "--quiet"], git_dir, b"".join(_import_stream(source)))
    return commits(git_dir)


def commits(git_dir: Path) -> list[str]:
    """Commit ids on main, oldest first; empty where there is no such repository."""
    if not (git_dir / "HEAD").is_file():
        return []
    result = run_git(["rev-list", "--reverse", "refs/heads/main", "--"], git_dir=git_dir)
    return result.stdout.decode("ascii").split() if result.returncode == 0 else []


def tree_files(tree: Path) -> dict[str, bytes]:
    """Path with "/" -> content of one source tree, without what an installer or a file manager leaves there."""
    found = {}
    for file in sorted(tree.rglob("*")):
        path = file.relative_to(tree)
        if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in path.parts):
            found[path.as_posix()] = file.read_bytes()
    return found


def revision_trees(source: Path) -> list[Path]:
    """The numbered folders of a repository, oldest first."""
    return sorted(tree for tree in source.iterdir() if tree.is_dir() and tree.name.isdigit())


def _import_stream(source: Path) -> Iterator[bytes]:
    """The input of git fast-import: no work tree, so no filter, line-end rule or umask has a say."""
    for index, tree in enumerate(revision_trees(source)):
        when = f"{_WHO} {_FIRST_COMMIT_S + index * _DAY_S} +0000"
        message = f"Revision {index + 1}\n".encode()
        yield f"commit refs/heads/main\nauthor {when}\ncommitter {when}\ndata {len(message)}\n".encode()
        yield message
        yield b"deleteall\n"
        for path, content in tree_files(tree).items():
            yield b"M 100644 inline " + os.fsencode(path) + b"\ndata %d\n" % len(content)
            yield content + b"\n"
    yield b"done\n"


def _git(arguments: Sequence[str], git_dir: Path | None, stdin: bytes = b"") -> None:
    result = run_git(arguments, git_dir=git_dir, stdin=stdin)
    if result.returncode != 0:
        words = one_line(result.stderr.decode("utf-8", "replace"))
        raise EnvironmentProblem(f"git could not build a repository of the demo: {words}", "Is the disk full?")
