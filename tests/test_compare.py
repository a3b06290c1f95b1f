"""`quarry compare`: which queries, which numbers, what is refused and what is said."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Ended

from quarry_harness import measures, significance
from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.runs import per_query_table, write_run
from quarry_harness.stages.compare import Plan, compare

Quarry = Callable[..., Ended]
Row = tuple[str, str, Sequence[int]]


def keep(folder: Path, name: str, rows: Sequence[Row], depth: int = 100, **settings: Any) -> Path:
    """A run folder. rows: repo, task, ranks of the query's units; the last unit of a query is RELATED."""
    documents = [
        {
            "query_id": f"{task}::q{number}",
            "repo": repo,
            "task_id": task,
            "query": f"question {number}",
            "retrieved": depth if any(ranks) else 0,
            "gold_unit_keys": [f"preimage:0:f.go:{task}:{number}:{unit}" for unit in range(len(ranks))],
            "gold_relevances": ["ESSENTIAL"] * (len(ranks) - 1) + ["RELATED"] * bool(ranks),
            "gold_ranks": list(ranks),
            "gold_documents": list(range(len(ranks))),
        }
        for number, (repo, task, ranks) in enumerate(rows)
    ]
    result = {"run_id": name, "model": name.partition("-")[0], "image": "preimage", "release": "made"}
    result |= {"settings": {"depth": depth} | settings, "unresolved_units": 0, "revisions_missing": 0}
    write_run(folder / "runs" / name, [], [], per_query_table(documents, []), result, {})
    return folder / "runs" / name


def compared(folder: Path, *names: str, plan: Plan | None = None, **options: Any) -> dict[str, Any]:
    settings = {"baseline": None, "first_stage": None, "pool": None} | options
    return compare(
        folder, names, settings["baseline"], plan or Plan(("recall@5",), resamples=999), *list(settings.values())[1:]
    )


BASE: list[Row] = [("a__x", "t1", (1, 0)), ("a__x", "t1", (9,)), ("a__x", "t2", (2,)), ("b__y", "t3", ())]
BETTER: list[Row] = [("a__x", "t1", (1, 2)), ("a__x", "t1", (4,)), ("a__x", "t2", (6,)), ("b__y", "t3", ())]


def test_by_hand(tmp_path: Path) -> None:
    # recall@5: base 0.5, 0, 1; better 1, 1, 0: two wins, one loss; the fourth query has nothing to find.
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "better-1", BETTER)
    document = compared(tmp_path, "base-1", "better-1")
    first, second = document["rows"]
    assert (first["run_id"], first["value"]) == ("base-1", 0.5)
    assert second["value"] == pytest.approx(2 / 3)
    assert second["difference"] == pytest.approx(1 / 6)
    assert (second["wins"], second["ties"], second["losses"]) == (2, 0, 1)
    assert (document["queries"], document["queries_without_gold"], document["clusters"]) == (3, 1, 2)
    # Sums of the tasks: t1 +1.5, t2 -1. Of the four ways to flip them, all are at least as far from 0 as 0.5.
    assert second["p"] == second["p_corrected"] == 1
    assert document["same_queries"] is True
    assert "difference" not in first


