"""Right values computed by hand, and what must hold of any ranking."""

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness import measures
from quarry_harness.errors import UsageError
from quarry_harness.measures import Judged, QueryRanks


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


def one(ranks: tuple[int, ...], grades: tuple[int, ...], documents: tuple[int, ...] = ()) -> Judged:
    essential = tuple(grade == 2 for grade in grades)
    return measures.judged([QueryRanks("q", "r", "t", "go", ranks, essential, 100, documents)])


def value(units: Judged, name: str) -> float:
    return float(measures.per_query(units, [name])[name][0])


# Six units: an ESSENTIAL and a RELATED one in the chunk at rank 2, one RELATED at rank 1, an ESSENTIAL one at rank 5,
# an ESSENTIAL one that is not in the ranking, a RELATED one that could not be resolved. So five documents, with the
# grades 1 (rank 1), 2 (rank 2), 2 (rank 5), 2 (never), 1 (never).
WORKED = one((2, 2, 1, 5, 0, 0), (2, 1, 1, 2, 2, 1), (0, 0, 2, 3, 4, 5))
LOG3, LOG5, LOG6 = math.log2(3), math.log2(5), math.log2(6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recall@1", 1 / 6),
        ("recall@2", 3 / 6),
        ("recall@5", 4 / 6),
        ("recall", 4 / 6),
        ("essential_recall@2", 1 / 3),
        ("essential_recall@5", 2 / 3),
        ("all_gold@5", 0),
        ("hit@1", 1),
        ("precision@1", 1),
        ("precision@2", 1),
        ("precision@5", 3 / 5),
        ("precision@10", 3 / 10),
        ("RR@10", 1),
        ("AP@1", 1 / 5),
        ("AP@5", (1 + 1 + 3 / 5) / 5),
        ("AP", (1 + 1 + 3 / 5) / 5),
        ("nDCG@1", 1 / 2),
        ("nDCG@2", (1 + 2 / LOG3) / (2 + 2 / LOG3)),
        ("nDCG@5", (1 + 2 / LOG3 + 2 / LOG6) / (2 + 2 / LOG3 + 2 / 2 + 1 / LOG5 + 1 / LOG6)),
        ("nDCG_binary@2", 1),
        ("nDCG_binary@5", (1 + 1 / LOG3 + 1 / LOG6) / (1 + 1 / LOG3 + 1 / 2 + 1 / LOG5 + 1 / LOG6)),
    ],
)
def test_a_worked_example(name: str, expected: float) -> None:
    assert value(WORKED, name) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("hit@3", 0), ("hit@4", 1), ("RR@3", 0), ("RR@10", 1 / 4), ("RR", 1 / 4), ("AP@10", 1 / 4), ("precision@3", 0)],
)
def test_a_single_unit_at_rank_4(name: str, expected: float) -> None:
    assert value(one((4,), (1,)), name) == expected


def test_first_and_last_rank() -> None:
    first, last = measures.first_and_last(measures.judged([query((7, 3)), query((7, 0)), query((0,)), query(())]))
    assert first.tolist() == [3, 7, 0, 0]
    assert last.tolist() == [7, 0, 0, 0]


def test_no_gold_is_no_value_and_no_result_is_zero_in_every_measure() -> None:
    values = measures.per_query([query(()), query((0, 0))], [*measures.names(), "RR", "AP", "nDCG", "recall", "hit"])
    for name, column in values.items():
        assert math.isnan(column[0]), name
        assert column[1] == 0, name
    assert all(math.isnan(column[0]) for column in measures.per_query([query(())]).values())
    assert all(len(column) == 0 for column in measures.per_query([]).values())


@pytest.mark.parametrize(
    "name", ["recal@5", "recall@0", "recall@", "recall@x", "recall@-1", "recall@²", "precision", ""]
)
def test_an_unknown_measure_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="recall, all_gold, essential_recall"):
        measures.per_query([query((1,))], [name])


def test_ranks_that_no_ranking_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match="different ranks"):
        measures.per_query(one((1, 2), (1, 1), (0, 0)))
    with pytest.raises(ValueError, match="one rank"):
        measures.per_query(one((1, 1), (1, 1)))


def test_grouped_by_query_and_by_unit_by_hand() -> None:
    group = [query((1, 9)), query((0,)), query((2,)), query(())]
    units = measures.judged(group)
    values = measures.per_query(units, ["recall@5"])
    assert measures.by_query(values, ["b", "a", "b", "a"]) == {
        "a": {"queries": 1, "micro": {"recall@5": 0}},
        "b": {"queries": 2, "micro": {"recall@5": 0.75}},
    }
    # Methods: ranks 1 (first query) and 2 (third): both found. Functions: 9 (first query) and never (second).
    assert measures.by_unit(units, ["method", "function", "function", "method"], (5, 10)) == {
        "function": {
            "queries": 2,
            "units": 2,
            "micro": {"recall@5": 0, "recall@10": 0.5, "all_gold@5": 0, "all_gold@10": 0.5, "hit@5": 0, "hit@10": 0.5},
            "pooled": {"pooled_recall@5": 0, "pooled_recall@10": 0.5},
        },
        "method": {
            "queries": 2,
            "units": 2,
            "micro": {"recall@5": 1, "recall@10": 1, "all_gold@5": 1, "all_gold@10": 1, "hit@5": 1, "hit@10": 1},
            "pooled": {"pooled_recall@5": 1, "pooled_recall@10": 1},
        },
    }


