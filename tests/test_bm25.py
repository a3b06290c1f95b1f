import math

import numpy as np
import pytest

from quarry_harness.models.bm25 import BM25, tokens
from quarry_harness.retrieve import NOT_RETRIEVED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPServer2", ["gethttpserver2", "get", "http", "server", "2"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("plain Word", ["plain", "word"]),
        ("__init__", ["__init__"]),
        ("MAX_VALUE", ["max_value", "max", "value"]),
        ("größeÄndern", ["größeändern"]),
        ("größe_ändern", ["größe_ändern", "größe", "ändern"]),
        ("a.b->c(d)", ["a", "b", "c", "d"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_scores_equal_the_formula_by_hand() -> None:
    # Three documents of 2, 3 and 1 words; "cat" is in two of them.
    documents = ["cat dog", "cat cat bird", "fish"]
    scores = BM25().score(["cat"], documents)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def weight(frequency: int, length: int) -> float:
        return idf * frequency / (frequency + 1.5 * (1 - 0.75 + 0.75 * length / 2))

    assert scores[0, 0] == pytest.approx(weight(1, 2), rel=1e-6)
    assert scores[0, 1] == pytest.approx(weight(2, 3), rel=1e-6)
    assert scores[0, 2] == NOT_RETRIEVED


def test_queries_that_share_nothing_and_empty_corpora_retrieve_nothing() -> None:
    assert (BM25().score(["zebra", "..."], ["cat", "dog"]) == NOT_RETRIEVED).all()
    assert BM25().score(["cat"], []).shape == (1, 0)
    assert (BM25().score(["cat"], ["", "..."]) == NOT_RETRIEVED).all()


def test_scores_do_not_depend_on_what_else_is_asked() -> None:
    documents = ["open file", "close file handle", "parse file name"]
    together = BM25().score(["open file", "parse name"], documents)
    alone = BM25().score(["parse name"], documents)
    assert np.array_equal(together[1], alone[0])