def test_every_number_is_what_the_measures_and_the_statistics_give(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    runs: list[list[Row]] = [
        [(f"r__{q % 5}", f"t{q // 3}", rng.permutation(40)[: 1 + q % 4].tolist()) for q in range(90)] for _ in range(3)
    ]
    for number, rows in enumerate(runs):
        keep(tmp_path, f"m{number}-1", rows)
    wanted = ("recall@5", "AP", "nDCG@10", "essential_recall@10")
    document = compared(tmp_path, "m0-1", "m1-1", "m2-1", plan=Plan(wanted, "repo", 500, 9))
    assert [(row["measure"], row["run_id"]) for row in document["rows"]] == [
        (name, f"m{number}-1") for name in wanted for number in range(3)
    ]
    columns = [
        measures.per_query(
            [
                measures.QueryRanks("", "", "", "", tuple(ranks), (True,) * (len(ranks) - 1) + (False,), 100)
                for _, _, ranks in rows
            ],
            wanted,
        )
        for rows in runs
    ]
    repos = [row[0] for row in runs[0]]
    raw = []
    for name in wanted:
        for number in (1, 2):
            ours, base = columns[number][name], columns[0][name]
            (row,) = [r for r in document["rows"] if (r["measure"], r["run_id"]) == (name, f"m{number}-1")]
            assert row["value"] == pytest.approx(np.nanmean(ours))
            assert row["difference"] == pytest.approx(np.nanmean(ours - base))
            difference = significance.clustered((ours - base)[:, None], repos)
            assert row["p"] == significance.permutation(difference, 500, 9)[0]
            drawn = significance.bootstrap(difference, 500, 9)
            assert row["difference_interval"] == pytest.approx(significance.interval(drawn)[:, 0].tolist())
            assert row["detectable"] == pytest.approx(significance.detectable(drawn)[0])
            alone = significance.bootstrap(significance.clustered(ours[:, None], repos), 500, 9)
            assert row["interval"] == pytest.approx(significance.interval(alone)[:, 0].tolist())
            raw.append((row["p"], row["p_corrected"]))
    assert [corrected for _, corrected in raw] == significance.holm([p for p, _ in raw])
    assert document["correction"] == "Holm over the 8 tests of this table"


def test_only_common_queries_are_compared_and_the_others_counted(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "less-1", BETTER[:2])
    document = compared(tmp_path, "base-1", "less-1")
    assert document["same_queries"] is False
    assert [run["queries_not_compared"] for run in document["runs"]] == [2, 0]
    assert [row["value"] for row in document["rows"]] == [0.25, 1]
    text = quarry("compare", "base-1", "less-1", "-w", tmp_path).out
    assert "2 runs on the 2 queries that all have" in text
    assert "base-1: 2 of its 4 queries are not compared" in text


def test_other_labels_for_a_query_are_refused(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "other-1", [BETTER[0], ("a__x", "t1", (4, 5)), *BETTER[2:]])
    done = quarry("compare", "base-1", "other-1", "-w", tmp_path)
    assert done.code == 3
    assert "t1::q1: base-1 and other-1 have different gold units" in done.err
    assert done.out == ""


def test_another_text_of_a_query_is_refused(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: the queries of a changed copy of a release were compared as pairs."""
    keep(tmp_path, "base-1", BASE)
    change_rows(keep(tmp_path, "other-1", BETTER), 1, query="another question")
    done = quarry("compare", "base-1", "other-1", "-w", tmp_path)
    assert (done.code, done.out) == (3, "")
    assert "t1::q1: base-1 and other-1 have different texts of this query" in done.err


def change_rows(folder: Path, number: int, **values: Any) -> None:
    """Writes other values into one row of a run's per-query table."""
    table = pq.read_table(folder / "per_query.parquet")
    rows = table.to_pylist()
    rows[number] |= values
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), folder / "per_query.parquet")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gold_ranks": [3, 3]}, "two documents have one rank"),
        ({"gold_documents": [0, 0]}, "units of one document have different ranks"),
        ({"gold_ranks": [3]}, "the lists of a query's gold units differ in length"),
        ({"gold_ranks": None}, "the lists of a query's gold units differ in length"),
        ({"gold_ranks": [3, None]}, "a gold unit has no value"),
        ({"gold_ranks": [3, -1]}, "a rank is negative"),
        ({"query_id": "t1::q1"}, "1 queries stand in it twice"),
    ],
)
def test_rows_that_contradict_themselves_are_unreadable_input(
    tmp_path: Path, quarry: Quarry, values: dict[str, Any], words: str
) -> None:
    """A regression: two documents at one rank ended as a fault of this program."""
    change_rows(keep(tmp_path, "base-1", BASE), 0, **values)
    done = quarry("compare", "base-1", "-w", tmp_path)
    assert (done.code, done.out) == (3, "")
    assert f"per_query.parquet: {words}" in done.err


def test_rows_that_are_not_those_of_the_result_are_refused(workspace: Path, quarry: Quarry) -> None:
    """A regression: a run folder that had lost half of its rows was taken for a run of the other half."""
    (folder,) = (workspace / "runs").iterdir()
    whole = pq.read_table(folder / "per_query.parquet")
    pq.write_table(whole.slice(0, 40), folder / "per_query.parquet")
    for command in (("compare", folder.name), ("report",), ("report", folder.name, "--format", "html")):
        done = quarry(*command, "-w", workspace)
        assert (done.code, done.out) == (3, "")
        assert "per_query.parquet: 40 queries, but result.json says 79" in done.err
    rows = whole.to_pylist()
    place = next(i for i, row in enumerate(rows) if row["gold_ranks"][0] == 1)
    pq.write_table(whole, folder / "per_query.parquet")
    change_rows(folder, place, gold_ranks=[0] * len(rows[place]["gold_ranks"]))
    done = quarry("compare", folder.name, "-w", workspace)
    assert (done.code, "but result.json says" in done.err) == (3, True)


