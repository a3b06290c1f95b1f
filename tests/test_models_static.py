"""Static embeddings: the mean of token vectors, by hand and by model2vec; token counts and cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quarry_harness.errors import EnvironmentProblem
from quarry_harness.models.embedders import open_embedder, unit_length
from quarry_harness.models.registry import Options, find
from quarry_harness.models.tokens import Estimate, Tiktoken, Tokenizers, counter_for

WORDS = ["[UNK]", "red", "green", "blue", "search"]
VECTORS = np.array([[9, 9, 9], [1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 2, 0]], dtype=np.float32)


def word_tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> str:
    model2vec = pytest.importorskip("model2vec")
    static = model2vec.StaticModel(VECTORS, word_tokenizer(), config={}, normalize=False, max_length=2)
    static.save_pretrained(tmp_path / "colours")
    return str(tmp_path / "colours")


def test_a_vector_is_the_mean_of_its_known_tokens_at_length_1(folder: str) -> None:
    embedder = open_embedder(find(folder))
    texts = embedder.prepare(["red green", "red green blue", "strange", "red red red green"], "document")
    means = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0], [3, 1, 0]], dtype=np.float32)
    np.testing.assert_allclose(embedder.embed(texts, "document"), unit_length(means), atol=1e-6)
    assert embedder.count_tokens(texts).tolist() == [2, 3, 1, 4]
    assert embedder.token_count == "exact"


def test_it_is_not_cut_where_the_library_s_own_default_would_cut(folder: str) -> None:
    # The folder's own max_length is 2, model2vec's default 512 tokens and a number of characters.
    embedder = open_embedder(find(folder))
    long = "red " * 5000 + "green " * 5000
    np.testing.assert_allclose(embedder.embed([long], "document")[0], unit_length(np.array([[1, 1, 0]]))[0], atol=1e-6)


def test_max_tokens_cuts_by_tokens(folder: str) -> None:
    embedder = open_embedder(find(folder, Options(max_tokens=1)))
    np.testing.assert_allclose(embedder.embed(["green red red"], "query"), [[0, 1, 0]], atol=1e-6)


def test_prompts_dimension_and_digest_are_described(folder: str) -> None:
    embedder = open_embedder(find(folder, Options(query_prompt="search ", dimension=2)))
    assert embedder.prepare(["red"], "query") == ["search red"]
    assert embedder.prepare(["red"], "document") == ["red"]
    np.testing.assert_allclose(embedder.embed(["search blue"], "query"), [[2**-0.5, 2**-0.5]], atol=1e-6)
    before = embedder.describe()
    assert (before["query_prompt"], before["dimension"], before["pooling"]) == ("search ", 2, "mean")
    Path(folder, "README.md").write_text("other words")
    assert open_embedder(find(folder)).describe()["revision"] == before["revision"]
    Path(folder, "tokenizer.json").write_text(Path(folder, "tokenizer.json").read_text() + "\n")
    assert open_embedder(find(folder)).describe()["revision"] != before["revision"]


def test_a_damaged_model_is_the_surroundings_problem(folder: str) -> None:
    Path(folder, "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(EnvironmentProblem, match="cannot be loaded"):
        open_embedder(find(folder))


def test_another_dimension_than_the_row_says_is_refused(folder: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f'kind = "static"\nmodel = "{folder}"\ndimension = 7\n')
    with pytest.raises(EnvironmentProblem, match="gives 3 dimensions, 7 are expected"):
        open_embedder(find(str(tmp_path / "mine.toml")))


def test_a_tokenizer_counts_and_cuts_exactly() -> None:
    counter = Tokenizers(word_tokenizer())
    assert counter.count(["red  green", ""]).tolist() == [2, 0]
    assert counter.cut("red  green blue", 2) == "red  green"
    assert counter.cut("red", 2) == "red"


def test_tiktoken_cuts_at_whole_characters() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    bytes_only = {bytes([value]): value for value in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=r".", mergeable_ranks=bytes_only, special_tokens={"<|end|>": 256})
    counter = Tiktoken(encoding)
    assert counter.count(["aé", "<|end|>"]).tolist() == [3, 7]
    assert counter.cut("aéb", 2) == "a"
    assert counter.cut("aéb", 3) == "aé"
    assert counter.cut("aéb", 9) == "aéb"


def test_without_a_tokenizer_here_the_estimate_says_so_and_cuts_nothing(tmp_path: Path) -> None:
    for name in ("", "nobody/nothing", str(tmp_path), "tiktoken:no-such-encoding"):
        counter = counter_for(name)
        assert isinstance(counter, Estimate)
        assert counter.how.startswith("estimate")
    assert counter.count(["", "abc", "abcd", "éé"]).tolist() == [0, 1, 2, 2]
    assert counter.cut("abcdef", 1) == "abcdef"


def test_a_tokenizer_in_a_folder_is_used(tmp_path: Path) -> None:
    word_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert counter_for(str(tmp_path)).count(["red green"]).tolist() == [2]
