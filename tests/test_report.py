"""`quarry report` and `quarry show`: their numbers, what they leave out, and that strangers' words stay words."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Ended
from hypothesis import given
from hypothesis import strategies as st
from report_runs import REVISION, Asked, keep

from quarry_harness import measures
from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.report import evaluation
from quarry_harness.reports.markdown import latex, markdown
from quarry_harness.reports.page import html
from quarry_harness.runs import document_ids, read_result
from quarry_harness.stages.browse import Limits, browse
from quarry_harness.stages.compare import Plan
from quarry_harness.stages.hits import Place, places, readings, top_hits
from quarry_harness.stages.show import show
from quarry_harness.stages.survey import open_runs, survey

Quarry = Callable[..., Ended]
FEW = Plan(resamples=100)

QUERIES = [
    Asked((1, 2)),
    Asked((3, 8), task="t2", language="python"),
    Asked((4, 60), task="t2", language="python"),
    Asked((1, 0), task="t3"),
    Asked((1, 0), task="t3", unresolved=(1,)),
    Asked((0,), task="t4", retrieved=0),
    Asked((), task="t4"),
    Asked((12,), task="t4", corpus=6_000),
    Asked((30,), task="t5", corpus=30_000),
]


def made(folder: Path, **result: Any) -> dict[str, Any]:
    keep(folder, "base-1", QUERIES, **result)
    return survey(open_runs(folder, [], None), FEW)


def test_where_queries_and_units_end_by_hand(tmp_path: Path) -> None:
    (row,) = made(tmp_path)["failures"]
    assert row["queries"] == {
        "top_5": 1, "top_10": 1, "top_20": 1, "top_50": 1, "below_50": 1, "unresolved": 1, "not_in_ranking": 1,
        "no_result": 1,
    }  # fmt: skip
    assert row["queries_without_gold"] == 1
    assert row["units"] == {
        "top_5": 6, "top_10": 1, "top_20": 1, "top_50": 1, "below_50": 1, "unresolved": 1, "not_in_ranking": 1,
        "no_result": 1,
    }  # fmt: skip


def test_outcomes_agree_with_the_measures(demo_workspace: Path) -> None:
    runs = open_runs(demo_workspace, [], None)
    document = survey(runs, FEW)
    (row,) = document["failures"]
    result = runs[0].result
    for k, names in ((5, 1), (10, 2), (20, 3), (50, 4)):
        queries, units = (list(row[of].values()) for of in ("queries", "units"))
        assert sum(queries[:names]) / sum(queries) == pytest.approx(result["measures"][f"all_gold@{k}"])
        assert sum(units[:names]) / sum(units) == pytest.approx(result["pooled"][f"pooled_recall@{k}"])
    assert sum(row["queries"].values()) == result["queries"]
    assert sum(row["units"].values()) == result["units"]


def test_curves_and_groups_agree_with_the_headline(demo_workspace: Path) -> None:
    document = survey(open_runs(demo_workspace, [], None), FEW)
    values = {row["measure"]: row["value"] for row in document["comparison"]["rows"]}
    (curve,) = document["curves"]
    for family in ("recall", "all_gold"):
        points = dict(zip(curve["k"], curve[family], strict=True))
        for k in measures.CUTOFFS:
            assert points[k] == values[f"{family}@{k}"]
            for field in ("languages", "corpus_chunks", "gold_units"):
                weighted = [
                    group["queries"] * group["runs"][0]["measures"][f"{family}@{k}"]["value"]
                    for group in document[field]
                ]
                assert sum(weighted) / document["comparison"]["queries"] == pytest.approx(values[f"{family}@{k}"])


def test_other_means_are_those_of_the_evaluation(demo_workspace: Path) -> None:
    """A regression: only eval's text had the macro and pooled means, and nothing had essential_recall."""
    runs = open_runs(demo_workspace, [], None)
    document = survey(runs, FEW)
    (row,) = document["averages"]
    result = runs[0].result
    for level in ("task", "repo", "language"):
        for name, value in row["macro"][level].items():
            assert value == pytest.approx(result["rollup"][level][name], abs=1e-12)
    assert row["pooled"] == pytest.approx(result["pooled"])
    for name, value in row["essential"].items():
        assert value == pytest.approx(result["measures"][name])
    assert row["essential_queries"] == result["groups"]["relevance"]["ESSENTIAL"]["queries"]
    words = f"essential_recall, over {row['essential_queries']} queries"
    assert words in html(document, browse(demo_workspace, runs))
    assert words in markdown(document).replace("\\_", "_")
    values = " / ".join(f"{100 * row['essential'][f'essential_recall@{k}']:.1f}" for k in measures.CUTOFFS)
    line = f"essential_recall@5/10/20/50: {values}, over {row['essential_queries']} queries with an ESSENTIAL unit"
    assert line in evaluation(result)


