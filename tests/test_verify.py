"""Verification: what matched, what differs, what could not be checked, and that one problem never hides another."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, QuarryError
from quarry_harness.manifest import Pin, canonical_name, read_manifest
from quarry_harness.release import read_release
from quarry_harness.resources import resource
from quarry_harness.types import Check, Release
from quarry_harness.verify import verify_files, verify_release

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT.parent / "shared" / "quarry-sample"
COMMIT, OTHER, AFTER = "c" * 40, "d" * 40, "a" * 40
FILES = ("tasks", "queries", "gold-preimage", "gold-postimage")
IDS = {"repo": "a__one", "task_id": "t1", "query_id": "t1::q1"}


def a_unit(stage: str, revision: str) -> dict[str, Any]:
    return {
        "path": "a.py",
        "symbol": "f",
        "start_line": 1,
        "end_line": 2,
        "relevance": "RELATED",
        "revision": revision,
        "image_stage": stage,
    }


def rows() -> dict[str, list[dict[str, Any]]]:
    return {
        "tasks": [{"repo": "a__one", "task_id": "t1", "language": "Go", "query_ids": ["t1::q1"]}],
        "queries": [IDS | {"query": "where?", "revision": COMMIT}],
        "gold-preimage": [IDS | {"positive_units": [a_unit("preimage", COMMIT)]}],
        "gold-postimage": [IDS | {"positive_units": [a_unit("postimage", AFTER)]}],
    }


def write(folder: Path, data: dict[str, list[dict[str, Any]]] | None = None) -> Path:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for kind, values in (data or rows()).items():
        (folder / f"data/{kind}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    return folder


def digest(folder: Path, kind: str) -> str:
    return hashlib.sha256((folder / f"data/{kind}.jsonl").read_bytes()).hexdigest()


def manifest(folder: Path, **more: Any) -> Path:
    """The pin of a release that is like the one in `folder`: two checksums known, two not, as for release 1.0."""
    known = ("queries", "gold-preimage")
    files = [
        {"path": f"data/{kind}.jsonl", "rows": 1, "sha256": digest(folder, kind) if kind in known else None}
        for kind in FILES
    ]
    path = folder.parent / "pinned.json"
    document = {"name": "Quarry", "version": "1.0", "dataset": "BrokkAI/Quarry", "revision": COMMIT, "files": files}
    path.write_text(json.dumps(document | more))
    return path


def own(folder: Path, document: object) -> None:
    (folder / "RELEASE_MANIFEST.json").write_text(json.dumps(document))


def verify(folder: Path, pinned: Path) -> dict[str, Check]:
    """Returns the checks by name, after making sure that reading before or while verifying gives the same ones."""
    read: Release | QuarryError
    try:
        read = read_release(folder, "here")
    except QuarryError as error:
        read = error
    checks = verify_release(folder, read, pinned)
    assert checks == verify_release(folder, QuarryError("not read yet"), pinned)
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.detail for check in checks)
    return {check.name: check for check in checks}


def failed(checks: dict[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.ok is False]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "release")


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    """A pin of another release, which nothing in `folder` matches."""
    other = rows()
    for kind in FILES:
        other[kind][0]["other"] = 1
    return manifest(write(tmp_path / "elsewhere" / "release", other))


# -- the pin of release 1.0 -------------------------------------------------------------------------------------------


def test_the_pin_that_travels_with_the_program() -> None:
    pin = read_manifest(resource("RELEASE_MANIFEST.json"))
    assert pin.names == ("Quarry", "BrokkAI/Quarry")
    assert (pin.version, pin.revision) == ("1.0", "d3f033b2984fe7ac2d41a484c67bc1ceb2a15c87")
    assert pin.files == {
        "queries.jsonl": Pin("994a4b53b16dc0496ddb28aead010b79d1592343a978f8db1c028bd93a84bae0", 6525),
        "tasks.jsonl": Pin("", 3411),
        "gold-preimage.jsonl": Pin("35da165e324df2b544aa2f2e58d15ef8f127542acc50b1c6366a49863463ac29", 6525),
        "gold-postimage.jsonl": Pin("", 6525),
    }
    assert pin.notes == ()


def test_the_published_sample_is_sound_and_not_pinned() -> None:
    if not SAMPLE.is_dir():
        pytest.skip("the published sample is not beside this checkout")
    checks = verify(SAMPLE, resource("RELEASE_MANIFEST.json"))
    assert failed(checks) == []
    assert checks["pinned release"].ok is None
    assert checks["units stand at the revision of their corpus"].ok is True


def test_the_demo_is_as_its_manifest_says() -> None:
    demo = pytest.importorskip("quarry_harness.demo")
    checks = verify(demo.release_folder(), resource("RELEASE_MANIFEST.json"))
    assert failed(checks) == []
    assert checks["own manifest"].ok is True


def test_a_release_that_is_the_pinned_one(folder: Path) -> None:
    checks = verify(folder, manifest(folder))
    assert failed(checks) == []
    assert checks["pinned release"] == Check(
        "pinned release",
        True,
        "Quarry 1.0: the checksum of data/queries.jsonl and data/gold-preimage.jsonl says so",
    )
    assert checks["data/queries.jsonl checksum (pinned 1.0)"].ok is True
    assert checks["data/queries.jsonl rows (pinned 1.0)"] == Check("data/queries.jsonl rows (pinned 1.0)", True, "1")
    unknown = checks["data/tasks.jsonl checksum (pinned 1.0)"]
    assert unknown.ok is None
    assert "states none" in unknown.detail
    assert digest(folder, "tasks") in unknown.detail


def test_a_release_that_matches_by_half_fails(folder: Path) -> None:
    pinned = manifest(folder)
    data = rows()
    data["queries"][0]["query"] = "and where else?"
    write(folder, data)
    checks = verify(folder, pinned)
    assert failed(checks) == ["data/queries.jsonl checksum (pinned 1.0)"]
    assert digest(folder, "queries") in checks["data/queries.jsonl checksum (pinned 1.0)"].detail
    assert "data/gold-preimage.jsonl says so" in checks["pinned release"].detail


def test_a_pinned_release_with_too_few_rows_fails(folder: Path) -> None:
    data = rows()
    data["tasks"].append({"repo": "a__one", "task_id": "t2", "language": "Go", "query_ids": []})
    write(folder, data)
    checks = verify(folder, manifest(folder))
    assert failed(checks) == ["data/tasks.jsonl rows (pinned 1.0)"]
    assert checks["data/tasks.jsonl rows (pinned 1.0)"].detail == "2, the manifest says 1"


@pytest.mark.parametrize(
    ("document", "applies"),
    [
        ({"name": "Quarry", "version": "1.0"}, True),
        ({"dataset": "brokkai/quarry", "release_version": "v1.0.0"}, True),
        ({"release": {"name": "quarry", "version": 1}}, True),
        ({"name": "Quarry", "version": "1.1"}, False),
        ({"name": "Quarry"}, False),
        ({"version": "1.0"}, False),
        ({"name": "demo", "version": "1.0"}, False),
    ],
)
def test_what_a_manifest_says_decides_whether_the_pin_applies(
    folder: Path, pinned: Path, document: object, applies: bool
) -> None:
    own(folder, document)
    checks = verify(folder, pinned)
    assert checks["pinned release"].ok is (True if applies else None)
    mismatches = ["data/queries.jsonl checksum (pinned 1.0)", "data/gold-preimage.jsonl checksum (pinned 1.0)"]
    assert failed(checks) == (mismatches if applies else [])


def test_another_version_with_an_unchanged_file_is_another_release(folder: Path) -> None:
    pinned = manifest(folder)
    data = rows()
    data["gold-preimage"][0]["corrected"] = True
    own(write(folder, data), {"name": "Quarry", "version": "1.1"})
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert "its manifest says version 1.1" in checks["pinned release"].detail


@pytest.mark.parametrize(
    ("dataset", "commit", "document", "applies"),
    [
        ("BrokkAI--Quarry", COMMIT, None, True),
        ("BrokkAI--Quarry", COMMIT, {"version": "2.0"}, True),  # it is that commit, whatever it says
        ("BrokkAI--Quarry", OTHER, None, True),
        ("BrokkAI--Quarry", OTHER, {"version": "2.0"}, False),
        ("someone--Quarry", COMMIT, None, False),
    ],
)
def test_where_a_release_comes_from_decides_as_well(
    tmp_path: Path, pinned: Path, dataset: str, commit: str, document: object, applies: bool
) -> None:
    folder = write(tmp_path / f"hub/datasets--{dataset}/snapshots/{commit}")
    if document:
        own(folder, document)
    checks = verify(folder, pinned)
    assert checks["pinned release"].ok is (True if applies else None)
    assert ("data/queries.jsonl checksum (pinned 1.0)" in failed(checks)) is applies
    assert ("version" in failed(checks)) is (applies and document is not None)


def test_a_file_in_another_format_is_counted_and_its_checksum_left_open(folder: Path) -> None:
    pinned = manifest(folder)
    plain = folder / "data/queries.jsonl"
    (folder / "data/queries.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert checks["data/queries.jsonl.gz rows (pinned 1.0)"].ok is True
    left_open = checks["data/queries.jsonl.gz checksum (pinned 1.0)"]
    assert left_open.ok is None
    assert left_open.detail == "its checksum is of queries.jsonl, and the file here is queries.jsonl.gz"


def test_a_pinned_file_that_is_missing(folder: Path) -> None:
    pinned = manifest(folder)
    (folder / "data/gold-postimage.jsonl").unlink()
    (folder / "data/queries.jsonl").unlink()
    checks = verify(folder, pinned)
    assert failed(checks) == ["queries.jsonl readable", "gold-postimage present (pinned 1.0)"]
    assert checks["every query has its task"] == Check(
        "every query has its task", None, "not checked: queries.jsonl could not be read in full"
    )


# -- a release's own manifest -----------------------------------------------------------------------------------------


def shapes(sums: dict[str, str]) -> list[dict[str, Any]]:
    """One and the same statement in several shapes."""
    paths = {kind: f"data/{kind}.jsonl" for kind in sums}
    return [
        {"files": {paths[kind]: {"sha256": value, "rows": 1} for kind, value in sums.items()}},
        {"files": {paths[kind]: {"checksum": f"sha256:{value}", "num_rows": 1} for kind, value in sums.items()}},
        {"files": [{"path": paths[kind], "sha256": value.upper(), "rows": 1} for kind, value in sums.items()]},
        {"artifacts": {"files": [{"name": f"{k}.jsonl", "digest": v, "count": 1} for k, v in sums.items()]}},
        {
            "artifacts": [
                {"file": paths[k], "hash": {"algorithm": "sha256", "value": v}, "rows": 1} for k, v in sums.items()
            ]
        },
        {"checksums": {paths[k]: v for k, v in sums.items()}, "row_counts": {k.replace("-", "_"): 1 for k in sums}},
        {"checksums": {"sha256": {paths[k]: v for k, v in sums.items()}}, "stats": {"rows": dict.fromkeys(sums, 1)}},
        {"sha256": {f"{kind}.jsonl": value for kind, value in sums.items()}, "counts": dict.fromkeys(sums, 1)},
        {"configs": {kind: {"path": paths[kind], "sha256": v, "row_count": 1} for kind, v in sums.items()}},
        {"configs": [{"config": k.replace("-", "_"), "sha256": v, "num_examples": 1} for k, v in sums.items()]},
        {k.replace("-", "_"): {"checksums": {"sha256": v}, "rows": 1, "bytes": 9} for k, v in sums.items()},
    ]


@pytest.mark.parametrize("shape", range(len(shapes({}))))
def test_the_shapes_of_a_manifest_that_are_understood(folder: Path, pinned: Path, shape: int) -> None:
    sums = {kind: digest(folder, kind) for kind in FILES}
    own(folder, {"version": "0.9"} | shapes(sums)[shape])
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert checks["own manifest"] == Check(
        "own manifest", True, "understood: version 0.9, checksums of 4 files, row counts of 4 files"
    )
    for kind in FILES:
        assert checks[f"data/{kind}.jsonl checksum (own manifest)"].ok is True
        assert checks[f"data/{kind}.jsonl rows (own manifest)"].ok is True
    # The same statement about another file is noticed in every shape.
    own(folder, shapes(sums | {"queries": "0" * 64})[shape])
    assert failed(verify(folder, pinned)) == ["data/queries.jsonl checksum (own manifest)"]


def test_what_a_manifest_does_not_say_is_left_open(folder: Path, pinned: Path) -> None:
    own(folder, {"files": {"data/queries.jsonl": {"rows": 1}}, "generator": {"version": [1]}})
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert checks["own manifest"].detail == "understood: checksums of 0 files, row counts of 1 files"
    assert checks["data/queries.jsonl checksum (own manifest)"].ok is None
    assert checks["data/tasks.jsonl rows (own manifest)"].ok is None
    assert checks["version"].ok is None


def test_what_makes_no_sense_is_noted_and_not_guessed_at(folder: Path, pinned: Path) -> None:
    document = {
        "files": [
            {"path": "data/queries.jsonl", "sha256": "5d41402abc4b2a76b9719d911017c592", "rows": "many"},
            {"path": "old/tasks.jsonl", "sha256": "0" * 64, "rows": -1},
            {"path": "new/tasks.jsonl", "sha256": "1" * 64, "rows": True},
        ]
    }
    own(folder, document)
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert checks["own manifest"].ok is None
    for words in (
        "the checksum of queries.jsonl is not a SHA-256: '5d41402abc",
        "the row count of queries.jsonl is not a count: 'many'",
        "the row count of tasks.jsonl is not a count: -1",
        "the row count of tasks.jsonl is not a count: True",
        "tasks.jsonl has 2 different checksums",
    ):
        assert words in checks["own manifest"].detail


@pytest.mark.parametrize("text", ["", "{", "[]", "\ufeff[1]", "[" * 100_000, '{"version": NaN}', '"\\ud800"'])
def test_a_manifest_that_cannot_be_read_fails_and_the_rest_goes_on(folder: Path, pinned: Path, text: str) -> None:
    (folder / "RELEASE_MANIFEST.json").write_text(text)
    checks = verify(folder, pinned)
    assert failed(checks) == ["own manifest"]
    assert checks["data/queries.jsonl readable"].ok is True


def test_a_file_that_the_manifest_lists_and_the_release_lacks(folder: Path, pinned: Path) -> None:
    (folder / "data/gold-postimage.jsonl").unlink()
    own(folder, {"files": {"data/gold_postimage.jsonl": {"rows": 1}}})
    assert failed(verify(folder, pinned)) == ["gold-postimage present (own manifest)"]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("data/gold_preimage.jsonl.gz", "gold-preimage.jsonl.gz"),
        ("gold-postimage", "gold-postimage"),
        ("data\\Tasks.parquet", "tasks.parquet"),
        ("queries.json", ""),
        ("data/", ""),
        ("my-queries.jsonl", ""),
    ],
)
def test_canonical_names(name: str, canonical: str) -> None:
    assert canonical_name(name) == canonical


# -- everything wrong is listed ---------------------------------------------------------------------------------------


def test_one_problem_does_not_hide_another(folder: Path, pinned: Path) -> None:
    own(folder, {"files": {f"data/{kind}.jsonl": {"sha256": digest(folder, kind), "rows": 1} for kind in FILES}})
    data = rows()
    data["queries"] += [{"repo": "x"}, IDS | {"query_id": "t1::q2", "query": "", "revision": COMMIT}]
    data["gold-postimage"][0]["positive_units"][0]["end_line"] = 0
    write(folder, data)
    (folder / "data/tasks.jsonl").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (folder / "data/tasks.jsonl.incomplete").write_bytes(b"")
    checks = verify(folder, pinned)
    assert failed(checks) == [
        "data/tasks.jsonl readable",
        "data/queries.jsonl readable",
        "data/gold-postimage.jsonl readable",
        "data/tasks.jsonl checksum (own manifest)",
        "data/queries.jsonl checksum (own manifest)",
        "data/queries.jsonl rows (own manifest)",
        "data/gold-postimage.jsonl checksum (own manifest)",
    ]
    listed = checks["data/queries.jsonl readable"].detail
    assert listed.startswith("2 problems: data/queries.jsonl:2: repo 'x' is not owner__name")
    assert "; data/queries.jsonl:3: query is empty" in listed
    assert checks["data/tasks.jsonl rows (own manifest)"].ok is None
    assert checks["query_ids of the tasks"].detail == "not checked: the release could not be read in full"
    assert checks["unfinished downloads"] == Check(
        "unfinished downloads", None, "not part of the release: data/tasks.jsonl.incomplete"
    )


def test_a_long_list_of_problems_is_cut_and_counted(folder: Path, pinned: Path) -> None:
    (folder / "data/queries.jsonl").write_text("{}\n" * 50)
    detail = verify(folder, pinned)["data/queries.jsonl readable"].detail
    assert detail.startswith("50 problems: data/queries.jsonl:1: repo is missing; ")
    assert detail.endswith("data/queries.jsonl:20: repo is missing; and 30 more")


def test_broken_references_fail(folder: Path, pinned: Path) -> None:
    data = rows()
    data["queries"].append(IDS | {"task_id": "t9", "query_id": "t9::q1", "query": "?", "revision": COMMIT})
    checks = verify(write(folder, data), pinned)
    assert failed(checks) == ["every query has its task", "every query has its gold-preimage row"]
    assert "data/queries.jsonl:2: task_id t9 of a__one is not in" in checks["every query has its task"].detail


def test_units_at_another_revision_than_their_corpus_fail(folder: Path, pinned: Path) -> None:
    data = rows()
    data["gold-preimage"][0]["positive_units"].append(a_unit("preimage", OTHER))
    data["gold-postimage"][0]["positive_units"].append(a_unit("postimage", OTHER))
    checks = verify(write(folder, data), pinned)
    assert failed(checks) == ["units stand at the revision of their corpus"]
    detail = checks["units stand at the revision of their corpus"].detail
    assert f"data/gold-preimage.jsonl:1: 1 of 2 units are not at {COMMIT}" in detail
    assert "data/gold-postimage.jsonl:1: 2 of 2 units are not at one revision" in detail


def test_lists_of_queries_that_disagree_fail(folder: Path, pinned: Path) -> None:
    data = rows()
    data["tasks"][0]["query_ids"] = ["t1::q1", "t1::q2"]
    checks = verify(write(folder, data), pinned)
    assert failed(checks) == ["query_ids of the tasks"]
    assert checks["query_ids of the tasks"].detail == "task t1 of a__one: t1::q2 on one side only"


def test_a_postimage_that_lacks_a_query_fails_and_none_at_all_does_not(folder: Path, pinned: Path) -> None:
    (folder / "data/gold-postimage.jsonl").unlink()
    checks = verify(folder, pinned)
    assert failed(checks) == []
    assert checks["every query has its gold-postimage row"].ok is None
    data = rows()
    data["queries"].append(IDS | {"query_id": "t1::q2", "query": "?", "revision": COMMIT})
    data["gold-preimage"].append(IDS | {"query_id": "t1::q2", "positive_units": []})
    data["tasks"][0]["query_ids"].append("t1::q2")
    checks = verify(write(folder, data), pinned)
    assert failed(checks) == ["every query has its gold-postimage row"]


def test_no_release_at_all(tmp_path: Path, pinned: Path) -> None:
    assert failed(verify(tmp_path / "none", pinned)) == ["release"]
    (tmp_path / "empty").mkdir()
    checks = verify(tmp_path / "empty", pinned)
    assert failed(checks) == ["tasks.jsonl readable", "queries.jsonl readable", "gold-preimage.jsonl readable"]


def test_a_broken_pin_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pin.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"pin\.json: is not JSON"):
        verify_release(folder, read_release(folder, "here"), tmp_path / "pin.json")


# -- recorded files and resources -------------------------------------------------------------------------------------


def test_recorded_files(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for name in ("same", "longer", "changed"):
        (tmp_path / "runs" / name).write_bytes(b"content")
    right = hashlib.sha256(b"content").hexdigest()
    recorded = {
        "runs/same": (right, 7),
        "runs/longer": (right, 6),
        "runs/changed": ("0" * 64, 7),
        "runs/gone": (right, 7),
        "runs": (right, 7),
        "../outside": (right, 7),
        "/etc/passwd": (right, 7),
    }
    checks = {check.name: check for check in verify_files(recorded, tmp_path)}
    assert [name for name, check in checks.items() if check.ok] == ["runs/same"]
    assert all(check.ok is not None for check in checks.values())
    assert checks["runs/longer"].detail == "7 bytes, recorded are 6"
    assert checks["runs/changed"].detail == f"sha256 {right}, recorded is {'0' * 64}"
    assert checks["runs/gone"].detail == f"missing from {tmp_path}"
    assert checks["../outside"].detail == checks["/etc/passwd"].detail == "the recorded name leads out of the folder"


def test_resources() -> None:
    assert resource("RELEASE_MANIFEST.json") == ROOT / "RELEASE_MANIFEST.json"
    with pytest.raises(EnvironmentProblem, match=r"none\.toml: this data file of quarry-harness is missing"):
        resource("manifests/none.toml")
