import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.retrieve import NOT_RETRIEVED, top_k


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
