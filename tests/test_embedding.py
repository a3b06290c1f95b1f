import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from toy_embedder import ToyEmbedder, toy_vector

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.models.embedding import Allowance, embed_missing, keys, plan
from quarry_harness.models.registry import Limits
from quarry_harness.vectors import VectorStore


def store_of(root: Path, embedder: ToyEmbedder, dtype: str = "float32") -> VectorStore:
    return VectorStore(root, embedder.describe(), embedder.dimension, dtype)


def nothing(_done: int, _total: int, _words: str) -> None:
    pass


def embed(root: Path, embedder: ToyEmbedder, texts: list[str], role: str = "document") -> np.ndarray:
    """The texts' vectors, after embedding what is missing."""
    with store_of(root, embedder) as store:
        return store.read(embed_missing(embedder, texts, role, store, nothing)).copy()


def words(*counts: int) -> list[str]:
    return [" ".join([f"t{i}"] * count) for i, count in enumerate(counts)]


def test_each_distinct_text_is_embedded_once_and_never_again(tmp_path: Path) -> None:
    texts = ["b", "a", "b", "c", "a"]
    first = ToyEmbedder()
    vectors = embed(tmp_path, first, texts)
    assert np.array_equal(vectors, np.stack([toy_vector(text, 8) for text in texts]))
    assert Counter(text for call in first.calls for text in call) == Counter("abc")
    again = ToyEmbedder()
    assert np.array_equal(embed(tmp_path, again, ["c", "d", "a"]), [toy_vector(t, 8) for t in "cda"])
    assert again.calls == [["d"]]


def test_the_prompt_is_part_of_the_text_and_the_role_of_the_key(tmp_path: Path) -> None:
    embedder = ToyEmbedder()
    assert np.array_equal(embed(tmp_path, embedder, ["a"], "query"), [toy_vector("Q: a", 8)])
    assert np.array_equal(embed(tmp_path, embedder, ["a", "Q: a"]), [toy_vector("a", 8), toy_vector("Q: a", 8)])
    # Some models embed the same words differently in the two roles.
    assert embedder.calls == [["Q: a"], ["Q: a", "a"]]


def test_the_longest_come_first_and_batches_keep_to_both_limits(tmp_path: Path) -> None:
    embedder = ToyEmbedder(limits=Limits(texts=3, tokens=20))
    embed(tmp_path, embedder, words(1, 9, 2, 30, 5, 4, 1, 1, 10))
    sizes = [[len(text.split()) for text in call] for call in embedder.calls]
    # A text over the limit goes alone; padding counts, so 10 and 9 fill 20.
    assert sizes == [[30], [10, 9], [5, 4, 2], [1, 1, 1]]


def test_what_a_model_cuts_counts_as_what_it_sees(tmp_path: Path) -> None:
    embedder = ToyEmbedder(max_tokens=10, limits=Limits(tokens=20))
    texts = words(500, 30, 10, 9)
    with store_of(tmp_path, embedder) as store:
        before = plan(embedder, [*texts, texts[0]], "document", store, set())
        assert (before.texts, before.tokens, before.longest_tokens, before.cut) == (4, 39, 500, 2)
        rows = embed_missing(embedder, texts, "document", store, nothing)
        assert store.tokens(rows).tolist() == [500, 30, 10, 9]
        assert plan(embedder, texts, "document", store, set()).texts == 0
    assert [len(call) for call in embedder.calls] == [2, 2]


def test_a_batch_that_does_not_fit_is_halved_and_so_are_the_later_ones(tmp_path: Path) -> None:
    embedder = ToyEmbedder(limits=Limits(texts=16), room_tokens=40)
    texts = words(*[10] * 16, *[2] * 20)
    vectors = embed(tmp_path, embedder, texts)
    assert np.array_equal(vectors, np.stack([toy_vector(text, 8) for text in texts]))
    assert embedder.refused == [16, 8]
    assert [len(call) for call in embedder.calls] == [4, 4, 4, 4, 16, 4]


def test_what_memory_holds_is_remembered_for_the_next_repository(tmp_path: Path) -> None:
    embedder = ToyEmbedder(limits=Limits(texts=16), room_tokens=40)
    embed(tmp_path, embedder, words(*[10] * 16))
    assert embedder.refused == [16, 8]
    embed(tmp_path, embedder, [f"other {text}" for text in words(*[9] * 8)])
    assert embedder.refused == [16, 8]


def test_a_text_that_does_not_fit_alone_is_named(tmp_path: Path) -> None:
    embedder = ToyEmbedder(room_tokens=5)
    with pytest.raises(EnvironmentProblem, match=r"the document 'src/a.py/long'.*alone"):
        embed(tmp_path, embedder, ["src/a.py/long\n" + "x " * 10, "short"])


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_refused_before_anything_is_embedded(tmp_path: Path, text: str) -> None:
    embedder = ToyEmbedder()
    with pytest.raises(InvalidInputError, match="a query is empty"):
        embed(tmp_path, embedder, ["a", text], "query")
    assert embedder.calls == []


@pytest.mark.parametrize(
    ("wrong", "fault", "dtype"),
    [
        (np.full(8, np.nan), "NaN or infinite", "float32"),
        (np.array([np.inf, *[0.0] * 7]), "NaN or infinite", "float32"),
        (np.zeros(8), "zero", "float32"),
        (np.full(8, 0.5), "length is not 1", "float32"),
        (np.full(8, 1e30), "do not fit float16", "float16"),
        (np.full(8, 1e-12), "zero", "float16"),
    ],
)
def test_a_vector_that_is_none_is_an_error_with_its_document_s_name(
    tmp_path: Path, wrong: np.ndarray, fault: str, dtype: str
) -> None:
    def vector(text: str, dimension: int) -> np.ndarray:
        return wrong.astype(np.float32) if "bad" in text else toy_vector(text, dimension)

    embedder = ToyEmbedder(vector=vector, similarity="dot" if dtype == "float16" else "cosine")
    with store_of(tmp_path, embedder, dtype) as store:
        with pytest.raises(EnvironmentProblem, match=f"'src/bad.py/f' cannot be used: .*{fault}.*1 of 3"):
            embed_missing(embedder, ["a", "src/bad.py/f\ncode", "c"], "document", store, nothing)
        # The others of its batch are kept.
        assert (store.find(keys(embedder, ["a", "src/bad.py/f\ncode", "c"], "document")) >= 0).tolist() == [1, 0, 1]


