"""The stages as their user runs them, on the built-in release."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import ir_measures
import pyarrow.parquet as pq
import pytest
from conftest import Ended
from ir_measures import R

from quarry_harness.demo import build_mirror, release_folder
from quarry_harness.models import Choice
from quarry_harness.stages.evaluate import evaluate

Quarry = Callable[..., Ended]


def only_run(workspace: Path) -> Path:
    (folder,) = (workspace / "runs").iterdir()
    return folder


def change_rows(file: Path, change: Callable[[dict], None], which: int = 0) -> None:
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    change(rows[which])
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_every_gold_unit_of_the_demo_resolves_exactly(quarry: Quarry, demo_workspace: Path) -> None:
    document = quarry("canonicalize", "-w", demo_workspace, "--json").json
    assert document["units"] == document["resolved"] == document["by_tier"]["exact"] > 100
    assert document["unresolved"] == []


def test_a_second_run_does_nothing_and_says_so(quarry: Quarry, workspace: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (workspace / "runs").rglob("*")}
    done = quarry("run", "-w", workspace)
    assert done.code == 0
    for stage in ("fetch", "chunk", "canonicalize", "eval"):
        assert f"{stage}: nothing to do" in done.err
    assert {path: path.stat().st_mtime_ns for path in (workspace / "runs").rglob("*")} == before


def test_an_empty_workspace_and_other_jobs_give_the_same_bytes(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    assert quarry("run", "--release", "demo", "-w", tmp_path / "other", "--jobs", 2).code == 0
    first, second = only_run(demo_workspace), only_run(tmp_path / "other")
    assert first.name == second.name
    for name in ("run.trec", "qrels.trec", "per_query.parquet", "result.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_measures_equal_those_of_ir_measures_on_the_files_we_write(demo_workspace: Path) -> None:
    folder = only_run(demo_workspace)
    result = json.loads((folder / "result.json").read_text("utf-8"))
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.trec")))
    run = list(ir_measures.read_trec_run(str(folder / "run.trec")))
    # TREC tools break ties by document id; ranks made into scores keep ours.
    ranks: dict[str, int] = {}
    ranked = []
    for doc in run:
        ranks[doc.query_id] = ranks.get(doc.query_id, 0) + 1
        ranked.append(ir_measures.ScoredDoc(doc.query_id, doc.doc_id, -float(ranks[doc.query_id])))
    expected = ir_measures.calc_aggregate([R @ k for k in (5, 10, 20, 50)], qrels, ranked)
    for k in (5, 10, 20, 50):
        assert result["measures"][f"recall@{k}"] == pytest.approx(expected[R @ k], abs=1e-9)


def test_the_per_query_table_has_the_ranks_that_the_run_file_has(demo_workspace: Path) -> None:
    folder = only_run(demo_workspace)
    ranking: dict[str, list[str]] = {}
    for line in (folder / "run.trec").read_text("utf-8").splitlines():
        query, _, document, rank, _, _ = line.split()
        ranking.setdefault(query, []).append(document)
        assert int(rank) == len(ranking[query])
    for row in pq.read_table(folder / "per_query.parquet").to_pylist():
        for key, rank in zip(row["gold_unit_keys"], row["gold_ranks"], strict=True):
            # A unit's key ends in path:symbol:lines, which is a document's id.
            document = key.split(":", 2)[2]
            found = ranking.get(row["query_id"], [])
            assert (found.index(document) + 1 if document in found else 0) == rank


def test_later_stages_say_which_stage_comes_first(quarry: Quarry, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    for command in ("chunk", "canonicalize", "eval", "status"):
        done = quarry(command, "-w", workspace)
        assert done.code == 2
        assert "quarry fetch --release" in done.err
    assert not workspace.exists()
    assert quarry("fetch", "--release", "demo", "-w", workspace).code == 0
    done = quarry("canonicalize", "-w", workspace)
    assert (done.code, "quarry chunk" in done.err) == (2, True)
    assert quarry("chunk", "-w", workspace, "--jobs", 1).code == 0
    done = quarry("eval", "-w", workspace)
    assert (done.code, "quarry canonicalize" in done.err) == (2, True)
    done = quarry("eval", "-w", workspace, "--image", "postimage")
    assert (done.code, "--image postimage" in done.err) == (2, True)


def test_json_names_that_others_rely_on(quarry: Quarry, tmp_path: Path) -> None:
    w = ("-w", tmp_path / "w", "--json")
    fetched = quarry("fetch", "--release", "demo", *w).json
    assert {"revisions", "fetched", "present", "missing", "bytes", "requests"} <= fetched.keys()
    assert fetched["fetched"] == fetched["revisions"] > 11
    again = quarry("fetch", *w).json
    assert (again["present"], again["fetched"], again["requests"]) == (fetched["revisions"], 0, 0)
    chunked = quarry("chunk", *w).json
    assert {"revisions", "files", "blobs", "parsed", "chunks", "bytes", "seconds", "skipped"} <= chunked.keys()
    assert chunked["parsed"] == chunked["blobs"] < chunked["files"]
    assert chunked["skipped"] == {"binary": 1, "lfs_pointer": 1}
    assert quarry("chunk", *w).json["parsed"] == 0
    resolved = quarry("canonicalize", *w).json
    assert {"units", "resolved", "by_tier", "unresolved"} <= resolved.keys()
    evaluated = quarry("eval", "--model", "bm25", *w).json
    names = {f"{m}@{k}" for m in ("recall", "all_gold") for k in (5, 10, 20, 50)}
    assert names <= evaluated["measures"].keys()
    assert all(0 <= evaluated["measures"][name] <= 1 for name in names)
    assert {"run_id", "model", "queries", "rollup", "unresolved_units", "queries_without_result"} <= evaluated.keys()
    verified = quarry("verify", *w).json
    assert verified["ok"] is True
    assert all({"name", "ok", "detail"} == check.keys() for check in verified["checks"])


def test_postimage_finds_moved_units_and_counts_queries_without_a_revision(quarry: Quarry, workspace: Path) -> None:
    done = quarry("run", "-w", workspace, "--image", "postimage", "--json")
    assert done.code == 0, done.err
    document = done.json
    assert document["fetch"]["queries_without_revision"] > 0
    assert document["canonicalize"]["by_tier"]["exact"] == document["canonicalize"]["units"] > 40
    evaluated = document["eval"]
    assert evaluated["queries"] + evaluated["queries_without_gold"] == 79
    # A query with nothing to find is in no mean, so it is not among those that count 0 either.
    assert evaluated["queries_without_result"] == 0
    assert evaluated["queries_without_gold"] > 40


def test_a_selection_is_kept_said_and_can_be_widened(quarry: Quarry, tmp_path: Path) -> None:
    w = tmp_path / "w"
    first = quarry("run", "--release", "demo", "--language", "c#", "--limit", 2, "-w", w)
    assert first.code == 0
    assert "2 tasks (a selection of languages c#; the first 2: the release has 42 tasks)" in first.out
    kept = quarry("run", "-w", w)
    assert "eval: nothing to do" in kept.err
    everything = quarry("run", "--release", "demo", "-w", w, "--json").json
    assert everything["fetch"]["tasks"] == 42
    assert len(list((w / "runs").iterdir())) == 2


def test_a_filter_that_matches_nothing_is_refused(quarry: Quarry, tmp_path: Path) -> None:
    done = quarry("fetch", "--release", "demo", "--repo", "quarry-demo/pantri", "-w", tmp_path / "w")
    assert done.code == 2
    assert "quarry-demo__pantry" in done.err
    assert not (tmp_path / "w").exists()


def test_dry_run_counts_and_writes_nothing(quarry: Quarry, tmp_path: Path, demo_workspace: Path) -> None:
    document = quarry("fetch", "--release", "demo", "--dry-run", "-w", tmp_path / "w", "--json").json
    assert (document["to_fetch"], document["present"]) == (document["revisions"], 0)
    assert not (tmp_path / "w").exists()
    document = quarry("fetch", "--dry-run", "-w", demo_workspace, "--json").json
    assert (document["to_fetch"], document["present"]) == (0, document["revisions"])


def test_a_lost_database_is_made_again_from_what_is_fetched(quarry: Quarry, workspace: Path) -> None:
    before = only_run(workspace)
    kept = (before / "run.trec").read_bytes()
    (workspace / "quarry.duckdb").unlink()
    shutil.rmtree(workspace / "demo-mirror")
    done = quarry("run", "--release", "demo", "-w", workspace, "--json")
    assert done.code == 0, done.err
    assert done.json["fetch"]["fetched"] == 0
    assert (only_run(workspace) / "run.trec").read_bytes() == kept


def test_a_revision_that_the_remote_lacks_is_counted_and_the_rest_goes_on(
    quarry: Quarry, release: Path, tmp_path: Path
) -> None:
    gone = "0123456789" * 4
    old = ""

    def point_elsewhere(row: dict) -> None:
        nonlocal old
        old = row["revision"]

    change_rows(release / "data" / "queries.jsonl", point_elsewhere)
    for file in (release / "data").iterdir():
        file.write_text(file.read_text("utf-8").replace(old, gone), "utf-8")
    template = build_mirror(tmp_path / "mirror")
    done = quarry("run", "--release", release, "--mirror", template, "-w", tmp_path / "w", "--json")
    assert done.code == 1, done.err
    (missing,) = done.json["fetch"]["missing"]
    assert (missing["revision"], missing["status"]) == (gone, "revision_gone")
    reasons = {row["reason"] for row in done.json["canonicalize"]["unresolved"]}
    assert reasons == {"revision_missing: revision_gone"}
    evaluated = done.json["eval"]
    assert evaluated["queries"] == 79
    assert evaluated["unresolved_units"] == len(done.json["canonicalize"]["unresolved"]) > 0
    assert evaluated["queries_without_result_by_reason"]["revision_missing"] > 0
    status = quarry("status", "-w", tmp_path / "w", "--json").json
    assert [row["revision"] for row in status["images"]["preimage"]["missing"]] == [gone]


def test_unresolved_gold_is_counted_in_the_denominator(quarry: Quarry, release: Path, tmp_path: Path) -> None:
    def break_unit(row: dict) -> None:
        unit = row["positive_units"][0]
        unit.pop("unit_key")
        unit["path"] = "no/such/file.py"
        unit["fqmn"] = "nothing"
        row["positive_units"] = [unit]

    change_rows(release / "data" / "gold-preimage.jsonl", break_unit)
    template = build_mirror(tmp_path / "mirror")
    done = quarry("run", "--release", release, "--mirror", template, "-w", tmp_path / "w", "--json")
    assert done.code == 1
    assert [row["reason"] for row in done.json["canonicalize"]["unresolved"]] == ["path_absent"]
    query = done.json["canonicalize"]["unresolved"][0]["query_id"]
    rows = pq.read_table(only_run(tmp_path / "w") / "per_query.parquet").to_pylist()
    (row,) = [row for row in rows if row["query_id"] == query]
    assert (row["recall@50"], row["all_gold@50"], row["unresolved_units"]) == (0.0, 0.0, 1)
    assert done.json["eval"]["unresolved_units"] == 1


def test_lines_past_the_end_of_a_file_are_invalid_input_with_their_place(
    quarry: Quarry, release: Path, tmp_path: Path
) -> None:
    def stretch(row: dict) -> None:
        unit = row["positive_units"][0]
        unit.pop("unit_key")
        unit["end_line"] = 100_000

    change_rows(release / "data" / "gold-preimage.jsonl", stretch, which=2)
    template = build_mirror(tmp_path / "mirror")
    done = quarry("run", "--release", release, "--mirror", template, "-w", tmp_path / "w")
    assert done.code == 3
    assert "data/gold-preimage.jsonl:3: unit" in done.err
    assert "past the end" in done.err
    # Told at the end, so that it costs no other query its number.
    assert "recall@5" in done.out
    # What was done before is kept, and the unit stays in the denominator.
    evaluated = quarry("eval", "-w", tmp_path / "w", "--json")
    assert (evaluated.code, evaluated.json["unresolved_units"]) == (1, 1)


def test_the_demo_goes_through_the_same_code_as_a_release_in_a_folder(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    template = build_mirror(tmp_path / "mirror")
    done = quarry("run", "--release", release_folder(), "--mirror", template, "-w", tmp_path / "w", "--json")
    assert done.code == 0
    # The releases have different names, so the runs have different ids; the rankings are the same to the letter.
    first, second = (
        [line.rpartition(" ")[0] for line in (only_run(folder) / "run.trec").read_text("utf-8").splitlines()]
        for folder in (tmp_path / "w", demo_workspace)
    )
    assert first == second


def test_a_damaged_run_is_found_and_made_again(quarry: Quarry, workspace: Path) -> None:
    file = only_run(workspace) / "run.trec"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    done = quarry("verify", "-w", workspace, "--json")
    assert done.code == 1
    assert [check["name"] for check in done.json["checks"] if check["ok"] is False] == [
        f"run {file.parent.name}: run.trec"
    ]
    assert "DAMAGED" in quarry("status", "-w", workspace).out
    assert quarry("eval", "-w", workspace).code == 0
    assert file.read_bytes() == whole
    assert quarry("verify", "-w", workspace).code == 0


def test_an_interrupted_evaluation_goes_on_with_the_corpora_it_has_not_searched(
    demo_workspace: Path, workspace: Path
) -> None:
    expected = {path.name: path.read_bytes() for path in only_run(demo_workspace).iterdir()}
    with duckdb.connect(str(workspace / "quarry.duckdb")) as db:
        db.execute("DELETE FROM run_file")
        db.execute("DELETE FROM run")
    shutil.rmtree(workspace / "runs")
    seen: list[str] = []

    def stop_after_five(done: int, _total: int, words: str) -> None:
        seen.append(words)
        if done == 5:
            raise KeyboardInterrupt

    def note(_done: int, _total: int, words: str) -> None:
        seen.append(words)

    arguments = (Choice("bm25"), "preimage", "quarry", 100)
    with pytest.raises(KeyboardInterrupt):
        evaluate(workspace, *arguments, stop_after_five)
    assert not (workspace / "runs").exists()
    first, seen = seen[:5], []
    evaluate(workspace, *arguments, note)
    assert not set(first) & set(seen)
    for name in ("run.trec", "qrels.trec", "per_query.parquet", "result.json"):
        assert (only_run(workspace) / name).read_bytes() == expected[name]


def test_two_units_in_one_chunk_are_two_units_and_one_document(quarry: Quarry, release: Path, tmp_path: Path) -> None:
    def name_it_twice(row: dict) -> None:
        unit = row["positive_units"][0]
        unit.pop("unit_key")
        row["positive_units"] = [unit, unit | {"symbol": "formerly", "relevance": "RELATED"}]

    change_rows(release / "data" / "gold-preimage.jsonl", name_it_twice, which=3)
    template = build_mirror(tmp_path / "mirror")
    done = quarry("run", "--release", release, "--mirror", template, "-w", tmp_path / "w", "--json")
    assert (done.code, done.json["canonicalize"]["by_tier"]["lines"]) == (0, 1), done.err
    row = pq.read_table(only_run(tmp_path / "w") / "per_query.parquet").to_pylist()[3]
    rank = row["gold_ranks"][0]
    assert row["gold_ranks"] == [rank, rank] == [2, 2]
    assert row["gold_documents"] == [0, 0]
    assert (row["first_rank"], row["last_rank"]) == (rank, rank)
    assert row["AP@10"] == row["RR@10"] == 1 / rank
    qrels = (only_run(tmp_path / "w") / "qrels.trec").read_text("utf-8").splitlines()
    assert [line.split()[-1] for line in qrels if line.startswith(row["query_id"])] == ["2"]


def test_a_run_says_how_sure_it_is_and_where_its_points_are(demo_workspace: Path) -> None:
    folder = only_run(demo_workspace)
    result = json.loads((folder / "result.json").read_text("utf-8"))
    intervals = result["intervals"]
    assert (intervals["by"], intervals["clusters"], intervals["resamples"]) == ("task", 42, 10_000)
    for name, (low, high) in intervals["measures"].items():
        assert low < result["measures"][name] < high, name
    groups = result["groups"]
    assert groups.keys() == {"gold_units", "corpus_chunks", "relevance", "kind", "chunk_bytes"}
    assert sum(group["queries"] for group in groups["gold_units"].values()) == result["queries"]
    assert sum(group["queries"] for group in groups["corpus_chunks"].values()) == result["queries"]
    for name in ("relevance", "kind", "chunk_bytes"):
        assert sum(group["units"] for group in groups[name].values()) == result["units"]
    essential = groups["relevance"]["ESSENTIAL"]["micro"]["recall@5"]
    assert essential == pytest.approx(result["measures"]["essential_recall@5"])
    assert {"function", "method"} <= groups["kind"].keys()
    for row in pq.read_table(folder / "per_query.parquet").to_pylist():
        found = [rank for rank in row["gold_ranks"] if rank]
        assert row["first_rank"] == min(found, default=0)
        assert row["last_rank"] == (max(found) if len(found) == row["gold_units"] else 0)
        assert all(size > 0 for size in row["gold_chunk_bytes"])
