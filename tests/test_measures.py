"""Right values computed by hand, and by ir_measures where both define the same thing."""

import math

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import R

from quarry_harness import measures
from quarry_harness.measures import QueryRanks


def query(
    ranks: tuple[int, ...],
    essential: tuple[bool, ...] | None = None,
    *,
    query_id: str = "t1::q1",
    task: str = "t1",
    repo: str = "a__b",
    language: str = "go",
) -> QueryRanks:
    return QueryRanks(query_id, repo, task, language, ranks, essential or (True,) * len(ranks), 100)


def test_recall_and_all_gold_by_hand() -> None:
    # Four units: at ranks 1, 6 and 50, one never found.
    values = measures.per_query([query((1, 6, 50, 0))])
    assert [values[f"recall@{k}"][0] for k in (5, 10, 20, 50)] == [0.25, 0.5, 0.5, 0.75]
    assert [values[f"all_gold@{k}"][0] for k in (5, 10, 20, 50)] == [0, 0, 0, 0]


def test_all_gold_is_one_only_when_the_last_unit_is_in() -> None:
    values = measures.per_query([query((5, 2, 6))])
    assert values["all_gold@5"][0] == 0
    assert values["all_gold@10"][0] == 1
    assert values["recall@5"][0] == pytest.approx(2 / 3)


def test_essential_recall_counts_essential_units_alone() -> None:
    values = measures.per_query([query((1, 0, 7), (True, True, False)), query((1,), (False,))])
    assert values["essential_recall@5"][0] == 0.5
    assert math.isnan(values["essential_recall@5"][1])
    assert measures.micro(values)["essential_recall@5"] == 0.5


def test_a_query_without_gold_is_in_no_mean_and_one_without_result_counts_zero() -> None:
    group = [query((1,)), query((0,)), query(())]
    assert measures.micro(measures.per_query(group))["recall@5"] == 0.5


def test_pooled_recall_weighs_queries_by_their_units() -> None:
    group = [query((1,)), query((0, 0, 3))]
    assert measures.pooled_recall(group)["pooled_recall@5"] == 0.5
    assert measures.micro(measures.per_query(group))["recall@5"] == pytest.approx((1 + 1 / 3) / 2)


def test_rollup_by_hand() -> None:
    # Go: repo r1 has task t1 (1.0, 0.0 -> 0.5) and t2 (1.0) -> 0.75; repo r2 has t3 (0.0) -> 0; Go = 0.375.
    # PHP: r3, t4 = 1.0. All = 0.6875, while the mean over the five queries is 0.6.
    group = [
        query((1,), task="t1", repo="r__1"),
        query((0,), task="t1", repo="r__1"),
        query((1,), task="t2", repo="r__1"),
        query((0,), task="t3", repo="r__2"),
        query((1,), task="t4", repo="r__3", language="php"),
    ]
    values = measures.per_query(group)
    levels = measures.rollup(group, values)
    assert measures.micro(values)["recall@5"] == pytest.approx(0.6)
    assert levels["task"]["go", "r__1", "t1"]["recall@5"] == 0.5
    assert levels["repo"]["go", "r__1"]["recall@5"] == 0.75
    assert levels["language"]["go",]["recall@5"] == 0.375
    assert levels["all"][()]["recall@5"] == 0.6875
    assert measures.macro(levels, "language")["recall@5"] == 0.6875
    assert measures.macro(levels, "repo")["recall@5"] == pytest.approx((0.75 + 0 + 1) / 3)
    assert measures.macro(levels, "task")["recall@5"] == pytest.approx((0.5 + 1 + 0 + 1) / 4)


RANKS = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(
    lambda ranks: tuple(rank if rank and rank not in ranks[:i] else 0 for i, rank in enumerate(ranks))
)


@given(st.lists(RANKS, min_size=1, max_size=6))
def test_recall_never_falls_with_k_and_bounds_all_gold(many: list[tuple[int, ...]]) -> None:
    values = measures.per_query([query(ranks) for ranks in many])
    for smaller, larger in zip(measures.CUTOFFS, measures.CUTOFFS[1:], strict=False):
        assert (values[f"recall@{smaller}"] <= values[f"recall@{larger}"]).all()
    for k in measures.CUTOFFS:
        assert (values[f"all_gold@{k}"] <= values[f"recall@{k}"]).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(RANKS, min_size=1, max_size=5))
def test_recall_equals_ir_measures(many: list[tuple[int, ...]]) -> None:
    qrels = []
    run = []
    for q, ranks in enumerate(many):
        for u, rank in enumerate(ranks):
            qrels.append(ir_measures.Qrel(f"q{q}", f"d{u}", 1))
            if rank:
                run.append(ir_measures.ScoredDoc(f"q{q}", f"d{u}", -float(rank)))
        taken = set(ranks)
        run += [ir_measures.ScoredDoc(f"q{q}", f"x{r}", -float(r)) for r in range(1, 61) if r not in taken]
    expected = ir_measures.calc_aggregate([R @ k for k in measures.CUTOFFS], qrels, run)
    ours = measures.micro(measures.per_query([query(ranks, query_id=f"q{q}") for q, ranks in enumerate(many)]))
    for k in measures.CUTOFFS:
        assert ours[f"recall@{k}"] == pytest.approx(expected[R @ k], abs=1e-9)