def test_vectors_of_another_shape_are_refused(tmp_path: Path) -> None:
    embedder = ToyEmbedder(vector=lambda text, dimension: toy_vector(text, dimension + 1))
    with pytest.raises(EnvironmentProblem, match=r"shape \(2, 9\).*2 texts of 8 dimensions.*'a'"):
        embed(tmp_path, embedder, ["a", "b"])


def test_no_batch_is_sent_that_would_exceed_the_cost(tmp_path: Path) -> None:
    texts = words(5, 5, 4, 4, 3)
    embedder = ToyEmbedder(limits=Limits(texts=2))
    with store_of(tmp_path, embedder) as store:
        # Two dollars a million tokens; 20 of the 21 tokens are paid for.
        spend = partial(Allowance(0.00004).spend, 2.0)
        with pytest.raises(EnvironmentProblem, match=r"3 tokens, \$0.0000\) would exceed --max-cost 4e-05"):
            embed_missing(embedder, texts, "document", store, nothing, spend)
        assert plan(embedder, texts, "document", store, set()).texts == 1
        embed_missing(embedder, texts, "document", store, nothing, partial(Allowance(0.000006).spend, 2.0))
    assert [len(call) for call in embedder.calls] == [2, 2, 1]


def test_a_batch_that_did_not_fit_costs_nothing(tmp_path: Path) -> None:
    embedder = ToyEmbedder(limits=Limits(texts=4), room_tokens=10)
    with store_of(tmp_path, embedder) as store:
        spend = partial(Allowance(20).spend, 1_000_000)
        embed_missing(embedder, words(5, 5, 5, 5), "document", store, nothing, spend)
    assert [len(call) for call in embedder.calls] == [2, 2]


def test_models_that_are_fused_share_the_allowance() -> None:
    allowance = Allowance(1)
    allowance.spend(1_000, 600)
    with pytest.raises(EnvironmentProblem, match=r"500 tokens, \$0.5000\).*\$0.4000 is left"):
        allowance.spend(1_000, 500)
    allowance.spend(2_000, 200)


def test_progress_is_told_in_tokens(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    embedder = ToyEmbedder(limits=Limits(texts=2))
    with store_of(tmp_path, embedder) as store:
        for _ in range(2):
            embed_missing(embedder, words(3, 2, 1), "query", store, lambda *told: seen.append(told))
    assert [told[:2] for told in seen] == [(0, 9), (7, 9), (9, 9)]
    assert seen[0][2] == "tokens of 3 texts embedded (query)"


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toy_embedder import ToyEmbedder
from quarry_harness.models.embedding import embed_missing
from quarry_harness.models.registry import Limits
from quarry_harness.vectors import VectorStore
embedder = ToyEmbedder(limits=Limits(texts=7), log=Path(sys.argv[3]), pause_s=0.004)
texts = [f"text {i} " + "word " * (i % 50) for i in range(900)]
with VectorStore(Path(sys.argv[2]), embedder.describe(), embedder.dimension, "float32") as store:
    embed_missing(embedder, texts, "document", store, lambda *told: None)
"""
TEXTS = [f"text {i} " + "word " * (i % 50) for i in range(900)]


def lines(log: Path) -> list[list[str]]:
    return [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []


def worker(root: Path, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(Path(__file__).parent), str(root), str(log)])


def test_ten_kills_at_random_moments_cost_one_batch_each(tmp_path: Path) -> None:
    chance = random.Random(20260301)  # noqa: S311 moments, not secrets
    log = tmp_path / "log"
    redone: Counter[str] = Counter()
    for _ in range(10):
        before = len(lines(log))
        process = worker(tmp_path / "killed", log)
        wait_for = before + chance.randint(1, 8)
        deadline = time.monotonic() + 60
        while len(lines(log)) < wait_for and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.012)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        batches = lines(log)
        # Only the batch in flight when the one before was killed may have been embedded again.
        earlier = {text for batch in batches[: max(0, before - 1)] for text in batch}
        assert not earlier & {text for batch in batches[before:] for text in batch}
        redone.update(batches[-1])
    assert worker(tmp_path / "killed", log).wait() == 0
    assert worker(tmp_path / "whole", tmp_path / "log of the whole").wait() == 0
    sent = Counter(text for batch in lines(log) for text in batch)
    assert sent.keys() == set(ToyEmbedder().prepare(TEXTS, "document"))
    assert all(count <= 1 + redone[text] for text, count in sent.items())
    assert sent.total() <= len(TEXTS) + 10 * 7
    embedder = ToyEmbedder(limits=Limits(texts=7))
    wanted = keys(embedder, TEXTS, "document")
    with store_of(tmp_path / "killed", embedder) as killed, store_of(tmp_path / "whole", embedder) as whole:
        rows, expected = killed.find(wanted), whole.find(wanted)
        assert (rows >= 0).all()
        assert killed.read(rows).tobytes() == whole.read(expected).tobytes()
        assert killed.tokens(rows).tolist() == whole.tokens(expected).tolist()
        assert (len(killed), len(whole), killed.damaged) == (900, 900, 0)
