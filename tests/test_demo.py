"""The built-in release: the same commits everywhere, and labels that a second, crude reader of source code confirms."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from quarry_harness import demo
from quarry_harness.demo.compose import Anchor, locate, release_files
from quarry_harness.errors import DataError, EnvironmentProblem, InvalidInputError
from quarry_harness.types import LANGUAGES

ROOT = Path(__file__).resolve().parents[1]
RELEASE = demo.release_folder()
SAMPLE = Path(__file__).resolve().parents[2] / "shared" / "quarry-sample"


REVISIONS: dict[str, list[str]] = json.loads((RELEASE / "RELEASE_MANIFEST.json").read_bytes())["revisions"]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RELEASE / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def tree_of(repo: str, sha: str) -> Path:
    return demo.TREES / repo / f"{REVISIONS[repo].index(sha) + 1:02}"


def units(name: str = "gold-preimage") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(row, unit) for row in rows(name) for unit in row["positive_units"]]


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("mirror")
    return folder, demo.build_mirror(folder)


def repository(folder: Path, repo: str) -> Path:
    owner, _, name = repo.partition("__")
    return folder / owner / f"{name}.git"


def git(*arguments: str | Path) -> bytes:
    return subprocess.run(["git", *map(str, arguments)], check=True, capture_output=True).stdout


# The repositories


def test_the_repositories_have_the_revisions_that_the_release_names(mirror: tuple[Path, str]) -> None:
    folder, _ = mirror
    named: dict[str, set[str]] = defaultdict(set)
    for query in rows("queries"):
        named[query["repo"]].add(query["revision"])
    for repo, revisions in REVISIONS.items():
        path = repository(folder, repo)
        log = git("-C", path, "log", "--reverse", "--format=%H|%an <%ae>|%cn|%aI|%cI|%P", "main").decode().splitlines()
        assert [line.split("|")[0] for line in log] == revisions
        assert named[repo] <= set(revisions)
        for day, line in enumerate(log, start=1):
            _, author, committer, authored, committed, parent = line.split("|")
            assert (author, committer) == ("Quarry demo <demo@quarry.invalid>", "Quarry demo")
            assert authored == committed == f"2024-01-{day:02}T00:00:00+00:00"
            assert parent == ("" if day == 1 else revisions[day - 2])
        git("-C", path, "fsck", "--strict", "--no-dangling")


def test_the_files_of_a_commit_are_those_of_the_tree_byte_for_byte(mirror: tuple[Path, str]) -> None:
    folder, _ = mirror
    for repo, revisions in REVISIONS.items():
        for sha in revisions:
            listing = git("-C", repository(folder, repo), "ls-tree", "-r", "-z", sha).decode().rstrip("\0").split("\0")
            found = {}
            for line in listing:
                head, _, path = line.partition("\t")
                assert head.startswith("100644 blob ")
                found[path] = head.split()[2]
            expected = {}
            for path, content in demo.tree_files(tree_of(repo, sha)).items():
                expected[path] = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
            assert found == expected


def test_a_strange_environment_changes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = {
        "core.autocrlf": "true",
        "init.defaultBranch": "trunk",
        "user.name": "Someone",
        "commit.gpgSign": "true",
    }
    for key, value in settings.items():
        git("config", "--file", home / ".gitconfig", key, value)
    target = tmp_path / "a folder {with} 100% strange #letters"
    script = (
        "import os, pathlib, sys; os.umask(0o077); from quarry_harness import demo;"
        "print(demo.build_mirror(pathlib.Path(sys.argv[1])))"
    )
    env = {
        **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "POSIX",
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_AUTHOR_NAME": "Someone",
        "GIT_COMMITTER_DATE": "1999-01-01T00:00:00Z",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script, str(target)], env=env, check=True, capture_output=True, text=True, cwd=tmp_path
    )
    template = done.stdout.strip()
    assert unquote(template) == f"file://{target}/{{owner}}/{{name}}.git"
    assert {repo: demo.commits(repository(target, repo)) for repo in REVISIONS} == REVISIONS
    assert not (tmp_path / "elsewhere").exists()


def test_the_mirror_serves_single_revisions_without_their_history(mirror: tuple[Path, str], tmp_path: Path) -> None:
    _, template = mirror
    for repo, revisions in REVISIONS.items():
        owner, _, name = repo.partition("__")
        url = template.replace("{owner}", owner).replace("{name}", name)
        part = tmp_path / repo
        git("init", "--quiet", "--bare", part)
        fetch = ("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:limit=256k", url)
        done = subprocess.run(
            ["git", "-C", part, *fetch, *(f"+{sha}:refs/pins/{sha}" for sha in revisions)],
            check=True,
            capture_output=True,
            text=True,
        )
        assert "filtering not recognized" not in done.stderr
        assert git("-C", part, "rev-list", "--all", "--count").decode().strip() == str(len(revisions))


def test_building_again_keeps_what_is_there_and_repairs_what_is_not(tmp_path: Path) -> None:
    template = demo.build_mirror(tmp_path)
    heads = {path: path.stat().st_ino for path in tmp_path.rglob("HEAD")}
    damaged, lost = (repository(tmp_path, repo) for repo in sorted(REVISIONS)[:2])
    (damaged / "refs" / "heads" / "main").write_text("0" * 40 + "\n")
    shutil.rmtree(lost)
    assert demo.build_mirror(tmp_path) == template
    again = {path: path.stat().st_ino for path in tmp_path.rglob("HEAD")}
    assert again.keys() == heads.keys()
    untouched = [path for path in heads if path.parent not in (damaged, lost)]
    assert all(again[path] == heads[path] for path in untouched)
    assert {repo: demo.commits(repository(tmp_path, repo)) for repo in REVISIONS} == REVISIONS


def test_a_path_relative_to_the_current_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo.build_mirror(Path("here")) == (tmp_path / "here").as_uri() + "/{owner}/{name}.git"


def test_what_an_installer_leaves_in_a_tree_is_no_part_of_it(tmp_path: Path) -> None:
    source = tmp_path / "trees"
    shutil.copytree(demo.TREES / "quarry-demo__pantry", source)
    (source / "01" / "pantry" / "__pycache__").mkdir()
    (source / "01" / "pantry" / "__pycache__" / "store.cpython-311.pyc").write_bytes(b"\0")
    (source / "02" / ".DS_Store").write_bytes(b"\0")
    assert demo.write_repository(source, tmp_path / "git") == REVISIONS["quarry-demo__pantry"]


def test_a_changed_source_file_is_an_error_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = tmp_path / "trees"
    shutil.copytree(demo.TREES, trees)
    monkeypatch.setattr(demo, "TREES", trees)
    with (trees / "quarry-demo__belfry" / "01" / "README.md").open("a") as out:
        out.write("more\n")
    with pytest.raises(DataError, match="quarry-demo__belfry"):
        demo.build_mirror(tmp_path / "mirror")
    assert not list((tmp_path / "mirror").rglob("HEAD"))


def test_without_git_the_environment_is_to_blame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="git"):
        demo.build_mirror(tmp_path / "mirror")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="file"):
        demo.build_mirror(tmp_path / "file" / "mirror")


# The release files


def test_the_manifest_states_the_bytes_and_rows_of_every_file() -> None:
    stated = json.loads((RELEASE / "RELEASE_MANIFEST.json").read_bytes())
    assert (stated["name"], stated["license"]) == ("demo", "Apache-2.0")
    assert set(stated["files"]) == {path.relative_to(RELEASE).as_posix() for path in (RELEASE / "data").iterdir()}
    for name, facts in stated["files"].items():
        content = (RELEASE / name).read_bytes()
        assert facts == {"sha256": hashlib.sha256(content).hexdigest(), "rows": len(content.splitlines())}


def test_the_script_makes_the_same_bytes_again() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_demo", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rows_join_and_ids_say_what_they_hold() -> None:
    tasks = {(row["repo"], row["task_id"]): row for row in rows("tasks")}
    queries = {row["query_id"]: row for row in rows("queries")}
    assert len(tasks) == len(rows("tasks"))
    assert len(queries) == len(rows("queries"))
    assert sorted(query_id for task in tasks.values() for query_id in task["query_ids"]) == sorted(queries)
    for query_id, query in queries.items():
        task = tasks[query["repo"], query["task_id"]]
        assert re.fullmatch(rf"{query['task_id']}::q[1-9]", query_id)
        assert re.fullmatch(r"[0-9a-f]{40}-[1-9][0-9]*", query["task_id"])
        assert query["revision"] == task["revision"]
        assert query["task_id"][:40] == (task["postimage_revision"] or task["revision"])
    for stage in ("preimage", "postimage"):
        gold = rows(f"gold-{stage}")
        assert [row["query_id"] for row in gold] == list(queries)
        for row in gold:
            revision = queries[row["query_id"]]["revision"]
            if stage == "postimage":
                revision = tasks[row["repo"], row["task_id"]]["postimage_revision"]
            for unit in row["positive_units"]:
                lines = f"{unit['start_line']}-{unit['end_line']}"
                assert unit["unit_key"] == f"{stage}:{revision}:{unit['path']}:{unit['symbol']}:{lines}"
                assert (unit["revision"], unit["image_stage"], unit["target_type"]) == (revision, stage, "function")
                assert unit["fqmn"].split(".")[-1] == unit["symbol"]


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the published sample is not here")
@pytest.mark.parametrize("name", ["queries", "tasks", "gold-preimage"])
def test_rows_have_the_shape_of_published_rows(name: str) -> None:
    published = json.loads((SAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[0])
    for row in rows(name):
        assert set(row) - {"postimage_revision"} == set(published)
        for unit in row.get("positive_units", ()):
            assert set(unit) == set(published["positive_units"][0])


def test_there_is_enough_of_everything() -> None:
    languages = {row["task_id"]: row["language"] for row in rows("tasks")}
    queries = Counter(languages[row["task_id"]] for row in rows("queries"))
    assert set(queries) == set(LANGUAGES.values())
    assert min(queries.values()) >= 3
    assert queries.total() >= 40
    assert len({row["query"] for row in rows("queries")}) == queries.total()
    assert {unit["relevance"] for _, unit in units()} == {"ESSENTIAL", "RELATED"}
    assert all(any(unit["relevance"] == "ESSENTIAL" for unit in row["positive_units"]) for row in rows("gold-preimage"))
    assert sum(len(row["positive_units"]) > 1 for row in rows("gold-preimage")) >= 20
    assert sorted(map(len, REVISIONS.values()))[-4:] == [2, 2, 2, 3]


def test_units_move_change_their_lines_and_disappear() -> None:
    before = {row["query_id"]: row["positive_units"] for row in rows("gold-preimage")}
    after = {row["query_id"]: row["positive_units"] for row in rows("gold-postimage")}
    has_next = {row["task_id"] for row in rows("tasks") if row["postimage_revision"]}
    changes = [(before[key], after[key]) for key in before if key.rpartition("::")[0] in has_next]
    pairs = [pair for old, new in changes if len(old) == len(new) for pair in zip(old, new, strict=True)]
    assert any(old["path"] != new["path"] and old["symbol"] == new["symbol"] for old, new in pairs)
    assert any(old["path"] == new["path"] and old["start_line"] != new["start_line"] for old, new in pairs)
    assert any(not new for _, new in changes)


def test_overloads_are_told_apart_by_their_lines() -> None:
    keys = Counter((row["query_id"], unit["path"], unit["symbol"]) for row, unit in units())
    assert {Path(path).suffix for (_, path, _), count in keys.items() if count > 1} >= {".java", ".cs", ".ts", ".cpp"}
    exact = Counter((row["query_id"], unit["unit_key"]) for row, unit in units())
    assert set(exact.values()) == {1}


# The labels, read a second time by other means

_NO_CODE = {
    # A quote of one character, so that a lifetime or an apostrophe opens nothing.
    "char": re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\[^']+|[^'\\\n])'", re.DOTALL),
    "string": re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL),
}


def bracket_end(lines: list[str], start: int, suffix: str) -> int:
    """The line where all brackets opened since `start` are closed and something else follows."""
    kind = "string" if suffix in (".js", ".ts", ".tsx", ".php") else "char"
    text = _NO_CODE[kind].sub(lambda match: "\n" * match[0].count("\n") + "0", "\n".join(lines[start - 1 :]))
    depth = 0
    code = [*text.split("\n"), ""]
    for offset, line in enumerate(code[:-1]):
        depth += sum(line.count(mark) for mark in "([{") - sum(line.count(mark) for mark in ")]}")
        following = code[offset + 1].strip()
        if depth == 0 and (line.rstrip().endswith(";") or following == "" or following.startswith("}")):
            return start + offset
    raise AssertionError(f"no end after line {start}")


def python_spans(content: bytes) -> set[tuple[str, int, int]]:
    spans = set()
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            spans.add((node.name, start, node.end_lineno or 0))
    return spans


@pytest.mark.parametrize("name", ["gold-preimage", "gold-postimage"])
def test_every_unit_is_a_whole_function_of_that_name(name: str) -> None:
    for row, unit in units(name):
        file = tree_of(row["repo"], unit["revision"]) / unit["path"]
        lines = [line.rstrip("\r") for line in file.read_bytes().decode("utf-8").split("\n")]
        start, end = unit["start_line"], unit["end_line"]
        place = f"{row['repo']} {unit['unit_key']}"
        if file.suffix == ".py":
            assert (unit["symbol"], start, end) in python_spans(file.read_bytes()), place
            continue
        assert end == bracket_end(lines, start, file.suffix), place
        declaration = next(line for line in lines[start - 1 :] if not line.strip().startswith(("@", "[")))
        assert re.search(rf"\b{re.escape(unit['symbol'])}\b", declaration), place
        assert unit["signature"].removesuffix(" ... }") == lines[start - 1].strip(), place


def test_the_trees_hold_the_cases_that_real_repositories_hold() -> None:
    contents = {
        path: path.read_bytes() for path in demo.TREES.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert any(b"\r\n" in content for path, content in contents.items() if path.suffix == ".cs")
    assert any(re.search(r"[^\x00-\x7f]\w", content.decode("utf-8", "ignore")) for content in contents.values())
    assert any(b"\0" in content for path, content in contents.items() if path.suffix == ".h")
    assert any(
        content.startswith(b"version https://git-lfs") for path, content in contents.items() if path.suffix == ".c"
    )
    for repo in REVISIONS:
        assert all((tree / "README.md") in contents for tree in demo.revision_trees(demo.TREES / repo))
    assert not [path for path in contents if any(part.startswith(".") for part in path.relative_to(demo.TREES).parts)]


# Anchors

FILES = {"a.c": b"int f(int x)\r\n{\r\n    if (x) {\r\n    }\r\n}\r\nint f(int x);\r\n  void g() {\n  }\n"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"first": "int f(int x)"}, (1, 5)),
        ({"first": "int f(int x);", "last": ""}, (6, 6)),
        ({"first": "void g() {"}, (7, 8)),
    ],
)
def test_an_anchor_is_found_by_its_lines(fields: dict[str, Any], expected: tuple[int, int]) -> None:
    assert locate(Anchor("a.c", "f", **fields), FILES)[:2] == expected


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("b.c", {"first": "int f(int x)"}),
        ("a.c", {"first": "int h()"}),
        ("a.c", {"first": "void g() {", "nth": 2}),
        ("a.c", {"first": "void g() {", "last": "end"}),
        ("a.c", {"first": "int f(int x)", "nth": 0}),
    ],
)
def test_an_anchor_that_fits_nothing_is_refused(path: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        locate(Anchor(path, "f", **fields), FILES)


def test_a_wrong_anchor_names_its_query(tmp_path: Path) -> None:
    text = (demo.TREES.parent / "queries.toml").read_text(encoding="utf-8")
    source = tmp_path / "queries.toml"
    source.write_text(text.replace('first = "def purge(self) -> int:"', 'first = "def purged(self)"'), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="Which lookup deletes an entry"):
        release_files(source)