def test_runs_without_a_common_query_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "other-1", [("z__z", "t9", (1,))])
    with pytest.raises(InvalidInputError, match="no query in common"):
        compared(tmp_path, "base-1", "other-1")


def test_the_order_of_rows_and_of_units_changes_nothing(tmp_path: Path) -> None:
    keep(tmp_path, "base-1", BASE)
    folder = keep(tmp_path, "better-1", BETTER)
    before = compared(tmp_path, "base-1", "better-1")
    rows = pq.read_table(folder / "per_query.parquet").to_pylist()[::-1]
    for row in rows:
        for name in ("gold_unit_keys", "gold_relevances", "gold_ranks", "gold_documents"):
            row[name].reverse()
    pq.write_table(pa.Table.from_pylist(rows), folder / "per_query.parquet")
    assert compared(tmp_path, "base-1", "better-1") == before


def test_the_baseline_is_the_first_or_the_one_named(tmp_path: Path) -> None:
    for name, rows in (("base-1", BASE), ("better-1", BETTER)):
        keep(tmp_path, name, rows)
    there = compared(tmp_path, "base-1", "better-1")
    back = compared(tmp_path, "base-1", "better-1", baseline="better-1")
    also = compared(tmp_path, "base-1", baseline=str(tmp_path / "runs" / "better-1"))
    assert (there["baseline"], back["baseline"]) == ("base-1", "better-1")
    assert back["rows"][1]["difference"] == -there["rows"][1]["difference"]
    assert (back["rows"][1]["wins"], back["rows"][1]["losses"]) == (1, 2)
    assert also == back