def test_the_text_of_an_evaluation_warns_of_few_tasks(demo_workspace: Path) -> None:
    """A regression: the interval of one task, 75.0-75.0, was printed like any other."""
    result = open_runs(demo_workspace, [], None)[0].result
    assert "too few" not in evaluation(result)
    few = evaluation(result | {"intervals": result["intervals"] | {"clusters": 1}})
    assert "only 1 task: too few for intervals and p to be trusted" in few


def test_groups_are_in_order_and_leave_out_queries_without_gold(tmp_path: Path) -> None:
    document = made(tmp_path)
    assert [(group["label"], group["queries"], group["tasks"]) for group in document["corpus_chunks"]] == [
        ("0-999", 6, 4), ("5000-19999", 1, 1), ("20000+", 1, 1),
    ]  # fmt: skip
    assert [(group["label"], group["queries"]) for group in document["gold_units"]] == [("1", 3), ("2-3", 5)]
    assert [(group["label"], group["queries"], group["units"]) for group in document["languages"]] == [
        ("go", 6, 9), ("python", 2, 4),
    ]  # fmt: skip


def test_all_runs_are_reported_and_the_baseline_is_the_first_or_named(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", QUERIES)
    keep(tmp_path, "better-1", [Asked((1, 2)), *QUERIES[1:]])
    documents = [
        quarry("report", "-w", tmp_path, "--format", "json", *more).json for more in ((), ("--baseline", "better-1"))
    ]
    assert [document["comparison"]["baseline"] for document in documents] == ["base-1", "better-1"]
    assert [len(document["runs"]) for document in documents] == [2, 2]
    one = quarry("report", "base-1", "-w", tmp_path, "--format", "json").json
    assert [run["run_id"] for run in one["runs"]] == ["base-1"]


def test_runs_of_one_image_are_reported_where_none_is_named(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: a workspace with runs on both images had no report, since their gold units differ."""
    keep(tmp_path, "base-1", QUERIES)
    none = quarry("report", "-w", tmp_path, "--image", "postimage")
    assert (none.code, "There is no run on the postimage" in none.err) == (2, True)
    keep(tmp_path, "later-1", QUERIES[:2], image="postimage")
    for options, name in (((), "base-1"), (("--image", "postimage"), "later-1"), (("later-1",), "later-1")):
        document = quarry("report", *options, "-w", tmp_path, "--format", "json").json
        assert [run["run_id"] for run in document["runs"]] == [name]


def test_without_a_run_the_next_command_is_named(tmp_path: Path, quarry: Quarry) -> None:
    done = quarry("report", "-w", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "quarry eval" in done.err


@pytest.mark.parametrize("form", ["md", "html", "json", "latex", "mteb"])
def test_the_same_runs_give_the_same_bytes_on_standard_output_and_in_a_file(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path, form: str
) -> None:
    file = tmp_path / "report"
    first = quarry("report", "-w", demo_workspace, "--format", form)
    second = quarry("report", "-w", demo_workspace, "--format", form, "-o", file)
    assert (first.code, second.code, second.out) == (0, 0, "")
    assert file.read_text("utf-8") == first.out
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(quarry: Quarry, demo_workspace: Path) -> None:
    done = quarry("report", "-w", demo_workspace, "-o", demo_workspace / "no" / "such" / "file")
    assert done.code == 4
    assert "No such file or directory" in done.err


@pytest.mark.parametrize("form", ["md", "html", "latex"])
def test_every_form_has_the_title_the_counts_and_the_caveats(tmp_path: Path, quarry: Quarry, form: str) -> None:
    keep(tmp_path, "base-1", QUERIES, release_tasks=99, filters={"languages": ["go"]}, queries_without_result=1)
    keep(tmp_path, "less-1", QUERIES[:5])
    text = quarry("report", "-w", tmp_path, "--format", form).out.replace("\\_", "_")
    for words in (
        "strict all-gold micro recall@k",
        "5 queries of 3 tasks, those that every run has; 2 runs",
        "selection of languages go: 5 of the release's 99 tasks; it is not comparable",
        "base: 4 of its 9 queries are not in this report",
        "only 3 tasks: too few for intervals and p to be trusted",
        "10,000 times, seed 20250101",
        "Holm over the 8 tests",
    ):
        assert words.replace("'", "&#x27;") in text or words in text, words


def test_texts_that_a_model_cut_are_told(tmp_path: Path) -> None:
    texts = {"small": {"queries": 9, "queries_cut": 2, "documents": 400, "documents_cut": 30}}
    words = "longer than small takes, and cut: 30 of 400 documents, 2 of 9 queries."
    assert words in markdown(made(tmp_path, texts=texts))


def test_queries_without_a_result_are_warned_of_at_the_top(tmp_path: Path) -> None:
    document = made(tmp_path)
    for text in (markdown(document), html(document, browse(tmp_path, open_runs(tmp_path, [], None)))):
        assert "base: 1 of the 8 queries have no result, and count 0." in text


def test_settings_that_differ_name_runs_of_one_model(tmp_path: Path) -> None:
    for name, profile in (("bm25-1", "quarry"), ("bm25-2", "all")):
        keep(tmp_path, name, QUERIES, settings={"depth": 100, "profile": profile})
    document = survey(open_runs(tmp_path, [], None), FEW)
    assert [run["name"] for run in document["comparison"]["runs"]] == ["bm25, profile quarry", "bm25, profile all"]
    assert "differ in: profile (quarry / all)" in markdown(document)


def test_strange_names_stay_inside_markdown_and_latex(tmp_path: Path) -> None:
    document = made(tmp_path, model="a|b*<img src=x>_\n# no & 50% ^{~}\x1b[31m $x$")
    rows = [line for line in markdown(document).splitlines() if line.startswith("|")]
    cells = [len(re.split(r"(?<!\\)\|", row)) for row in rows]
    # A header, its rule, and one row: the leaderboard.
    assert cells[:3] == [11, 11, 11]
    assert not [row for row in rows if "<img" in row.replace("\\<", "")]
    assert all("\x1b" not in row for row in rows)
    # GitHub would set it as mathematics.
    assert "\\$x\\$" in rows[2]
    table = latex(document)
    body = [line for line in table.splitlines() if not line.startswith("%")]
    assert not re.search(r"(?<!\\)[%#_]", "\n".join(body).replace("tab:quarry", ""))
    assert "\\textasciicircum{}\\{\\textasciitilde{}\\}" in table
    assert "\n# no" not in table


def test_latex_has_one_cell_a_column(tmp_path: Path) -> None:
    lines = latex(made(tmp_path)).splitlines()
    rows = [line for line in lines if line.endswith("\\\\")]
    assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {9}
    assert [line for line in lines if line.startswith(("\\begin", "\\end"))] == [
        "\\begin{table}", "\\begin{tabular}{lrrrrrrrr}", "\\end{tabular}", "\\end{table}",
    ]  # fmt: skip


def test_an_mteb_file_is_of_one_run_and_has_its_numbers(demo_workspace: Path, quarry: Quarry, tmp_path: Path) -> None:
    (folder,) = (demo_workspace / "runs").iterdir()
    document = quarry("report", folder.name, "-w", demo_workspace, "--format", "mteb").json
    (scores,) = document["scores"]["test"]
    result = read_result(folder)
    assert scores["main_score"] == scores["recall_at_5"] == result["measures"]["recall@5"]
    assert scores["ndcg_at_10"] == result["measures"]["nDCG@10"]
    assert (scores["hf_subset"], document["task_name"], document["mteb_version"]) == ("default", "Quarry", None)
    assert {"eng-Latn", "go-Code", "c#-Code", "c++-Code"} <= set(scores["languages"])
    keep(tmp_path, "a-1", QUERIES)
    keep(tmp_path, "b-1", QUERIES)
    done = quarry("report", "-w", tmp_path, "--format", "mteb")
    assert (done.code, "a-1, b-1" in done.err) == (2, True)


# -- documents and their source -------------------------------------------------------------------------------------

NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12)


@given(NAMES, NAMES, st.integers(1, 10**6), st.integers(0, 100))
def test_a_document_id_can_be_read_back(path: str, name: str, start: int, more: int) -> None:
    from urllib.parse import unquote

    first, second = document_ids([(path, name, start, start + more)] * 2)
    for one in (first, second):
        assert Place(path, name, start, start + more) in readings(unquote(one))


@given(st.text(st.characters(blacklist_categories=["Cs"])))
def test_any_id_has_a_reading(document: str) -> None:
    assert readings(document)


def test_the_source_of_a_hit_is_what_git_has_at_its_lines(demo_workspace: Path) -> None:
    (folder,) = (demo_workspace / "runs").iterdir()
    hits = top_hits(folder, 3)
    rows = {row["query_id"]: row for row in pq.read_table(folder / "per_query.parquet").to_pylist()}
    wanted = [(rows[q]["repo"], rows[q]["revision"], hit.document) for q, ranked in hits.items() for hit in ranked]
    found = places(demo_workspace, wanted, "quarry")
    assert len(found) > 100
    for (repo, revision, _), place in found.items():
        command = ["git", "--git-dir", demo_workspace / "repos" / f"{repo}.git", "show", f"{revision}:{place.path}"]
        file = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8").replace("\r\n", "\n")
        lines = file.split("\n")[place.start_line - 1 : place.end_line]
        assert place.text is not None
        # A chunk begins with its first line and may end before the last one does.
        assert "\n".join(lines).startswith(place.text.rstrip("\n"))
        assert place.name in place.text


def test_the_best_results_are_those_of_the_run_file(demo_workspace: Path) -> None:
    (folder,) = (demo_workspace / "runs").iterdir()
    by_query: dict[str, list[str]] = {}
    for line in (folder / "run.trec").read_text("utf-8").splitlines():
        by_query.setdefault(line.split()[0], []).append(line.split()[2])
    hits = top_hits(folder, 2)
    assert {query: [hit.rank for hit in ranked] for query, ranked in hits.items()} == {
        query: list(range(1, min(2, len(documents)) + 1)) for query, documents in by_query.items()
    }
    one = next(iter(by_query))
    assert set(top_hits(folder, 5, {one})) == {one}


def test_a_damaged_run_file_names_its_line(tmp_path: Path) -> None:
    folder = keep(tmp_path, "base-1", QUERIES)
    text = (folder / "run.trec").read_text("utf-8").splitlines()
    (folder / "run.trec").write_text("\n".join([*text[:4], "only three words", *text[5:]]), "utf-8")
    with pytest.raises(InvalidInputError, match=r"run\.trec:5: not a TREC run"):
        top_hits(folder, 5)


def test_a_page_of_runs_without_their_workspace_says_that_it_has_no_source(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", QUERIES)
    done = quarry("report", "-w", tmp_path, "--format", "html")
    assert done.code == 0
    assert re.search(r"The source of \d+ functions is not in the workspace", done.out)
    assert not (tmp_path / "quarry.duckdb").exists()


def test_what_does_not_fit_is_left_out_and_counted(demo_workspace: Path) -> None:
    runs = open_runs(demo_workspace, [], None)
    whole = browse(demo_workspace, runs)
    assert whole["left_out"] == {"queries": 0, "sources": 0, "sources_missing": 0}
    small = browse(demo_workspace, runs, Limits(query_bytes=9_000, source_bytes=4_000, lines=3, letters=20))
    assert 0 < len(small["queries"]) < 79
    assert small["left_out"]["queries"] == 79 - len(small["queries"])
    assert small["left_out"]["sources"] > 0
    assert small["queries"] == whole["queries"][: len(small["queries"])]
    assert sum(len(json.dumps(source)) for source in small["sources"]) <= 4_000
    assert all(text.count("\n") < 3 and max(map(len, text.split("\n"))) <= 20 for text, _ in small["sources"])
    page = html(survey(runs, FEW), small)
    assert f"{79 - len(small['queries'])} queries are not listed" in page
    assert re.search(r"The source of \d+ functions is left out", page)


def test_a_browsed_query_has_the_ranks_of_the_run(demo_workspace: Path) -> None:
    (run,) = open_runs(demo_workspace, [], None)
    document = browse(demo_workspace, [run])
    rows = {row["query_id"]: row for row in run.rows.to_pylist()}
    for query in document["queries"]:
        assert [ranks for *_, (ranks,) in query["gold"]] == rows[query["id"]]["gold_ranks"]
        for place, _, _, (rank,) in query["gold"]:
            if 0 < rank <= document["hits"]:
                assert document["places"][query["hits"][0][rank - 1]] == document["places"][place]


@pytest.mark.parametrize("found", [True, False])
def test_a_gold_unit_has_the_source_of_the_chunk_it_was_resolved_to(workspace: Path, found: bool) -> None:
    """A regression: the source was looked up by the lines of the label, and a unit of a weaker tier had none."""
    (run,) = open_runs(workspace, [], None)
    rows = run.rows.to_pylist()
    place = next(i for i, row in enumerate(rows) if row["gold_ranks"] and row["gold_ranks"][0] > 5)
    head, _, end = rows[place]["gold_unit_keys"][0].rpartition("-")
    rows[place]["gold_unit_keys"][0] = f"{head}-{int(end) + 1}"
    rows[place]["gold_ranks"][0] *= found
    changed = replace(run, rows=pa.Table.from_pylist(rows, schema=run.rows.schema))
    documents = [browse(workspace, [one]) for one in (changed, run)]
    query, before = (
        next(query for query in document["queries"] if query["id"] == rows[place]["query_id"]) for document in documents
    )
    (where, *_), (where_before, *_) = query["gold"][0], before["gold"][0]
    assert documents[0]["places"][where] == documents[1]["places"][where_before]
    assert documents[0]["places"][where][-1] >= 0
    assert documents[0]["left_out"]["sources_missing"] == 0


def test_an_unresolved_label_is_no_source_that_is_missing(tmp_path: Path) -> None:
    keep(tmp_path, "base-1", [Asked((0,), unresolved=(0,), retrieved=0)])
    assert browse(tmp_path, open_runs(tmp_path, [], None))["left_out"]["sources_missing"] == 0


def test_the_run_of_another_system_has_no_depth_of_ours(tmp_path: Path, quarry: Quarry) -> None:
    """A regression: its depth 0 was taken for a limit, and nothing could be compared with it."""
    keep(tmp_path, "base-1", QUERIES)
    short = [replace(query, retrieved=min(query.retrieved, 40)) for query in QUERIES]
    keep(tmp_path, "other-1", [replace(query, ranks=[r if r <= 40 else 0 for r in query.ranks]) for query in short], 0)
    document = survey(open_runs(tmp_path, [], None), FEW)
    assert document["comparison"]["queries"] == 8
    assert [curve["k"][-1] for curve in document["curves"]] == [100, 100]
    assert "100 results that a run keeps of each query" in markdown(document)
    assert "everything that another system's run has" in markdown(document)
    assert "depth its own;" in html(document, browse(tmp_path, open_runs(tmp_path, [], None)))
    assert quarry("compare", "base-1", "other-1", "-w", tmp_path, "--measure", "recall@70").code == 0
    assert quarry("compare", "other-1", "--first-stage", "other-1", "-w", tmp_path).code == 0
    alone = survey(open_runs(tmp_path, ["other-1"], None), FEW)
    assert alone["curves"][0]["k"][-1] == 50
    assert "which keeps at most" not in quarry("show", "t1", "--run", "other-1", "-w", tmp_path).out


# -- show -------------------------------------------------------------------------------------------------------------


def query_with_gold_on_top(workspace: Path) -> Mapping[str, Any]:
    (run,) = open_runs(workspace, [], None)
    return next(row for row in run.rows.to_pylist() if row["gold_ranks"] == [1, 2])


def test_show_has_the_query_the_ranks_and_the_source(demo_workspace: Path, quarry: Quarry) -> None:
    row = query_with_gold_on_top(demo_workspace)
    text = quarry("show", row["query_id"], "-w", demo_workspace, "--top", 2, "--lines", 1).out
    assert row["query"] in text
    for key in row["gold_unit_keys"]:
        path, name, lines = key.split(":", 2)[2].rsplit(":", 2)
        assert f"{path}:{lines} {name}" in text
    assert len(re.findall(r"(?m)^\*   [12]  ", text)) == 2
    assert len(re.findall(r"(?m)^ +\d+ \| ", text)) == 2


def test_show_as_json_has_the_numbers_of_the_run(demo_workspace: Path, quarry: Quarry) -> None:
    row = query_with_gold_on_top(demo_workspace)
    document = quarry("show", row["query_id"], "-w", demo_workspace, "--json", "--lines", 0).json
    (run,) = document["runs"]
    assert [list(unit["ranks"].values()) for unit in document["gold"]] == [[1], [2]]
    assert [hit["gold"] for hit in run["hits"]] == [True, True, *[False] * (len(run["hits"]) - 2)]
    assert (run["retrieved"], run["corpus_chunks"]) == (row["retrieved"], row["corpus_chunks"])
    assert all("source" not in hit for hit in run["hits"])


def test_a_query_may_be_cut_short_if_it_is_alone(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", QUERIES)
    assert show(tmp_path, "t1", [], 1, 0)["query_id"] == "t1::q0"
    several = quarry("show", "t2", "-w", tmp_path)
    assert (several.code, "2 queries begin with 't2': t2::q1, t2::q2" in several.err) == (2, True)
    none = quarry("show", "t9", "-w", tmp_path)
    assert (none.code, "no query 't9' in base-1" in none.err) == (2, True)


def test_the_commit_of_a_query_may_be_cut_short(tmp_path: Path) -> None:
    tasks = ("1a2b3c4d-1", "1a2b3c4d-2", "1a9b3c4d-2")
    keep(tmp_path, "base-1", [Asked((1,), task=task) for task in tasks])
    assert show(tmp_path, "1a2b-2::q1", [], 1, 0)["query_id"] == "1a2b3c4d-2::q1"
    assert show(tmp_path, "1a9", [], 1, 0)["query_id"] == "1a9b3c4d-2::q2"
    for vague in ("1a2b", "", "-2::q1", "1a2b-2"):
        with pytest.raises(UsageError):
            show(tmp_path, vague, [], 1, 0)


def test_units_that_are_not_found_say_why(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", QUERIES)
    assert "never found" in quarry("show", "t3::q3", "-w", tmp_path).out
    assert "unresolved" in quarry("show", "t3::q4", "-w", tmp_path).out
    assert "no gold unit" in quarry("show", "t4::q6", "-w", tmp_path).out
    keep(tmp_path, "other-1", QUERIES[:1])
    document = show(tmp_path, "t1::q0", [], 1, 0)
    assert [list(unit["ranks"].values()) for unit in document["gold"]] == [[1, 1], [2, 2]]


def test_runs_of_both_images_can_be_shown_of_one_query(tmp_path: Path) -> None:
    keep(tmp_path, "base-1", QUERIES[:1])
    folder = keep(tmp_path, "other-1", QUERIES[:1], image="postimage")
    table = pq.read_table(folder / "per_query.parquet")
    (keys,) = table["gold_unit_keys"].to_pylist()
    column = [[key.replace("preimage", "postimage") for key in keys]]
    pq.write_table(
        table.set_column(table.schema.get_field_index("gold_unit_keys"), "gold_unit_keys", [column]),
        folder / "per_query.parquet",
    )
    document = show(tmp_path, "t1::q0", [], 1, 0)
    assert [unit["ranks"] for unit in document["gold"]] == [
        {"base-1": 1}, {"base-1": 2}, {"other-1": 1}, {"other-1": 2},
    ]  # fmt: skip


def test_a_stranger_s_words_cannot_drive_the_terminal(tmp_path: Path, quarry: Quarry) -> None:
    keep(tmp_path, "base-1", [Asked((1,), text="red \x1b[31m\x07\nsecond\u202e line", path="p\x1b]0;t\x07.go")])
    done = quarry("show", "t1", "-w", tmp_path)
    assert done.code == 0
    assert not set(done.out) & set("\x1b\x07\u202e")
    assert "second" in done.out


def test_the_files_of_a_run_open_elsewhere(demo_workspace: Path, tmp_path: Path) -> None:
    import duckdb
    import ir_measures

    (kept,) = (demo_workspace / "runs").iterdir()
    folder = shutil.copytree(kept, tmp_path / "run")
    run = list(ir_measures.read_trec_run(str(folder / "run.trec")))
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.trec")))
    ours = read_result(folder)["measures"]
    theirs = ir_measures.calc_aggregate([ir_measures.RR @ 10, ir_measures.P @ 5], qrels, run)
    # The two differ only where scores tie.
    for measure, name in ((ir_measures.RR @ 10, "RR@10"), (ir_measures.P @ 5, "precision@5")):
        assert theirs[measure] == pytest.approx(ours[name], abs=0.03)
    file = str(folder / "per_query.parquet")
    mean, queries = duckdb.sql(f"SELECT avg(\"recall@5\"), count(*) FROM '{file}'").fetchall()[0]
    assert (mean, queries) == (pytest.approx(ours["recall@5"]), 79)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_open_the_per_query_table(demo_workspace: Path, library: str) -> None:
    module = pytest.importorskip(library)
    (folder,) = (demo_workspace / "runs").iterdir()
    frame = module.read_parquet(folder / "per_query.parquet")
    assert frame["recall@5"].mean() == pytest.approx(read_result(folder)["measures"]["recall@5"])
    assert len(REVISION) == len(frame["revision"][0])
