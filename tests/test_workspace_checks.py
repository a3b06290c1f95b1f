"""`quarry verify` of a workspace: whatever another hand has changed in it is noticed."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import Ended

Quarry = Callable[..., Ended]


def wrong(done: Ended) -> list[str]:
    return [line.split(": ")[1] if "database" in line else line for line in done.out.splitlines() if "WRONG" in line]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE chunk SET name = 'other' WHERE blob = 3 AND ordinal = 0", "blobs whose chunks"),
        ("UPDATE chunk SET text = text || ' ' WHERE blob = 3 AND ordinal = 0", "blobs whose chunks"),
        ("DELETE FROM chunk WHERE blob = 3", "blobs whose chunks"),
        ("UPDATE entry SET path = 'z' WHERE path = (SELECT min(path) FROM entry)", "revisions whose listing"),
        ("DELETE FROM entry WHERE path = (SELECT min(path) FROM entry)", "revisions whose listing"),
        ("UPDATE query SET text = 'another' WHERE ordinal = 0", "a release"),
        ("UPDATE gold_unit SET relevance = 'RELATED' WHERE relevance = 'ESSENTIAL'", "a release"),
        ("UPDATE resolution SET tier = 'lines' WHERE query = 2", "resolutions"),
    ],
)
def test_a_row_that_another_hand_changed_is_noticed(quarry: Quarry, workspace: Path, change: str, told: str) -> None:
    assert wrong(quarry("verify", "-w", workspace)) == []
    with duckdb.connect(str(workspace / "quarry.duckdb")) as database:
        database.execute(change)
    done = quarry("verify", "-w", workspace)
    assert done.code == 1
    assert any(line.startswith(told) for line in wrong(done)), done.out


def test_what_is_written_in_any_order_and_again_stays_right(quarry: Quarry, workspace: Path) -> None:
    for command in (["run", "--language", "go"], ["run", "--profile", "all"], ["run", "--image", "postimage"]):
        assert quarry(command[0], "--release", "demo", *command[1:], "-q", "-w", workspace).code == 0
    assert wrong(quarry("verify", "-w", workspace)) == []


@pytest.mark.parametrize("place", [30, -30])
def test_a_pack_with_a_changed_byte_is_noticed_and_hides_nothing(quarry: Quarry, workspace: Path, place: int) -> None:
    pack = next((workspace / "repos" / "quarry-demo__belfry.git" / "objects" / "pack").glob("*.pack"))
    data = bytearray(pack.read_bytes())
    data[place] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(data)
    done = quarry("verify", "-w", workspace)
    assert done.code == 1, done.err
    (line,) = wrong(done)
    assert "repository quarry-demo__belfry" in line
    assert "run quarry fetch again" in line
    assert "repository quarry-demo__waypost: all there" in done.out


def test_a_manifest_that_names_other_files_says_so(quarry: Quarry, release: Path, tmp_path: Path) -> None:
    (release / "RELEASE_MANIFEST.json").write_text('{"files": {"nothere.jsonl": {"sha256": "' + "a" * 64 + '"}}}')
    done = quarry("verify", "--release", release, "-w", tmp_path / "w")
    assert "a checksum of 'nothere.jsonl', which is no file of a release" in done.out


def test_an_evaluation_of_labels_whose_chunks_are_gone_is_no_fault_of_ours(quarry: Quarry, workspace: Path) -> None:
    with duckdb.connect(str(workspace / "quarry.duckdb")) as database:
        database.execute("DELETE FROM chunk WHERE (blob, ordinal) IN (SELECT blob, chunk FROM resolution)")
    done = quarry("eval", "--depth", 60, "-w", workspace)
    assert done.code == 3
    assert "quarry verify" in done.err


def test_a_workspace_goes_on_without_the_place_its_release_came_from(
    quarry: Quarry, release: Path, tmp_path: Path
) -> None:
    from quarry_harness.demo import build_mirror

    template = build_mirror(tmp_path / "mirror")
    place = ("-w", tmp_path / "w", "--json")
    first = quarry("run", "--release", release, "--mirror", template, *place)
    assert first.code == 0, first.err
    with (release / "data" / "queries.jsonl").open("a") as file:
        file.write(" ")
    release.rename(tmp_path / "elsewhere")
    again = quarry("run", *place)
    assert again.code == 0, again.err
    assert again.json["eval"]["done_before"]
    assert [again.json["fetch"][key] for key in ("fetched", "missing", "tasks", "release_changed")] == [
        0,
        [],
        42,
        False,
    ]
    part = quarry("run", "--language", "go", *place)
    assert part.json["eval"]["queries"] == 7
    postimage = quarry("run", "--image", "postimage", *place)
    assert postimage.code == 0, postimage.err


def test_a_release_that_changed_is_told_when_it_is_taken_in(quarry: Quarry, release: Path, tmp_path: Path) -> None:
    from quarry_harness.demo import build_mirror

    command = ("fetch", "--release", release, "--mirror", build_mirror(tmp_path / "mirror"), "-w", tmp_path / "w")
    assert "held another" not in quarry(*command).out
    queries = release / "data" / "queries.jsonl"
    queries.write_text(queries.read_text().replace("Where", "In which place", 1))
    assert "held another release, or another state of this one" in quarry(*command).out
