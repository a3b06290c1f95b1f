"""Reading a release: what is tolerated, what is refused and with which words, and that nothing else ever happens."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.records import normalise_language
from quarry_harness.release import corpus_revision, find_release_files, read_release, scan_release, select_tasks
from quarry_harness.types import LANGUAGES, GoldRow, GoldUnit, Query, Release, Task

SAMPLE = Path(__file__).parents[2] / "shared" / "quarry-sample"
KINDS = ("tasks", "queries", "gold-preimage", "gold-postimage")
ONE, TWO, AFTER = "1" * 40, "2" * 40, "a" * 40
Rows = dict[str, list[dict[str, Any]]]


def unit(stage: str = "preimage", revision: str = ONE, start: int = 12, end: int = 20, **more: Any) -> dict[str, Any]:
    value = {
        "path": "src/mod.py",
        "symbol": "work",
        "fqmn": "mod.Worker.work",
        "start_line": start,
        "end_line": end,
        "relevance": "ESSENTIAL",
        "revision": revision,
        "image_stage": stage,
        "reason": "by hand",
    }
    return value | more


def rows() -> Rows:
    """Two tasks of two repositories, three queries, all four files; no unit states its unit_key."""
    tasks = [
        {"repo": "a__one", "task_id": "t1", "language": "Python", "postimage_revision": AFTER},
        {"repo": "b__two", "task_id": "t2", "language": "c#"},
    ]
    queries = [
        {"repo": "a__one", "task_id": "t1", "query_id": "t1::q1", "query": "where is the work done?", "revision": ONE},
        {"repo": "a__one", "task_id": "t1", "query_id": "t1::q2", "query": "who counts?", "revision": ONE},
        {"repo": "b__two", "task_id": "t2", "query_id": "t2::q1", "query": "how does it stop?", "revision": TWO},
    ]

    def gold(stage: str, index: int, units: list[dict[str, Any]]) -> dict[str, Any]:
        ids = {key: queries[index][key] for key in ("repo", "task_id", "query_id")}
        return ids | {"image_stage": stage, "positive_units": units}

    return {
        "tasks": tasks,
        "queries": queries,
        "gold-preimage": [
            gold("preimage", 0, [unit(), unit(start=30, end=30, relevance="RELATED")]),
            gold("preimage", 1, []),
            gold("preimage", 2, [unit(revision=TWO)]),
        ],
        "gold-postimage": [
            gold("postimage", 0, [unit("postimage", AFTER)]),
            gold("postimage", 1, []),
            gold("postimage", 2, []),
        ],
    }


def jsonl(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def write(folder: Path, data: Rows, suffix: str = ".jsonl", *, inner: str = "data") -> Path:
    (folder / inner).mkdir(parents=True, exist_ok=True)
    for kind, values in data.items():
        path = folder / inner / f"{kind}{suffix}"
        if suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(values), path)
        else:
            path.write_bytes(gzip.compress(jsonl(values)) if suffix == ".jsonl.gz" else jsonl(values))
    return folder


def without_places(release: Release) -> Release:
    """What a release says, whatever kind of file it says it in."""
    return release._replace(files={}, gold=tuple(row._replace(place="") for row in release.gold))


def refused(folder: Path) -> str:
    with pytest.raises(InvalidInputError) as caught:
        read_release(folder, "here")
    return str(caught.value)


def outcome(folder: Path) -> str:
    """Returns "read" or the words of the refusal; any other error is a failure of the test."""
    try:
        read_release(folder, "here")
    except InvalidInputError as error:
        return str(error)
    return "read"


# -- what is read -----------------------------------------------------------------------------------------------------


def test_the_published_rows_read() -> None:
    if not SAMPLE.is_dir():
        pytest.skip("the published sample is not beside this checkout")
    release = read_release(SAMPLE, "sample")
    assert (len(release.tasks), len(release.queries), len(release.gold)) == (10, 10, 10)
    assert sum(len(row.units) for row in release.gold) == 35
    assert {task.language for task in release.tasks} == {"go", "python", "rust", "javascript", "java", "csharp"}
    first = release.gold[0]
    assert first.place == "gold-preimage.jsonl:1"
    assert first.units[0].symbol == "Put"
    assert (first.units[0].start_line, first.units[0].end_line) == (82, 111)
    assert first.units[0].extra["target_type"] == "function"


def test_a_release_with_all_its_parts(tmp_path: Path) -> None:
    write(tmp_path, rows())
    (tmp_path / "RELEASE_MANIFEST.json").write_text('{"version": "0.3"}')
    release = read_release(tmp_path, "here")
    assert (release.ref, release.version) == ("here", "0.3")
    assert [task.language for task in release.tasks] == ["python", "csharp"]
    assert release.tasks[0].extra == {"postimage_revision": AFTER}
    assert release.queries[1] == Query("a__one", "t1", "t1::q2", "who counts?", ONE)
    assert [row.image_stage for row in release.gold] == ["preimage"] * 3 + ["postimage"] * 3
    assert release.gold[0].place == "data/gold-preimage.jsonl:1"
    assert release.gold[0].units[1] == GoldUnit(
        unit_key=f"preimage:{ONE}:src/mod.py:work:30-30",
        path="src/mod.py",
        symbol="work",
        fqmn="mod.Worker.work",
        start_line=30,
        end_line=30,
        relevance="RELATED",
        revision=ONE,
        image_stage="preimage",
        extra={"reason": "by hand"},
    )
    name = "data/gold-postimage.jsonl"
    assert release.files[name] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert len(release.files) == 4


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("inner", ["", "data"])
def test_every_format_and_layout_says_the_same(tmp_path: Path, suffix: str, inner: str) -> None:
    plain = read_release(write(tmp_path / "plain", rows()), "r")
    other = read_release(write(tmp_path / "other", rows(), suffix, inner=inner), "r")
    assert without_places(other) == without_places(plain)
    place = ": row 1" if suffix == ".parquet" else ":1"
    assert other.gold[0].place == f"{inner}/gold-preimage{suffix}{place}".removeprefix("/")


def test_the_postimage_may_be_missing_and_names_may_have_an_underscore(tmp_path: Path) -> None:
    data = rows()
    del data["gold-postimage"]
    data["gold_preimage"] = data.pop("gold-preimage")
    release = read_release(write(tmp_path, data), "r")
    assert {row.image_stage for row in release.gold} == {"preimage"}
    assert "data/gold_preimage.jsonl" in release.files


def test_plain_json_lines_go_before_other_formats(tmp_path: Path) -> None:
    write(write(tmp_path, rows(), ".parquet"), rows(), ".jsonl.gz", inner="")
    assert find_release_files(tmp_path)["queries"] == tmp_path / "queries.jsonl.gz"
    write(tmp_path, rows())
    assert find_release_files(tmp_path)["queries"] == tmp_path / "data/queries.jsonl"


def test_two_files_of_one_kind_are_refused(tmp_path: Path) -> None:
    write(write(tmp_path, rows()), rows(), inner="")
    assert "tasks.jsonl and data/tasks.jsonl are both there. Keep the one" in refused(tmp_path)


def test_a_byte_order_mark_blank_lines_and_crlf_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, rows())
    expected = without_places(read_release(tmp_path, "r"))
    path = tmp_path / "data/queries.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n").rstrip())
    assert without_places(read_release(tmp_path, "r")) == expected


def test_null_is_missing_and_unknown_fields_are_kept(tmp_path: Path) -> None:
    data = rows()
    data["queries"][0] |= {"difficulty": None, "tags": ["x"], "score": 0.5}
    data["gold-preimage"][0] |= {"image_stage": None, "note": "kept"}
    data["gold-preimage"][0]["positive_units"][0] |= {"fqmn": None, "unit_key": None, "image_stage": None}
    release = read_release(write(tmp_path, data), "r")
    assert release.queries[0].extra == {"tags": ["x"], "score": 0.5}
    assert release.gold[0].extra == {"note": "kept"}
    assert release.gold[0].units[0].fqmn == ""
    assert release.gold[0].units[0].unit_key == f"preimage:{ONE}:src/mod.py:work:12-20"


@pytest.mark.parametrize(
    ("spelled", "language"),
    [(name, key) for key, name in LANGUAGES.items()]
    + [("C#", "csharp"), ("csharp", "csharp"), ("C Sharp", "csharp"), ("c++", "cpp"), ("CPP", "cpp"), ("Golang", "go")]
    + [("js", "javascript"), ("Java Script", "javascript"), ("TS", "typescript"), ("Py", "python"), ("RS", "rust")]
    + [("Klingon", None), ("", None), ("c+", None)],
)
def test_language_names(spelled: str, language: str | None) -> None:
    assert normalise_language(spelled) == language


# -- what is refused --------------------------------------------------------------------------------------------------


def change(kind: str, index: int, **fields: Any) -> Callable[[Rows], None]:
    def apply(data: Rows) -> None:
        data[kind][index] |= fields

    return apply


def change_unit(**fields: Any) -> Callable[[Rows], None]:
    def apply(data: Rows) -> None:
        data["gold-preimage"][2]["positive_units"][0] |= fields

    return apply


def drop(kind: str, index: int) -> Callable[[Rows], None]:
    def apply(data: Rows) -> None:
        del data[kind][index]

    return apply


def again(kind: str, index: int) -> Callable[[Rows], None]:
    def apply(data: Rows) -> None:
        data[kind].append(copy.deepcopy(data[kind][index]))

    return apply


U = "gold-preimage.jsonl:3: "
IN_UNIT = " (positive_units[0])."
REFUSALS = [
    (change("queries", 1, revision=None), "queries.jsonl:2: revision is missing."),
    (change("queries", 1, revision=7), "queries.jsonl:2: revision is a number, not a string."),
    (change("queries", 1, revision="A" * 40), f"queries.jsonl:2: revision '{'A' * 40}' is not 40 lower-case"),
    (change("queries", 1, revision="--upload-pack=x"), "revision '--upload-pack=x' is not 40 lower-case"),
    (change("queries", 0, query="  "), "queries.jsonl:1: query is empty."),
    (change("queries", 0, query=["x"]), "queries.jsonl:1: query is a list, not a string."),
    (change("queries", 0, query_id="a b"), "query_id 'a b' holds a space or a control character."),
    (again("queries", 1), "queries.jsonl:4: query_id t1::q2 is already at data/queries.jsonl:2."),
    (again("tasks", 0), "tasks.jsonl:3: task_id t1 of a__one is already at data/tasks.jsonl:1."),
    (again("gold-preimage", 0), "gold-preimage.jsonl:4: query_id t1::q1 is already at data/gold-preimage.jsonl:1."),
    (drop("tasks", 1), "queries.jsonl:3: task_id t2 of b__two is not in data/tasks.jsonl."),
    (drop("queries", 2), "gold-preimage.jsonl:3: query_id t2::q1 is not in data/queries.jsonl."),
    (drop("gold-preimage", 1), "queries.jsonl:2: query_id t1::q2 has no row in data/gold-preimage.jsonl."),
    (change("gold-preimage", 2, repo="a__one"), U + "repo a__one is not that of its query, b__two."),
    (change("gold-preimage", 2, task_id="t1"), U + "task_id t1 is not that of its query, t2."),
    (change("gold-preimage", 2, image_stage="postimage"), U + "image_stage 'postimage' does not belong into"),
    (change("gold-preimage", 2, positive_units=None), U + "positive_units is missing."),
    (change("gold-preimage", 2, positive_units={}), U + "positive_units is an object, not a list."),
    (change("gold-preimage", 2, positive_units=[3]), U + "the unit is a number, not an object" + IN_UNIT),
    (change("gold-preimage", 0, positive_units=[unit(), unit()]), "is there twice (positive_units[1])."),
    (change_unit(end_line=9), U + "end_line 9 is before start_line 12" + IN_UNIT),
    (change_unit(start_line=0), U + "start_line 0 is not a line number (1 to 2147483647)" + IN_UNIT),
    (change_unit(end_line=2**31), U + "end_line 2147483648 is not a line number (1 to 2147483647)" + IN_UNIT),
    (change_unit(start_line="12"), U + "start_line is a string, not a whole number" + IN_UNIT),
    (change_unit(start_line=True), U + "start_line is true or false, not a whole number" + IN_UNIT),
    (change_unit(start_line=12.0), U + "start_line is a number, not a whole number" + IN_UNIT),
    (change_unit(relevance="essential"), U + "relevance 'essential' is not ESSENTIAL or RELATED" + IN_UNIT),
    (change_unit(image_stage="postimage"), U + "image_stage 'postimage' does not belong into the preimage file"),
    (change_unit(symbol=""), U + "symbol is empty" + IN_UNIT),
    (change_unit(symbol="a\nb"), U + "symbol 'a\\nb' holds a control character" + IN_UNIT),
    (change_unit(unit_key="preimage:x"), U + "unit_key 'preimage:x' does not agree with its parts"),
    (change_unit(path=""), U + "path is empty" + IN_UNIT),
    (change_unit(path="/etc/passwd"), U + "path '/etc/passwd' is absolute"),
    (change_unit(path="C:/x"), U + "path 'C:/x' is absolute"),
    (change_unit(path="a/../../x"), U + "path 'a/../../x' has an empty, '.' or '..' part" + IN_UNIT),
    (change_unit(path="a//x"), U + "path 'a//x' has an empty, '.' or '..' part" + IN_UNIT),
    (change_unit(path="a\\x"), U + "path 'a\\\\x' holds a backslash" + IN_UNIT),
    (change_unit(path="a\0x"), U + "path 'a\\x00x' holds a NUL" + IN_UNIT),
    (change("tasks", 1, language="Klingon"), "tasks.jsonl:2: language 'Klingon' is not one of C, C++, C#, Go,"),
    (change("tasks", 1, language=None), "tasks.jsonl:2: language is missing."),
    *[
        (change("tasks", 1, repo=repo), f"tasks.jsonl:2: repo {repo!r} is not owner__name")
        for repo in ("b/two", "b", "__two", "b__", "b__..", "-b__two", "b__two/x", "b__two x", "b__tw\u00f6", "..__x")
    ],
]


@pytest.mark.parametrize(("mutate", "words"), REFUSALS, ids=[words[:60] for _, words in REFUSALS])
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, mutate: Callable[[Rows], None], words: str) -> None:
    data = rows()
    mutate(data)
    message = refused(write(tmp_path, data))
    assert words in message
    assert message.startswith("data/")
    assert message.endswith("Check the release's checksum with: quarry verify --release here")


def test_a_task_may_have_its_id_in_two_repositories(tmp_path: Path) -> None:
    data = rows()
    data["tasks"].append({"repo": "c__fork", "task_id": "t1", "language": "Go"})
    assert len(read_release(write(tmp_path, data), "r").tasks) == 3


def test_the_first_problem_is_told_and_how_many_more_there_are(tmp_path: Path) -> None:
    data = rows()
    change("queries", 1, revision="x")(data)
    change("queries", 0, query="")(data)
    change("tasks", 1, repo="x")(data)
    scan = scan_release(write(tmp_path, data), "here")
    assert [len(file.problems) for file in scan.files] == [1, 2, 0, 0]
    assert scan.release is None
    # What could not be read is not reported a second time as missing.
    assert all(not relation.problems for relation in scan.relations)
    assert "tasks.jsonl:2: repo 'x' is not owner__name" in refused(tmp_path)
    change("tasks", 1, repo="b__two")(data)
    assert "queries.jsonl:1: query is empty. 1 more problem in this file. Check" in refused(write(tmp_path, data))


LINE_FAULTS = [
    (b'{"a": ', "queries.jsonl:4: the last line is cut off: it is not JSON (Expecting value, column 7)."),
    (b'{"a": "\xc3', "queries.jsonl:4: the last line is cut off: it is not UTF-8 (byte 8: 0xc3)."),
    (b'{"a": "\xff"}\n', "queries.jsonl:4: the line is not UTF-8 (byte 8: 0xff)."),
    (b"{'a': 1}\n", "queries.jsonl:4: the line is not JSON ("),
    (b"[]\n", "queries.jsonl:4: the line holds a list, not an object."),
    (b"null\n", "queries.jsonl:4: the line holds null, not an object."),
    (b'{"a": NaN}\n', "queries.jsonl:4: the line holds NaN, which is not JSON."),
    (b'{"a": -Infinity}', "queries.jsonl:4: the line holds -Infinity, which is not JSON."),
    (b'{"a": 1e999}\n', "queries.jsonl:4: the line holds the number 1e999, which is too large."),
    (b'{"a": ' + b"9" * 5000 + b"}\n", "queries.jsonl:4: the line holds a number that cannot be read"),
    (b'{"a": "\\ud800"}\n', "queries.jsonl:4: the line holds half of a surrogate pair"),
    (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}\n", "queries.jsonl:4: the line is nested more than 100 levels deep."),
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "the line is nested more than 100 levels deep."),
]


@pytest.mark.parametrize(("line", "words"), LINE_FAULTS, ids=[str(line[:16]) for line, _ in LINE_FAULTS])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lines_that_are_no_json_objects(tmp_path: Path, line: bytes, words: str, suffix: str) -> None:
    path = write(tmp_path, rows(), suffix) / f"data/queries{suffix}"
    text = jsonl(rows()["queries"]) + line
    path.write_bytes(gzip.compress(text) if suffix == ".jsonl.gz" else text)
    assert words.replace(".jsonl", suffix) in refused(tmp_path)


def test_what_json_allows_is_allowed(tmp_path: Path) -> None:
    data = rows()
    data["queries"][0] |= {
        "deep": json.loads("[" * 50 + "]" * 50),
        "wide": [[]] * 500,
        "big": 10**300,
        "smile": "\U0001f600",
    }
    path = write(tmp_path, data) / "data/queries.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in data["queries"]))  # the smile as a surrogate pair
    assert read_release(tmp_path, "r").queries[0].extra["smile"] == "\U0001f600"


def test_a_gzip_file_that_is_cut_off_or_damaged(tmp_path: Path) -> None:
    path = write(tmp_path, rows(), ".jsonl.gz") / "data/queries.jsonl.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-12])
    assert "the gzip file is cut off here. Download the file again." in refused(tmp_path)
    path.write_bytes(whole[:-8] + b"\0\0\0\0" + whole[-4:])
    assert "data/queries.jsonl.gz:4: cannot be read on: CRC check failed" in refused(tmp_path)
    scan = {file.kind: file for file in scan_release(tmp_path, "r").files}
    assert scan["queries"].rows is None
    assert scan["queries"].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_parquet_file_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, rows(), ".parquet") / "data/queries.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    message = refused(tmp_path)
    assert message.startswith("data/queries.parquet: this Parquet file cannot be read after row 0: ")
    assert "Download the file again. Check the release's checksum" in message


def test_a_fault_in_parquet_names_the_row(tmp_path: Path) -> None:
    data = rows()
    change_unit(end_line=9)(data)
    words = "data/gold-preimage.parquet: row 3: end_line 9 is before start_line 12 (positive_units[0])."
    assert words in refused(write(tmp_path, data, ".parquet"))


def test_parquet_values_become_what_json_would_hold(tmp_path: Path) -> None:
    import datetime
    import decimal

    path = write(tmp_path, rows(), ".parquet") / "data/queries.parquet"
    stamp = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    more = {"missing": float("nan"), "day": stamp.date(), "price": decimal.Decimal("1.50"), "raw": b"x", "list": [1.5]}
    pq.write_table(pa.Table.from_pylist([row | more for row in rows()["queries"]]), path)
    extra = read_release(tmp_path, "r").queries[0].extra
    assert extra == {"day": "2026-01-02", "price": "1.50", "raw": "x", "list": [1.5]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "data/queries.jsonl: the file is empty. Download the file again."),
        (b"\n\n", "data/queries.jsonl: the file holds no rows."),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n",
            "data/queries.jsonl: this is a Git LFS pointer, not the file itself. Get the file with: git lfs pull.",
        ),
        (gzip.compress(b"{}", mtime=0), "data/queries.jsonl: this is a .jsonl.gz file under another name. Rename it"),
        (b"PAR1....", "data/queries.jsonl: this is a .parquet file under another name."),
        (b"<!DOCTYPE html>\n<html>\n", "data/queries.jsonl:1: the line is not JSON (Expecting value, column 1)."),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: bytes, words: str) -> None:
    (write(tmp_path, rows()) / "data/queries.jsonl").write_bytes(content)
    assert words in refused(tmp_path)


def test_a_parquet_name_on_another_file(tmp_path: Path) -> None:
    data = rows()
    del data["queries"]
    (write(tmp_path, data) / "data/queries.parquet").write_bytes(b'{"a": 1}\n')
    assert 'data/queries.parquet: this is not a .parquet file: it starts with b\'{"a": 1}' in refused(tmp_path)


def test_half_of_a_download(tmp_path: Path) -> None:
    data = rows()
    del data["gold-preimage"]
    write(tmp_path, data)
    missing = f"{tmp_path}: gold-preimage.jsonl (or .jsonl.gz, .parquet) is missing"
    only = ", and there is only gold-postimage.jsonl, queries.jsonl, tasks.jsonl. Download the release again"
    assert missing + only in refused(tmp_path)
    (tmp_path / "data/gold_preimage.jsonl.incomplete").write_bytes(b"{")
    left = ", and data/gold_preimage.jsonl.incomplete is left of a download that did not finish."
    assert missing + left in refused(tmp_path)
    (tmp_path / "data/gold-preimage.jsonl").symlink_to(tmp_path / "blobs/gone")
    assert missing + ": data/gold-preimage.jsonl is a link to a file that is gone." in refused(tmp_path)


def test_a_folder_that_is_no_release_and_no_folder(tmp_path: Path) -> None:
    assert "here and under data/: this is not a release. Give the folder" in refused(tmp_path)
    assert "there is no such folder" in refused(tmp_path / "none")


def test_a_file_that_is_wrong_all_the_way_through_is_given_up(tmp_path: Path) -> None:
    (write(tmp_path, rows()) / "data/queries.jsonl").write_bytes(b"x\n" * 5000)
    scan = {file.kind: file for file in scan_release(tmp_path, "r").files}
    assert len(scan["queries"].problems) == 1000
    assert scan["queries"].rows is None


def test_a_broken_manifest_does_not_stop_reading(tmp_path: Path) -> None:
    (write(tmp_path, rows()) / "RELEASE_MANIFEST.json").write_text("{")
    assert read_release(tmp_path, "r").version == ""


# -- corpus revisions and selections ----------------------------------------------------------------------------------


def gold_row(stage: str, revisions: list[str], **extra: Any) -> GoldRow:
    units = tuple(GoldUnit(f"{i}", "p", "s", "", 1, 1, "RELATED", sha, stage) for i, sha in enumerate(revisions))
    return GoldRow("a__one", "t1", "q", stage, units, extra)


@pytest.mark.parametrize(
    ("row", "task_extra", "expected"),
    [
        (gold_row("preimage", [TWO]), {}, ONE),
        (gold_row("postimage", [TWO, TWO]), {"postimage_revision": AFTER}, TWO),
        (gold_row("postimage", [TWO, AFTER], revision=ONE), {}, ONE),
        (gold_row("postimage", [], postimage_revision=TWO), {"postimage_revision": AFTER}, TWO),
        (gold_row("postimage", []), {"postimage_revision": AFTER}, AFTER),
        (gold_row("postimage", []), {"after_revision": AFTER}, AFTER),
        (gold_row("postimage", [], revision="HEAD"), {"after_revision": 7}, ""),
    ],
)
def test_corpus_revision(row: GoldRow, task_extra: dict[str, Any], expected: str) -> None:
    query = Query("a__one", "t1", "q", "text", ONE)
    assert corpus_revision(query, row, Task("a__one", "t1", "go", task_extra)) == expected


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return read_release(write(tmp_path, rows()), "r")


@pytest.mark.parametrize(
    ("repos", "languages", "tasks", "limit", "expected"),
    [
        ([], [], [], None, ["t1", "t2"]),
        (["b/two"], [], [], None, ["t2"]),
        (["b__two", "a/one"], [], [], None, ["t1", "t2"]),
        ([], ["CSharp"], [], None, ["t2"]),
        ([], [], ["t2"], None, ["t2"]),
        ([], [], [], 1, ["t1"]),
        ([], ["c#", "py"], [], 9, ["t1", "t2"]),
    ],
)
def test_selections(
    release: Release, repos: list[str], languages: list[str], tasks: list[str], limit: int | None, expected: list[str]
) -> None:
    chosen = select_tasks(release, repos, languages, tasks, limit)
    assert [task.task_id for task in chosen.tasks] == expected
    assert [query.task_id for query in chosen.queries] == [q.task_id for q in release.queries if q.task_id in expected]
    assert {row.query_id for row in chosen.gold} == {query.query_id for query in chosen.queries}
    assert chosen.files == release.files


@pytest.mark.parametrize(
    ("repos", "languages", "tasks", "limit", "words"),
    [
        (["b/tow"], [], [], None, "--repo b__tow: the release has no such repository. Did you mean b__two?"),
        (["B/TWO"], [], [], None, "Did you mean b__two?"),
        (["zzz"], [], [], None, "--repo zzz: the release has no such repository. It has: a__one, b__two."),
        ([], ["Scala"], [], None, "--language scala: the release has no such language. It has: csharp, python."),
        ([], ["klingon"], [], None, "--language klingon: no such language. There are: c, cpp,"),
        ([], [], ["t"], None, "--task t: the release has no such task. Did you mean t1 or t2?"),
        (["a/one"], ["c#"], [], None, "No task of the release passes all the filters together."),
        ([], [], [], 0, "--limit 0: there would be no tasks left."),
    ],
)
def test_a_selection_of_nothing_is_a_mistake(
    release: Release, repos: list[str], languages: list[str], tasks: list[str], limit: int | None, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select_tasks(release, repos, languages, tasks, limit)
    assert words in str(caught.value)


# -- properties -------------------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
PATHS = st.lists(st.from_regex(r"[a-z0-9_ .-]{1,6}", fullmatch=True).filter(lambda part: part.strip(" .")), min_size=1)
QUIET = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@st.composite
def releases(draw: st.DrawFn) -> Rows:
    """Sound releases: a few tasks, any texts, any line ranges, extra fields that all rows have."""
    data: Rows = {kind: [] for kind in KINDS}
    for i in range(draw(st.integers(1, 3))):
        language = draw(st.sampled_from(list(LANGUAGES.values())))
        data["tasks"].append({"repo": f"a__r{i}", "task_id": f"t{i}", "language": language, "note": draw(WORDS)})
        ids = {"repo": f"a__r{i}", "task_id": f"t{i}", "query_id": f"t{i}::q1"}
        data["queries"].append(ids | {"query": draw(WORDS), "revision": ONE, "weight": draw(st.floats(0, 1))})
        for kind in KINDS[2:]:
            stage = kind.removeprefix("gold-")
            units = [
                unit(stage, start=start, end=start + length, path="/".join(path), symbol=symbol, fqmn=draw(WORDS))
                for start, length, path, symbol in draw(
                    st.lists(
                        st.tuples(st.integers(1, 2**30), st.integers(0, 2**20), PATHS, WORDS), max_size=3, unique_by=str
                    )
                )
            ]
            # Parquet must know what a unit looks like, so that the first row has one.
            units = units or ([unit(stage)] if i == 0 else [])
            data[kind].append(ids | {"image_stage": stage, "positive_units": units})
    return data


@QUIET
@given(releases())
def test_all_formats_give_the_same_release(data: Rows) -> None:
    with a_folder() as folder:
        read = [
            read_release(write(folder / suffix, data, suffix), "r") for suffix in (".jsonl", ".jsonl.gz", ".parquet")
        ]
    assert without_places(read[0]) == without_places(read[1]) == without_places(read[2])
    assert [q.text for q in read[0].queries] == [row["query"] for row in data["queries"]]
    assert [len(row.units) for row in read[0].gold] == [
        len(row["positive_units"]) for kind in KINDS[2:] for row in data[kind]
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@QUIET
@given(st.data())
def test_a_changed_value_is_read_or_refused_and_nothing_else(draw: st.DataObject) -> None:
    data = rows()
    kind = draw.draw(st.sampled_from(KINDS))
    target = draw.draw(st.sampled_from(data[kind]))
    if target.get("positive_units") and draw.draw(st.booleans()):
        target = draw.draw(st.sampled_from(target["positive_units"]))
    field = draw.draw(st.sampled_from([*target, "other"]))
    if draw.draw(st.booleans()):
        target[field] = draw.draw(ANYTHING)
    else:
        target.pop(field, None)
    with a_folder() as folder:
        write(folder, {other: rows()[other] for other in KINDS})
        (folder / f"data/{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data[kind]))
        assert outcome(folder).startswith(("read", "data/"))


@QUIET
@given(st.data(), st.sampled_from([".jsonl", ".jsonl.gz", ".parquet"]))
def test_damaged_bytes_are_read_or_refused_and_nothing_else(draw: st.DataObject, suffix: str) -> None:
    with a_folder() as folder:
        path = write(folder, rows(), suffix) / f"data/{draw.draw(st.sampled_from(KINDS))}{suffix}"
        content = bytearray(path.read_bytes())
        if draw.draw(st.booleans()):
            del content[draw.draw(st.integers(0, len(content))) :]
        for place in draw.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=3)):
            content[place : place + 1] = draw.draw(st.binary(min_size=0, max_size=2))
        path.write_bytes(content)
        assert outcome(folder).startswith(("read", "data/"))
