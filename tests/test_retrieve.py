import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.retrieve import NOT_RETRIEVED, Corpus, Ranking, search, top_k


def scores_of(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_best_first_and_equal_scores_in_corpus_order() -> None:
    assert top_k(scores_of(1, 3, 2, 3, 1), 5).tolist() == [1, 3, 2, 0, 4]


def test_the_cut_falls_among_equal_scores_in_corpus_order() -> None:
    assert top_k(scores_of(1, 1, 2, 1, 1), 3).tolist() == [2, 0, 1]


def test_documents_that_were_not_retrieved_never_appear() -> None:
    assert top_k(scores_of(NOT_RETRIEVED, 0.5, NOT_RETRIEVED), 3).tolist() == [1]
    assert top_k(scores_of(NOT_RETRIEVED, NOT_RETRIEVED), 3).tolist() == []
    assert top_k(scores_of(), 3).tolist() == []


def test_a_nan_score_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        top_k(scores_of(1, float("nan")), 1)


def test_a_constant_scorer_gets_no_result_so_no_credit_from_any_measure() -> None:
    assert top_k(scores_of(2, 2, 2), 3).tolist() == []
    # One document alone is retrieved, and so is every document of the same score where another was not retrieved.
    assert top_k(scores_of(2), 3).tolist() == [0]
    assert top_k(scores_of(2, NOT_RETRIEVED, 2), 3).tolist() == [0, 2]


@given(st.lists(st.integers(-3, 3) | st.just(None), max_size=60), st.integers(1, 70))
def test_top_k_equals_a_stable_sort_of_everything(values: list[int | None], k: int) -> None:
    scores = np.array([NOT_RETRIEVED if v is None else v for v in values], dtype=np.float32)
    kept = [i for i, v in enumerate(values) if v is not None]
    expected = sorted(kept, key=lambda i: -(values[i] or 0))[:k]
    if len(values) > 1 and len(set(values)) == 1:
        expected = []
    assert top_k(scores, k).tolist() == expected


def units(count: int, dimension: int, seed: int = 7) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def plain(rankings: list[list[Ranking]]) -> list[list[tuple[list[int], bytes]]]:
    return [[(r.positions.tolist(), r.scores.tobytes()) for r in corpus] for corpus in rankings]


# Components of +-0.5 make unit vectors of dimension 4 whose products no arithmetic rounds, and many ties.
halves = st.lists(st.sampled_from([-0.5, 0.5]), min_size=4, max_size=4)


@given(st.data())
def test_search_equals_a_stable_sort_of_every_dot_product(data: st.DataObject) -> None:
    documents = np.array(data.draw(st.lists(halves, min_size=1, max_size=30)), dtype=np.float32)
    queries = np.array(data.draw(st.lists(halves, min_size=1, max_size=5)), dtype=np.float32)
    members = st.lists(st.integers(0, len(documents) - 1), max_size=40)
    asked = st.lists(st.integers(0, len(queries) - 1), max_size=4)
    corpora = [
        Corpus(np.array(data.draw(members), dtype=np.int64), tuple(data.draw(asked)))
        for _ in range(data.draw(st.integers(0, 4)))
    ]
    k = data.draw(st.integers(1, 45))
    found = list(search(queries, documents, corpora, k, budget_bytes=data.draw(st.sampled_from([1, 200, 10**6]))))
    assert len(found) == len(corpora)
    for corpus, rankings in zip(corpora, found, strict=True):
        for query, ranking in zip(corpus.queries, rankings, strict=True):
            scores = [float(sum(queries[query] * documents[d])) for d in corpus.documents]
            best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:k]
            if len(scores) > 1 and len(set(scores)) == 1:
                best = []
            assert ranking.positions.tolist() == best
            assert ranking.scores.tolist() == [scores[i] for i in best]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("dimension", [1, 37, 384, 1024])
def test_neither_budget_nor_neighbours_change_a_bit_of_a_ranking(dimension: int, dtype: type) -> None:
    documents, queries = units(700, dimension).astype(dtype), units(5, dimension, seed=8)
    shuffled = np.random.default_rng(3).permutation(700)
    whole = Corpus(np.arange(700), (0, 1, 2, 3, 4))
    reference = plain(list(search(queries, documents, [whole], 50)))
    for budget in (1, 50_000, 300_000, 10**9):
        assert plain(list(search(queries, documents, [whole], 50, budget_bytes=budget))) == reference
    # The same documents laid elsewhere and searched beside other corpora.
    laid = documents[shuffled]
    place = np.argsort(shuffled)
    beside = [Corpus(np.arange(0, 700, 3), (2,)), Corpus(place, (0, 1, 2, 3, 4)), Corpus(np.arange(5), (4, 0))]
    assert plain(list(search(queries, laid, beside, 50)))[1] == reference[0]
    # A query alone: a product of one row goes another way through the linear algebra library.
    assert plain(list(search(queries[3:4], documents, [Corpus(np.arange(700), (0,))], 50)))[0][0] == reference[0][3]