def test_bins_are_named_by_what_they_hold_and_stand_in_their_order() -> None:
    sizes = [measures.bin_of(n, measures.CORPUS_CHUNKS) for n in (30_000, 6_000, 10, 1_000)]
    groups = measures.by_query(measures.per_query([query((1,))] * 4), sizes)
    assert list(groups) == ["0-999", "1000-4999", "5000-19999", "20000+"]
    assert [measures.bin_of(n, measures.GOLD_COUNTS) for n in (1, 2, 3, 4, 7, 8, 32)] == [
        "1", "2-3", "2-3", "4-7", "4-7", "8+", "8+",
    ]  # fmt: skip


def test_recall_or_ranking_by_hand() -> None:
    # The pool of 10: the first query's both units, one of the second's two, none of the third's; the fourth has none.
    first = measures.judged([query((4, 10)), query((9, 30)), query((11,)), query(())])
    second = measures.judged([query((1, 2)), query((4, 0)), query((0,)), query(())])
    found = measures.pool(first, second, 10)
    assert found == {
        "pool_depth": 10,
        "queries": 3,
        "oracle": pytest.approx(2 / 3),
        "candidate_recall": pytest.approx(1.5 / 3),
        "RR": pytest.approx(1.25 / 3),
        "eff": pytest.approx(1.25 / 2),
        "units_from_outside_the_pool": 0,
    }
    outside = measures.pool(first, measures.judged([query((1, 2)), query((4, 5)), query((3,)), query(())]), 10)
    assert outside["units_from_outside_the_pool"] == 2
    nothing = measures.judged([query((0,))])
    assert math.isnan(measures.pool(nothing, nothing, 10)["eff"])


RANKS = st.lists(st.integers(0, 60), min_size=1, max_size=12).map(
    lambda ranks: tuple(rank if rank and rank not in ranks[:i] else 0 for i, rank in enumerate(ranks))
)
# Units that may share a document: each points at one of twelve documents, which have distinct ranks.
SHARED = st.tuples(st.lists(st.tuples(st.integers(0, 11), st.booleans()), min_size=1, max_size=9), RANKS).map(
    lambda drawn: [(which, essential, (*drawn[1], *[0] * 12)[which]) for which, essential in drawn[0]]
)
MANY = st.lists(SHARED, min_size=1, max_size=6)
EVERY = [*measures.names(), "RR", "AP", "nDCG", "nDCG_binary", "recall", "AP@3", "nDCG@3", "precision@3"]


def of_units(units: list[tuple[int, bool, int]], query_id: str = "q", number: int = 0) -> QueryRanks:
    which, essential, ranks = zip(*units, strict=True)
    return QueryRanks(query_id, "r", "t", "go", ranks, essential, 60, tuple(number + document for document in which))


@given(MANY)
def test_found_counts_never_fall_with_k_and_all_gold_never_exceeds_recall(
    many: list[list[tuple[int, bool, int]]],
) -> None:
    queries = [of_units(units) for units in many]
    rising = ("recall", "all_gold", "essential_recall", "hit", "RR", "AP")
    values = measures.per_query(queries, [f"{family}@{k}" for family in rising for k in range(1, 62)])
    for family in rising:
        for k in range(1, 61):
            smaller, larger = values[f"{family}@{k}"], values[f"{family}@{k + 1}"]
            assert ((smaller <= larger) | np.isnan(smaller)).all(), (family, k)
    for k in range(1, 62):
        assert (values[f"all_gold@{k}"] <= values[f"recall@{k}"]).all()
        assert (values[f"recall@{k}"] <= values[f"hit@{k}"]).all()


@given(MANY, st.randoms(use_true_random=False))
def test_order_and_names_change_nothing(many: list[list[tuple[int, bool, int]]], random: Random) -> None:
    before = measures.per_query([of_units(units) for units in many], EVERY)
    order = list(range(len(many)))
    random.shuffle(order)
    shuffled = [random.sample(units, len(units)) for units in many]
    queries = [of_units(shuffled[i], f"renamed-{i}", 1000 - i) for i in order]
    after = measures.per_query(queries, EVERY)
    for name, column in before.items():
        # Equal to the last bit, not nearly.
        np.testing.assert_array_equal(after[name], column[order])
    assert measures.micro(after) == pytest.approx(measures.micro(before), abs=0, nan_ok=True)


@given(MANY)
def test_every_value_is_a_fraction_and_perfect_rankings_get_1(many: list[list[tuple[int, bool, int]]]) -> None:
    values = measures.per_query([of_units(units) for units in many], EVERY)
    for name, column in values.items():
        assert ((column >= 0) & (column <= 1 + 1e-12) | np.isnan(column)).all(), name
    best = []
    for units in many:
        grade = {which: max(e for w, e, _ in units if w == which) for which, _, _ in units}
        place = {which: i for i, which in enumerate(sorted(grade, key=lambda which: -grade[which]), start=1)}
        best.append(of_units([(which, essential, place[which]) for which, essential, _ in units]))
    for name, column in measures.per_query(best, EVERY).items():
        # More units than the cutoff have no room in it; an ideal order within it is 1 all the same.
        if name.startswith("nDCG") or not (name.startswith("precision") or name.endswith(("@3", "@5"))):
            assert (np.isclose(column, 1) | np.isnan(column)).all(), name


def test_every_measure_is_defined_in_the_documentation() -> None:
    text = (Path(__file__).parents[1] / "docs" / "measures.md").read_text("utf-8")
    for family in {name.partition("@")[0] for name in measures.names()}:
        assert f"| `{family}@k` |" in text
