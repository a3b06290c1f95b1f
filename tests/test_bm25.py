import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.models.bm25 import BM25, tokens
from quarry_harness.retrieve import Corpus


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


def ranked(queries: list[str], documents: list[str], *corpora: list[int]) -> list[list[list[tuple[int, float]]]]:
    """(position, score) of every ranking, corpus by corpus; every query is asked of every corpus."""
    numbers = tuple(range(len(queries)))
    asked = [Corpus(np.array(corpus, dtype=np.int64), numbers) for corpus in corpora or [range(len(documents))]]
    return [
        [list(zip(r.positions.tolist(), r.scores.tolist(), strict=True)) for r in rankings]
        for rankings in BM25().rank(queries, documents, asked, 100)
    ]


def test_scores_equal_the_formula_by_hand() -> None:
    # Three documents of 2, 3 and 1 words; "cat" is in two of them.
    ((found,),) = ranked(["cat"], ["cat dog", "cat cat bird", "fish"])
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def weight(frequency: int, length: int) -> float:
        return idf * frequency / (frequency + 1.5 * (1 - 0.75 + 0.75 * length / 2))

    assert found == [(1, pytest.approx(weight(2, 3), rel=1e-6)), (0, pytest.approx(weight(1, 2), rel=1e-6))]


def test_queries_that_share_nothing_and_empty_corpora_retrieve_nothing() -> None:
    assert ranked(["zebra", "..."], ["cat", "dog"]) == [[[], []]]
    assert ranked(["cat"], []) == [[[]]]
    assert ranked(["cat"], ["", "..."]) == [[[]]]
    assert ranked(["cat"], ["cat", "...", "dog"], [1], [], [2, 0]) == [[[]], [[]], [[(1, pytest.approx(0.2772589))]]]


def test_scores_do_not_depend_on_what_else_is_asked() -> None:
    documents = ["open file", "close file handle", "parse file name"]
    ((_, together),) = ranked(["open file", "parse name"], documents)
    ((alone,),) = ranked(["parse name"], documents)
    assert together == alone


@given(st.data())
def test_a_corpus_scores_the_same_alone_and_beside_others(data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(["cat", "dog", "fishTank", "red_car", "4x4"]), max_size=8).map(" ".join)
    documents = data.draw(st.lists(words, min_size=1, max_size=12))
    queries = data.draw(st.lists(words, min_size=1, max_size=4))
    number = st.integers(0, len(documents) - 1)
    corpora = data.draw(st.lists(st.lists(number, max_size=15), min_size=1, max_size=4))
    together = ranked(queries, documents, *corpora)
    for corpus, found in zip(corpora, together, strict=True):
        assert ranked(queries, [documents[n] for n in corpus], list(range(len(corpus)))) == [found]
