"""The measures against ir_measures, so trec_eval and MS MARCO's script: equal without ties, and how ties differ."""

from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, Success, nDCG

from quarry_harness import measures
from quarry_harness.measures import QueryRanks
from quarry_harness.retrieve import top_k

CUTOFFS = (1, 3, 5, 10, 20)
PAIRS = {
    **{f"recall@{k}": R @ k for k in CUTOFFS},
    **{f"hit@{k}": Success @ k for k in CUTOFFS},
    **{f"precision@{k}": P @ k for k in CUTOFFS},
    **{f"RR@{k}": RR @ k for k in CUTOFFS},
    **{f"AP@{k}": AP @ k for k in CUTOFFS},
    **{f"nDCG@{k}": nDCG @ k for k in CUTOFFS},
    **{f"nDCG_binary@{k}": nDCG(gains={0: 0, 1: 1, 2: 1}) @ k for k in CUTOFFS},
    "RR": RR,
    "AP": AP,
    "nDCG": nDCG,
}
DOCUMENTS = 30


@st.composite
def runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Queries, each with a ranking of some of 30 documents and units in some of them; two units may share one."""
    queries = []
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.permutations(range(DOCUMENTS)))
        units = draw(st.lists(st.tuples(st.integers(0, DOCUMENTS - 1), st.booleans()), min_size=1, max_size=9))
        queries.append({"ranking": order[: draw(st.integers(0, DOCUMENTS))], "units": units})
    return queries


def calculated(wanted: list[Any], qrels: list[Any], run: list[Any]) -> dict[tuple[str, str], float]:
    """(query, measure) -> ir_measures' value.

    Graded and binary nDCG are asked for apart: of both at once ir_measures gives, by the chance of Python's hashes, one
    alone (its pytrec_eval provider, 0.4.3).
    """
    binary = [measure for measure in wanted if "gains" in str(measure)]
    groups = [binary, [measure for measure in wanted if measure not in binary]]
    return {
        (m.query_id, str(m.measure)): m.value
        for group in groups
        if group
        for m in ir_measures.iter_calc(group, qrels, run)
    }


def compared(queries: list[dict[str, Any]], names: list[str]) -> None:
    qrels, run, ours = [], [], []
    for number, query in enumerate(queries):
        rank_of = {document: rank for rank, document in enumerate(query["ranking"], start=1)}
        grades: dict[int, int] = {}
        for document, essential in query["units"]:
            grades[document] = max(grades.get(document, 0), 1 + essential)
        qrels += [ir_measures.Qrel(f"q{number}", f"d{d}", grade) for d, grade in grades.items()]
        run += [ir_measures.ScoredDoc(f"q{number}", f"d{d}", -float(rank)) for d, rank in rank_of.items()]
        documents, essential = zip(*query["units"], strict=True)
        ranks = tuple(rank_of.get(document, 0) for document in documents)
        ours.append(QueryRanks(f"q{number}", "r", "t", "go", ranks, essential, len(rank_of), documents))
    wanted = [PAIRS[name] for name in names]
    # Each metric's value for each query; a query that is not in the run has none there and counts 0.
    theirs = calculated(wanted, qrels, run)
    values = measures.per_query(ours, names)
    for name, measure in zip(names, wanted, strict=True):
        for number, value in enumerate(values[name]):
            expected = theirs.get((f"q{number}", str(measure)), 0.0)
            assert value == pytest.approx(expected, abs=1e-9), (name, number)


@settings(max_examples=60, deadline=None)
@given(runs())
def test_every_measure_of_documents_equals_ir_measures(queries: list[dict[str, Any]]) -> None:
    compared(queries, [name for name in PAIRS if not name.startswith("recall")])


@settings(max_examples=40, deadline=None)
@given(runs())
def test_recall_equals_ir_measures_where_no_two_units_share_a_chunk(queries: list[dict[str, Any]]) -> None:
    for query in queries:
        query["units"] = list(dict(query["units"]).items())
    compared(queries, [f"recall@{k}" for k in CUTOFFS])


def test_recall_counts_both_units_of_a_shared_chunk_and_trec_eval_one_document() -> None:
    # Units in d0 (twice) and d1; only d0 is in the ranking.
    ours = measures.per_query([QueryRanks("q", "r", "t", "go", (1, 1, 0), (True,) * 3, 1, (0, 0, 1))], ["recall@5"])
    qrels = [ir_measures.Qrel("q", "d0", 2), ir_measures.Qrel("q", "d1", 2)]
    theirs = ir_measures.calc_aggregate([R @ 5], qrels, [ir_measures.ScoredDoc("q", "d0", 1.0)])
    assert ours["recall@5"][0] == pytest.approx(2 / 3)
    assert theirs[R @ 5] == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("gold", "ours", "theirs"),
    # Three documents of one score, a fourth below. We go by path; trec_eval by document id from the end, so that it
    # sees c.go first; MS MARCO's script keeps the order of the file.
    [("a.go", 1, 3), ("b.go", 2, 2), ("c.go", 3, 1)],
)
def test_among_equal_scores_trec_eval_goes_the_other_way(gold: str, ours: int, theirs: int) -> None:
    corpus = ["a.go", "b.go", "c.go", "d.go"]
    scores = np.array([1, 1, 1, 0.5], dtype=np.float32)
    ranking = [corpus[i] for i in top_k(scores, 4)]
    assert ranking.index(gold) + 1 == ours
    qrels = [ir_measures.Qrel("q", gold, 1)]
    run = [ir_measures.ScoredDoc("q", name, float(score)) for name, score in zip(corpus, scores, strict=True)]
    assert ir_measures.pytrec_eval.calc_aggregate([RR], qrels, run)[RR] == pytest.approx(1 / theirs)
    # Ranks made into scores take the question away from every tool.
    ranked = [ir_measures.ScoredDoc("q", name, -float(rank)) for rank, name in enumerate(ranking, start=1)]
    assert ir_measures.pytrec_eval.calc_aggregate([RR], qrels, ranked)[RR] == pytest.approx(1 / ours)


@pytest.mark.parametrize("gold", range(4))
def test_a_constant_scorer_gets_no_credit_from_any_measure(gold: int) -> None:
    # Where the first paths hold the gold, an order of ties by path would be a perfect ranking.
    ranking = top_k(np.full(4, 0.5, np.float32), 4).tolist()
    rank = ranking.index(gold) + 1 if gold in ranking else 0
    for name, column in measures.per_query([QueryRanks("q", "r", "t", "go", (rank,), (True,), len(ranking))]).items():
        assert column[0] == 0, name


def test_a_finished_run_gives_ir_measures_our_values_of_every_document_measure(demo_workspace: Path) -> None:
    (folder,) = (demo_workspace / "runs").iterdir()
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.trec")))
    run = [
        ir_measures.ScoredDoc(query, document, -float(rank))
        for query, _, document, rank, *_ in map(str.split, (folder / "run.trec").read_text("utf-8").splitlines())
    ]
    names = [name for name in measures.names() if name in PAIRS]
    assert len(names) >= 8
    theirs = calculated([PAIRS[name] for name in names], qrels, run)
    rows = pq.read_table(folder / "per_query.parquet").to_pylist()
    for row in rows:
        for name in names:
            expected = theirs.get((row["query_id"], str(PAIRS[name])), 0.0)
            assert row[name] == pytest.approx(expected, abs=1e-9), (row["query_id"], name)