@pytest.mark.parametrize(
    ("names", "plan", "words"),
    [
        (("base-1", "none-1"), Plan(), "no run 'none-1'"),
        (("base-1", "base-1"), Plan(), "base-1 is named twice"),
        (("base-1",), Plan(("recall@101",)), "recall@101: the run base-1 keeps 100 results"),
        (("base-1",), Plan(("recal@5",)), "no measure 'recal@5'"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, names: tuple[str, ...], plan: Plan, words: str) -> None:
    keep(tmp_path, "base-1", BASE)
    with pytest.raises(UsageError, match=words):
        compared(tmp_path, *names, plan=plan)


def test_a_damaged_run_is_unreadable_input(tmp_path: Path, quarry: Quarry) -> None:
    file = keep(tmp_path, "base-1", BASE) / "per_query.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    done = quarry("compare", "base-1", "-w", tmp_path)
    assert (done.code, "per_query.parquet: not a readable" in done.err) == (3, True)
    pq.write_table(pa.table({"query_id": ["q"]}), file)
    assert quarry("compare", "base-1", "-w", tmp_path).code == 3
    file.unlink()
    assert f"{file}: not a readable per-query table (it is not there)." in quarry("compare", file.parent).err


def test_settings_that_differ_beside_the_model_are_named(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE, profile="quarry", chunk_rules="f" * 64)
    keep(tmp_path, "better-1", BETTER, depth=200, profile="all", chunk_rules="e" * 64)
    text = quarry("compare", "base-1", "better-1", "-w", tmp_path).out
    assert "differ in: chunk_rules, profile (quarry / all), depth (100 / 200)" in text


def test_the_output_names_test_seed_resamples_and_clusters(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "better-1", BETTER)
    arguments = ("compare", "base-1", "better-1", "-w", tmp_path, "--by", "repo", "--resamples", 500, "--seed", 3)
    text = quarry(*arguments).out
    for words in ("500", "seed 3", "paired permutation test", "cluster bootstrap", "Holm over the 8 tests"):
        assert words in text
    assert "only 1 repo: too few" in text
    document = quarry(*arguments, "--json").json
    assert (document["by"], document["clusters"], document["resamples"], document["seed"]) == ("repo", 1, 500, 3)
    assert len(document["rows"]) == 16


def test_recall_or_ranking(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "better-1", BETTER)
    document = quarry("compare", "better-1", "--first-stage", "base-1", "--pool", 9, "-w", tmp_path, "--json").json
    (row,) = document["first_stage"]["runs"]
    # The pool has a unit of all three queries; RR is 1, 1/4, 1/6. One unit was never in the pool.
    assert (row["oracle"], row["candidate_recall"]) == (1, pytest.approx(2.5 / 3))
    assert row["eff"] == pytest.approx((1 + 1 / 4 + 1 / 6) / 3)
    assert row["units_from_outside_the_pool"] == 1
    with pytest.raises(UsageError, match="A pool of 101 results: the first stage base-1 keeps 100"):
        compared(tmp_path, "better-1", first_stage="base-1", pool=101)


def test_a_pool_of_no_first_stage_is_refused(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: --pool was not read without --first-stage, and nothing said so."""
    keep(tmp_path, "base-1", BASE)
    done = quarry("compare", "base-1", "--pool", 5, "-w", tmp_path)
    assert (done.code, done.out, "--first-stage" in done.err) == (2, "", True)


def test_queries_without_a_result_are_counted_in_the_text(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: only the JSON said that a run had no result for half of the queries."""
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "half-1", [BASE[0], ("a__x", "t1", (0,)), ("a__x", "t2", (0,)), BASE[3]])
    text = quarry("compare", "base-1", "half-1", "-w", tmp_path).out
    assert "  half: 2 of these queries have no result (they count 0)" in text
    assert "base: " in text
    assert "base: 0" not in text


def test_a_selection_is_named(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: a run of two of a release's languages was shown like one of the whole."""
    folder = keep(tmp_path, "base-1", BASE)
    result = json.loads((folder / "result.json").read_text("utf-8"))
    result |= {"tasks": 3, "release_tasks": 42, "filters": {"languages": ["go"]}}
    (folder / "result.json").write_text(json.dumps(result), "utf-8")
    text = quarry("compare", "base-1", "-w", tmp_path).out
    assert "base is on a selection of languages go: 3 of the release's 42 tasks; it is not comparable" in text


def test_a_measure_that_not_every_query_has_says_over_how_many_it_is(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    command = ("compare", "base-1", "-w", tmp_path, "--measure", "recall@5", "--measure", "essential_recall@5")
    # Of the queries with gold only the first has an ESSENTIAL unit.
    assert [row["queries"] for row in quarry(*command, "--json").json["rows"]] == [3, 1]
    text = quarry(*command).out
    assert "essential_recall@5 is defined for 1 of the 3 queries, and its means are over these" in text
    assert "recall@5 is defined for 3" not in text


def test_a_run_of_another_system_has_no_depth_0(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: it read as if the run kept no result."""
    keep(tmp_path, "base-1", BASE)
    keep(tmp_path, "other-1", BETTER, depth=0)
    assert "differ in: depth (100 / its own)" in quarry("compare", "base-1", "other-1", "-w", tmp_path).out


def test_published_results_stand_beside_and_are_never_tested(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", BASE)
    arguments = ("compare", "base-1", "--published", "--measure", "RR", "-w", tmp_path)
    text = quarry(*arguments).out
    assert "nothing can be tested against them" in text
    assert "> base" in text
    assert "here 3 queries, there the 6525 of release 1.0" in text
    published = quarry(*arguments, "--json").json["published"]
    assert published["tested"] is False
    assert len(published["result"]) == 13


def test_one_run_alone_has_the_numbers_and_intervals_of_its_evaluation(quarry: Quarry, demo_workspace: Path) -> None:
    (folder,) = (demo_workspace / "runs").iterdir()
    result = json.loads((folder / "result.json").read_text("utf-8"))
    document = quarry("compare", folder.name, "-w", demo_workspace, "--json").json
    for row in document["rows"]:
        assert row["value"] == result["measures"][row["measure"]]
        assert row["interval"] == pytest.approx(result["intervals"]["measures"][row["measure"]], abs=1e-12)
    assert (document["queries"], document["clusters"]) == (79, 42)


def test_a_run_compared_with_its_copy_differs_in_nothing(quarry: Quarry, workspace: Path) -> None:
    (folder,) = (workspace / "runs").iterdir()
    copy = shutil.copytree(folder, workspace / "copy")
    result = json.loads((copy / "result.json").read_text("utf-8"))
    (copy / "result.json").write_text(json.dumps(result | {"run_id": "copy"}), "utf-8")
    document = quarry("compare", folder.name, copy, "-w", workspace, "--json").json
    for row in document["rows"]:
        if "difference" in row:
            assert (row["difference"], row["p"], row["wins"], row["losses"]) == (0, 1, 0, 0)
            assert row["difference_interval"] == [0, 0]
            assert row["detectable"] is None
    assert document["differing_settings"] == {}
    assert [run["name"] for run in document["runs"]] == [folder.name, "copy"]
    assert not math.isnan(document["rows"][0]["value"])
