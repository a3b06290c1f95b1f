"""A user's mistakes and a machine's failures: a message with place and fix, the right exit code, no traceback."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from conftest import Ended

from quarry_harness.demo import build_mirror

Quarry = Callable[..., Ended]


def rows_of(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def write_rows(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def truncate(data: Path) -> None:
    file = data / "queries.jsonl"
    file.write_bytes(file.read_bytes()[:-40])


def wrong_type(data: Path) -> None:
    rows = rows_of(data / "gold-preimage.jsonl")
    rows[1]["positive_units"][0]["start_line"] = "ten"
    write_rows(data / "gold-preimage.jsonl", rows)


def unknown_language(data: Path) -> None:
    rows = rows_of(data / "tasks.jsonl")
    rows[3]["language"] = "Klingon"
    write_rows(data / "tasks.jsonl", rows)


def duplicate_query(data: Path) -> None:
    rows = rows_of(data / "queries.jsonl")
    write_rows(data / "queries.jsonl", [*rows, rows[0]])


def missing_task(data: Path) -> None:
    write_rows(data / "tasks.jsonl", rows_of(data / "tasks.jsonl")[1:])


def missing_file(data: Path) -> None:
    (data / "gold-preimage.jsonl").unlink()


def half_downloaded(data: Path) -> None:
    (data / "gold-preimage.jsonl").rename(data / "gold-preimage.jsonl.incomplete")


def traversal(data: Path) -> None:
    rows = rows_of(data / "gold-preimage.jsonl")
    rows[0]["positive_units"][0].pop("unit_key")
    rows[0]["positive_units"][0]["path"] = "../../etc/passwd"
    write_rows(data / "gold-preimage.jsonl", rows)


def absolute(data: Path) -> None:
    rows = rows_of(data / "gold-preimage.jsonl")
    rows[0]["positive_units"][0].pop("unit_key")
    rows[0]["positive_units"][0]["path"] = "/etc/passwd"
    write_rows(data / "gold-preimage.jsonl", rows)


def end_before_start(data: Path) -> None:
    rows = rows_of(data / "gold-preimage.jsonl")
    unit = rows[0]["positive_units"][0]
    unit.pop("unit_key")
    unit["start_line"], unit["end_line"] = 12, 9
    write_rows(data / "gold-preimage.jsonl", rows)


def option_as_revision(data: Path) -> None:
    rows = rows_of(data / "queries.jsonl")
    rows[0]["revision"] = "--upload-pack=touch /tmp/owned"
    write_rows(data / "queries.jsonl", rows)


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (truncate, "data/queries.jsonl:79"),
        (wrong_type, "data/gold-preimage.jsonl:2"),
        (unknown_language, "data/tasks.jsonl:4"),
        (duplicate_query, "data/queries.jsonl:80"),
        (missing_task, "data/queries.jsonl:1"),
        (missing_file, "gold-preimage"),
        (half_downloaded, "gold-preimage.jsonl.incomplete"),
        (traversal, "data/gold-preimage.jsonl:1"),
        (absolute, "data/gold-preimage.jsonl:1"),
        (end_before_start, "data/gold-preimage.jsonl:1"),
        (option_as_revision, "data/queries.jsonl:1"),
    ],
)
def test_an_invalid_release_is_refused_with_its_place(
    quarry: Quarry, release: Path, tmp_path: Path, damage: Callable[[Path], None], place: str
) -> None:
    damage(release / "data")
    done = quarry("fetch", "--release", release, "-w", tmp_path / "w")
    assert done.code == 3, done.err
    assert place in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not (tmp_path / "w").exists()
    verified = quarry("verify", "--release", release, "-w", tmp_path / "w", "--json")
    assert verified.code == 1
    assert verified.json["ok"] is False
    assert any(place in f"{check['name']}: {check['detail']}" for check in verified.json["checks"])


def test_an_invalid_release_leaves_a_finished_workspace_as_it_was(
    quarry: Quarry, workspace: Path, release: Path
) -> None:
    wrong_type(release / "data")
    assert quarry("fetch", "--release", release, "-w", workspace).code == 3
    done = quarry("run", "-w", workspace)
    assert done.code == 0
    assert "eval: nothing to do" in done.err


def test_an_unknown_release_names_what_is_accepted(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("fetch", "--release", "no-such-thing", "-w", tmp_path / "w")
    assert done.code == 2
    assert "hf://" in done.err
    assert "demo" in done.err


def test_a_database_of_another_version_says_how_to_rebuild(quarry: Quarry, workspace: Path) -> None:
    with duckdb.connect(str(workspace / "quarry.duckdb")) as db:
        db.execute("UPDATE meta SET value = '0' WHERE key = 'schema_version'")
    for command in ("status", "chunk", "verify"):
        done = quarry(command, "-w", workspace)
        assert done.code == 3
        assert "schema version 0" in done.err
        assert "delete that file" in done.err
    (workspace / "quarry.duckdb").unlink()
    assert quarry("run", "--release", "demo", "-w", workspace).code == 0


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to look like a file" * 100, b"x"])
def test_a_file_that_is_no_database_is_unreadable_input(quarry: Quarry, workspace: Path, content: bytes) -> None:
    (workspace / "quarry.duckdb").write_bytes(content)
    done = quarry("status", "-w", workspace)
    assert done.code == 3, done.err
    assert "quarry.duckdb" in done.err


def test_a_locked_workspace_names_the_process_that_holds_it(quarry: Quarry, workspace: Path) -> None:
    script = "import duckdb, sys, time; db = duckdb.connect(sys.argv[1]); print('ready', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", script, str(workspace / "quarry.duckdb")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            for name in ("chunk", "status", "eval"):
                done = quarry(name, "-w", workspace)
                assert done.code == 4, done.err
                assert f"process {holder.pid}" in done.err
        finally:
            holder.kill()
    assert quarry("chunk", "-w", workspace).code == 0


def test_without_git_the_fix_is_named(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("run", "--release", "demo", "-w", tmp_path / "w", env={"PATH": str(tmp_path)})
    assert done.code == 4
    assert "git" in done.err
    assert "Install" in done.err or "install" in done.err


def test_an_unreachable_mirror_stops_before_anything_is_measured(quarry: Quarry, tmp_path: Path) -> None:
    template = f"file://{tmp_path}/nowhere/{{owner}}/{{name}}.git"
    done = quarry("run", "--release", "demo", "--mirror", template, "-w", tmp_path / "w", "--limit", 2)
    assert done.code == 4
    assert "None of the" in done.err
    assert "--mirror" in done.err
    assert done.out == ""
    assert not (tmp_path / "w" / "runs").exists()
    assert "Traceback" not in done.err


def test_a_mirror_without_its_fields_is_a_usage_error(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("fetch", "--release", "demo", "--mirror", "file:///srv/mirror", "-w", tmp_path / "w")
    assert done.code == 2
    assert "{owner}" in done.err


def test_an_unknown_model_lists_those_there_are(quarry: Quarry, demo_workspace: Path, tmp_path: Path) -> None:
    done = quarry("eval", "--model", "word2vec", "-w", demo_workspace)
    assert done.code == 2
    assert "bm25" in done.err
    # Before anything is fetched, not after three days of it.
    assert quarry("run", "--release", "demo", "--model", "word2vec", "-w", tmp_path / "w").code == 2
    assert not (tmp_path / "w").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_may_not_be_written_is_an_environment_problem(quarry: Quarry, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert quarry("fetch", "--release", "demo", "-w", tmp_path / "w").code == 4


def test_a_workspace_path_that_is_a_file_is_usage(quarry: Quarry, tmp_path: Path) -> None:
    (tmp_path / "w").write_text("")
    assert quarry("fetch", "--release", "demo", "-w", tmp_path / "w").code == 2


def test_a_killed_run_goes_on_and_ends_the_same(quarry: Quarry, demo_workspace: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quarry_harness", "run", "--release", "demo", "-w", str(tmp_path / "w"), "-j", "1"]
    for delay_s in (0.3, 0.6, 0.9, 1.1, 1.3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(delay_s)
            process.kill()
    assert quarry("run", "--release", "demo", "-w", tmp_path / "w").code == 0
    (ours,) = (tmp_path / "w" / "runs").iterdir()
    (undisturbed,) = (demo_workspace / "runs").iterdir()
    for name in ("run.trec", "qrels.trec", "per_query.parquet", "result.json"):
        assert (ours / name).read_bytes() == (undisturbed / name).read_bytes()
    assert quarry("verify", "-w", tmp_path / "w").code == 0


def test_a_lost_repository_is_found_by_verify_and_fetched_again(quarry: Quarry, workspace: Path) -> None:
    shutil.rmtree(workspace / "repos" / "quarry-demo__till.git")
    done = quarry("verify", "-w", workspace, "--json")
    assert done.code == 1
    assert [check["name"] for check in done.json["checks"] if check["ok"] is False] == ["repository quarry-demo__till"]
    fetched = quarry("fetch", "-w", workspace, "--json").json
    assert fetched["fetched"] == 1
    assert quarry("verify", "-w", workspace).code == 0


def test_a_release_that_changed_after_its_import_is_found(quarry: Quarry, release: Path, tmp_path: Path) -> None:
    template = build_mirror(tmp_path / "mirror")
    w = ("-w", tmp_path / "w")
    assert quarry("fetch", "--release", release, "--mirror", template, *w).code == 0
    assert quarry("verify", *w).code == 0
    rows = rows_of(release / "data" / "queries.jsonl")
    rows[0]["query"] += " really"
    write_rows(release / "data" / "queries.jsonl", rows)
    done = quarry("verify", *w, "--json")
    assert done.code == 1
    (check,) = [check for check in done.json["checks"] if check["ok"] is False]
    assert "data/queries.jsonl" in check["detail"]


def test_a_number_changed_in_a_finished_run_is_never_shown(quarry: Quarry, workspace: Path) -> None:
    (folder,) = (workspace / "runs").iterdir()
    result = folder / "result.json"
    whole = result.read_bytes()
    at = whole.index(b'"recall@5": 0.') + len(b'"recall@5": 0.')
    result.write_bytes(whole[:at] + b"9" + whole[at + 1 :])
    assert quarry("eval", "-w", workspace).code == 0
    assert result.read_bytes() == whole


def test_a_database_with_damaged_blocks_is_damaged_and_not_locked(quarry: Quarry, workspace: Path) -> None:
    file = workspace / "quarry.duckdb"
    content = bytearray(file.read_bytes())
    for at in range(0, 16_384, 64):
        content[at + 40] ^= 0xFF
    file.write_bytes(content)
    done = quarry("status", "-w", workspace)
    assert done.code == 3, done.err
    assert "delete that file" in done.err


def test_one_damaged_repository_does_not_keep_the_others_waiting(quarry: Quarry, tmp_path: Path) -> None:
    w = tmp_path / "w"
    assert quarry("fetch", "--release", "demo", "-w", w).code == 0
    objects = w / "repos" / "quarry-demo__belfry.git" / "objects"
    shutil.rmtree(objects)
    objects.mkdir()
    done = quarry("chunk", "-w", w, "-j", "1")
    assert done.code == 3, done.err
    assert "quarry-demo__belfry.git" in done.err
    assert quarry("status", "-w", w, "--json").json["images"]["preimage"]["chunked"] == 15
    shutil.rmtree(w / "repos" / "quarry-demo__belfry.git")
    done = quarry("run", "-w", w, "--json")
    assert done.code == 0, done.err
    assert done.json["canonicalize"]["unresolved"] == []


def test_an_image_that_the_release_does_not_state_is_a_usage_error(
    quarry: Quarry, release: Path, tmp_path: Path
) -> None:
    (release / "data" / "gold-postimage.jsonl").unlink()
    done = quarry("run", "--release", release, "--image", "postimage", "-w", tmp_path / "w")
    assert done.code == 2
    assert "no revision at postimage" in done.err


def test_a_workspace_whose_release_has_moved_can_still_be_verified(
    quarry: Quarry, release: Path, tmp_path: Path
) -> None:
    template = build_mirror(tmp_path / "mirror")
    w = ("-w", tmp_path / "w")
    assert quarry("fetch", "--release", release, "--mirror", template, *w).code == 0
    release.rename(tmp_path / "elsewhere")
    done = quarry("verify", *w, "--json")
    assert done.code == 0
    assert any(check["name"].startswith("database") for check in done.json["checks"])
    assert any("cannot be had" in check["detail"] for check in done.json["checks"])


def test_a_kill_before_the_tables_were_made_leaves_a_workspace_without_a_release(
    quarry: Quarry, tmp_path: Path
) -> None:
    (tmp_path / "w").mkdir()
    duckdb.connect(str(tmp_path / "w" / "quarry.duckdb")).close()
    done = quarry("status", "-w", tmp_path / "w")
    assert done.code == 0, done.err
    assert quarry("run", "--release", "demo", "-w", tmp_path / "w").code == 0
