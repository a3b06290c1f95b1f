"""The runs of other systems, and fused rankings."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Ended
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.languages import PROFILES
from quarry_harness.models import Choice, models_of, name_of
from quarry_harness.models.fusion import fuse
from quarry_harness.models.registry import Options
from quarry_harness.retrieve import Ranking
from quarry_harness.runs import encoded
from quarry_harness.stages.ranking import EvalQuery, Listing, repository_documents
from quarry_harness.store import Store

Quarry = Callable[..., Ended]


def bm25_run(workspace: Path) -> Path:
    (folder,) = (path for path in (workspace / "runs").iterdir() if path.name.startswith("bm25-preimage"))
    return folder


def lines_of(folder: Path) -> list[list[str]]:
    return [line.split(" ") for line in (folder / "run.trec").read_text("utf-8").splitlines()]


def write(file: Path, rows: list[list[str]]) -> Path:
    file.write_text("".join(" ".join(row) + "\n" for row in rows), "utf-8")
    return file


def test_our_own_run_is_scored_as_it_was(quarry: Quarry, workspace: Path, tmp_path: Path) -> None:
    folder = bm25_run(workspace)
    rows = lines_of(folder)
    # Neither the order of the lines, nor the rank column, nor white space counts.
    changed = [[query, "q0", document, "0", score, "theirs/1"] for query, _, document, _, score, _ in rows[::-1]]
    file = write(tmp_path / "foreign.trec", changed)
    file.write_text("\n" + file.read_text("utf-8").replace(" q0 ", "\t0\t"), "utf-8")
    done = quarry("score", "--run", file, "-w", workspace, "--json")
    assert done.code == 0, done.err
    ours = json.loads((folder / "result.json").read_text("utf-8"))
    for key in ("measures", "pooled", "rollup", "queries_without_result", "units"):
        assert done.json[key] == ours[key]
    scored = Path(done.json["folder"])
    assert done.json["model"] == "theirs/1"
    assert scored.name.startswith("theirs-1-preimage-")
    assert [row[:5] for row in lines_of(scored)] == [row[:5] for row in rows]
    again = quarry("score", "--run", file, "-w", workspace)
    assert "nothing to do" in again.err
    assert quarry("verify", "-w", workspace).code == 0


def test_equal_scores_are_ranked_in_corpus_order(quarry: Quarry, workspace: Path, tmp_path: Path) -> None:
    rows = lines_of(bm25_run(workspace))
    file = write(tmp_path / "constant.trec", [[*row[:3], "1", "7", "constant"] for row in rows])
    done = quarry("score", "--run", file, "--name", "constant scorer", "-w", workspace, "--json")
    assert done.json["model"] == "constant scorer"
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for query, _, document, _, score, _ in lines_of(Path(done.json["folder"])):
        path, _, lines = unquote(document).rsplit(":", 2)
        start, end = lines.partition("~")[0].split("-")
        found[query].append((path, int(start), int(end)))
        assert score == "7.0"
    assert len(found) == 78
    assert all(ranking == sorted(ranking) for ranking in found.values())


def test_a_run_that_lists_the_whole_corpus_with_one_score_gets_no_credit(
    quarry: Quarry, workspace: Path, tmp_path: Path
) -> None:
    """A regression: it was ranked in corpus order, and had recall@50 98.3 on the demo."""
    with Store.open(workspace, read_only=True) as store:
        revisions = {(r.repo, r.sha): r for r in store.revisions("preimage")}
        queries = [EvalQuery(*row) for row in store.selected_queries("preimage")]
        rows = []
        for repo in sorted({query.repo for query in queries}):
            there = [r.id for (name, _), r in sorted(revisions.items()) if name == repo]
            store.gather_documents(there, PROFILES["quarry"])
            for query in (query for query in queries if query.repo == repo):
                ids = Listing.of(store.corpus(revisions[repo, query.revision].id)).ids
                rows += [[encoded(query.query_id), "Q0", document, "1", "0.5", "constant"] for document in ids]
    done = quarry("score", "--run", write(tmp_path / "constant.trec", rows), "-w", workspace, "--json")
    assert done.code == 0, done.err
    assert done.json["queries_without_result"] == 79
    assert set(done.json["measures"].values()) == {0}
    # With one document less, or one score that differs, it is a ranking again.
    part = write(tmp_path / "part.trec", [[*rows[0][:4], "0.6", "part"], *rows[1:]])
    assert quarry("score", "--run", part, "-w", workspace, "--json").json["queries_without_result"] == 78
    less = quarry("score", "--run", write(tmp_path / "less.trec", rows[1:]), "-w", workspace, "--json")
    assert less.json["queries_without_result"] == 78


def test_scores_keep_the_digits_that_tell_them_apart(quarry: Quarry, workspace: Path, tmp_path: Path) -> None:
    rows = lines_of(bm25_run(workspace))
    query = [row for row in rows if row[0] == rows[0][0]][:3]
    scores = ["0.30000000000000001", "0.30000000000000004", "0.29999999999999999"]
    file = write(
        tmp_path / "close.trec", [[*row[:4], score, "close"] for row, score in zip(query, scores, strict=True)]
    )
    done = quarry("score", "--run", file, "-w", workspace, "--json")
    ranked = lines_of(Path(done.json["folder"]))
    assert ranked[0][2] == query[1][2]
    assert [row[4] for row in ranked] == ["0.30000000000000004", "0.3", "0.3"]
    assert done.json["queries_without_result"] == 78


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({0: "nobody::q1"}, "1 of 79 query ids are not in the release, for example nobody::q1"),
        (
            {2: "no/such.py:f:1-2"},
            "1 lines name a document that their query's corpus has not: line 3: no/such.py:f:1-2",
        ),
        ({4: "nan"}, "the score is nan"),
        ({4: "high"}, "not a line of a TREC run"),
        ({4: "1_0"}, "not a line of a TREC run"),
        ({4: "\u0661"}, "not a line of a TREC run"),
        ({5: "two words"}, "not a line of a TREC run"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_its_line(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path, change: dict[int, str], words: str
) -> None:
    rows = lines_of(bm25_run(demo_workspace))
    for column, value in change.items():
        rows[2][column] = value
    shutil.copytree(demo_workspace, tmp_path / "w")
    done = quarry("score", "--run", write(tmp_path / "run.trec", rows), "-w", tmp_path / "w")
    assert done.code == 3
    assert f"run.trec:3: {words}" in done.err
    assert len(list((tmp_path / "w" / "runs").iterdir())) == 1
    # Nothing of it is left that a later run could take for its own.
    with Store.open(tmp_path / "w") as store:
        assert store.counts()["runs"] == 1


def test_a_document_that_comes_twice_and_an_empty_file_are_refused(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    rows = lines_of(bm25_run(demo_workspace))
    done = quarry("score", "--run", write(tmp_path / "run.trec", [*rows[:5], rows[1]]), "-w", demo_workspace)
    assert (done.code, f"run.trec:6: {rows[1][2]} comes twice" in done.err) == (3, True)
    (tmp_path / "empty.trec").write_text("\n\n")
    for name in ("empty.trec", "none.trec"):
        done = quarry("score", "--run", tmp_path / name, "-w", demo_workspace)
        assert (done.code, name in done.err) == (3, True)


def test_a_run_of_the_whole_release_can_be_scored_on_a_selection(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    file = bm25_run(demo_workspace) / "run.trec"
    assert quarry("run", "--release", "demo", "--language", "go", "-w", tmp_path / "w", "-q").code == 0
    ours = quarry("eval", "-w", tmp_path / "w", "--json").json
    scored = quarry("score", "--run", file, "-w", tmp_path / "w", "--json")
    assert scored.code == 0, scored.err
    assert (scored.json["queries"], scored.json["measures"]) == (7, ours["measures"])


def ranking(*positions: int) -> Ranking:
    return Ranking(np.array(positions, dtype=np.intp), np.linspace(9, 1, len(positions), dtype=np.float32))


def test_fused_scores_by_hand() -> None:
    fused = fuse([ranking(4, 2, 7), ranking(2, 5)], 10)
    assert fused.positions.tolist() == [2, 4, 5, 7]
    expected = [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63]
    assert fused.scores.tolist() == np.array(expected, dtype=np.float32).tolist()
    # Equal scores in corpus order, before the cut.
    assert fuse([ranking(9, 3), ranking(3, 9)], 1).positions.tolist() == [3]
    assert fuse([ranking(), ranking()], 5).positions.tolist() == []


@given(st.lists(st.lists(st.integers(0, 20), unique=True), min_size=2, max_size=3), st.integers(1, 25))
def test_fusion_equals_its_formula(rankings: list[list[int]], k: int) -> None:
    scores: dict[int, float] = defaultdict(float)
    for one in rankings:
        for rank, position in enumerate(one, start=1):
            scores[position] += 1 / (60 + rank)
    kept = {position: np.float32(score) for position, score in scores.items()}
    expected = sorted(kept, key=lambda position: (-kept[position], position))[:k]
    assert fuse([ranking(*one) for one in rankings], k).positions.tolist() == expected


def test_a_fused_model_ranks_by_both_rankings(quarry: Quarry, workspace: Path, tmp_path: Path) -> None:
    with Store.open(workspace, read_only=True) as store:
        revisions = store.revisions("preimage")
        texts = [EvalQuery(*row).text for row in store.selected_queries("preimage")]
        for repo in sorted({r.repo for r in revisions}):
            texts += repository_documents(store, repo, revisions, "quarry")
    distinct = sorted(set(texts))
    numbers = np.random.default_rng(4).standard_normal((len(distinct), 16)).tolist()
    pq.write_table(pa.table({"text": distinct, "vector": numbers}), tmp_path / "v.parquet")
    both = quarry("eval", "--model", f"bm25+{tmp_path / 'v.parquet'}", "-w", workspace, "--json")
    assert both.code == 0, both.err
    assert both.json["model"] == "bm25+v.parquet"
    # Every corpus of the demo has fewer than 1,000 chunks, so these runs hold all that is fused.
    parts = [
        quarry("eval", "--model", model, "--depth", 1000, "-w", workspace, "--json").json["folder"]
        for model in ("bm25", tmp_path / "v.parquet")
    ]
    scores: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        for query, _, document, rank, _, _ in lines_of(Path(part)):
            scores[query][document] += 1 / (60 + int(rank))
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for query, _, document, _, score, _ in lines_of(Path(both.json["folder"])):
        found[query].append((document, score))
    assert found.keys() == scores.keys()
    for query, documents in found.items():
        for document, score in documents:
            assert float(score) == pytest.approx(scores[query][document], rel=1e-6)
        best = sorted(scores[query].values(), reverse=True)[:100]
        assert [float(score) for _, score in documents] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "words"), [("bm25+bm25", "fused with itself"), ("bm25+", "no model"), ("bm25+nothing", "nothing")]
)
def test_a_fusion_that_cannot_be_is_refused(quarry: Quarry, demo_workspace: Path, name: str, words: str) -> None:
    done = quarry("eval", "--model", name, "-w", demo_workspace)
    assert (done.code, words in done.err) == (2, True)


def test_what_is_said_of_a_model_is_said_of_the_parts_that_embed() -> None:
    options = Options(base_url="http://localhost:1/v1", dimension=8)
    lexical, served = models_of(Choice("BM25+some-model", options))
    assert (lexical.kind, served.kind, served.base_url) == ("lexical", "openai", "http://localhost:1/v1")
    assert name_of(Choice("BM25+some-model", options)) == "bm25+some-model"