def test_identical_vectors_have_identical_scores_wherever_they_lie() -> None:
    documents = units(5000, 1000)
    copies = [0, 1, 63, 64, 1023, 2048, 4097, 4998, 4999]
    documents[copies] = documents[17]
    (((ranking),),) = search(units(1, 1000, 17), documents, [Corpus(np.arange(5000), (0,))], 5000, budget_bytes=999_983)
    score = dict(zip(ranking.positions.tolist(), ranking.scores.tolist(), strict=True))
    assert len({score[place] for place in [*copies, 17]}) == 1
    order = [place for place in ranking.positions.tolist() if place in {*copies, 17}]
    assert order == sorted(order)
    start = ranking.positions.tolist().index(order[0])
    assert ranking.positions.tolist()[start : start + len(order)] == order


def test_scores_are_the_correctly_rounded_cosines() -> None:
    documents, queries = units(300, 512), units(3, 512, seed=1)
    (rankings,) = search(queries, documents, [Corpus(np.arange(300), (0, 1, 2))], 300)
    for query, ranking in zip(queries.tolist(), rankings, strict=True):
        exact = [math.fsum(map(float.__mul__, query, documents[p].tolist())) for p in ranking.positions]
        assert np.abs(ranking.scores - np.array(exact)).max() < 2**-25
        assert ranking.scores.tolist() == sorted(ranking.scores.tolist(), reverse=True)


@pytest.mark.parametrize("scale", [2.0**-40, 0.37, 300.0, 2.0**30])
def test_vectors_of_other_lengths_are_ranked_by_their_dot_products(scale: float) -> None:
    generator = np.random.default_rng(5)
    documents = (units(500, 96) * generator.uniform(0.1, 1, (500, 1)) * scale).astype(np.float32)
    query = units(1, 96, 3) * np.float32(1 / scale)
    longest = float(np.linalg.norm(documents.astype(np.float64), axis=1).max())
    ((ranking,),) = search(query, documents, [Corpus(np.arange(500), (0,))], 500, longest=longest)
    exact = [math.fsum(map(float.__mul__, query[0].tolist(), row)) for row in documents.tolist()]
    assert ranking.positions.tolist() == sorted(range(500), key=lambda i: -exact[i])
    assert ranking.scores == pytest.approx([exact[i] for i in ranking.positions], abs=2**-25)


def test_vectors_that_are_all_the_same_but_one_are_ranked_in_corpus_order() -> None:
    documents = np.repeat(units(1, 64), 3000, axis=0)
    documents[5] = -documents[5]
    ((ranking,),) = search(
        units(1, 64), documents, [Corpus(np.arange(3000)[::-1].copy(), (0,))], 100, budget_bytes=10_000
    )
    assert ranking.positions.tolist() == list(range(100))


def test_a_search_refuses_what_has_no_honest_place() -> None:
    corpus = [Corpus(np.arange(2), (0,))]
    for bad in (np.nan, np.inf):
        broken = units(2, 4)
        broken[1, 2] = bad
        with pytest.raises(ValueError, match="NaN"):
            list(search(units(1, 4), broken, corpus, 1))
        with pytest.raises(ValueError, match="NaN"):
            list(search(broken[1:], units(2, 4), corpus, 1))


def test_a_search_holds_no_more_than_its_budget() -> None:
    documents, queries = units(20_000, 64), units(400, 64, seed=2)
    corpora = [Corpus(np.arange(20_000), tuple(range(i, i + 100))) for i in range(0, 400, 100)]
    budget = 4_000_000  # all scores would be 32 MB
    tracemalloc.start()
    try:
        for rankings in search(queries, documents, corpora, 10, budget_bytes=budget):
            assert len(rankings) == 100
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One corpus in its own order and the candidates of one query come on top.
    assert held < budget + 1_500_000


def test_vectors_that_are_all_one_rank_nothing() -> None:
    one = np.full((1, 4), 0.5, dtype=np.float32)
    same = np.repeat(one, 7, axis=0)
    corpora = [Corpus(np.arange(7), (0,)), Corpus(np.array([3]), (0,)), Corpus(np.arange(0), (0,))]
    found = [ranking.positions.tolist() for (ranking,) in search(one, same, corpora, 5)]
    assert found == [[], [0], []]
    same[6] = -same[6]
    ((ranking,),) = search(one, same, corpora[:1], 5)
    assert ranking.positions.tolist() == [0, 1, 2, 3, 4]
