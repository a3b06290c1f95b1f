"""The registry: its rows are whole and say where they are from; a user's own model is found; options must fit."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.models.embedders import standing
from quarry_harness.models.registry import KINDS, Limits, Model, Options, find, rows

ROOT = Path(__file__).parents[1]
NAMES = [row.name for row in rows()]


def test_the_named_models_are_there() -> None:
    wanted = {
        "bm25", "potion-code-16M", "all-MiniLM-L6-v2", "granite-embedding-small-english-r2", "Muninn", "Muninn-small",
        "SweRank-Small", "SweRank-Large", "CodeRankEmbed", "bge-code-v1", "Qwen3-Embedding-0.6B",
        "Qwen3-Embedding-4B", "Qwen3-Embedding-8B", "Nemotron-3-Embed-1B", "jina-code-embeddings-0.5b",
        "jina-code-embeddings-1.5b", "voyage-code-3", "voyage-4", "voyage-4-nano", "text-embedding-3-large",
    }  # fmt: skip
    assert wanted <= set(NAMES)
    assert len({name.casefold() for name in NAMES}) == len(NAMES)


def test_every_model_of_the_published_table_is_registered_under_its_name_there() -> None:
    published = tomllib.loads((ROOT / "manifests" / "published.toml").read_text("utf-8"))["result"]
    assert {result["model"] for result in published} <= set(NAMES)


@pytest.mark.parametrize("row", rows(), ids=NAMES)
def test_a_row_is_whole_and_says_what_it_does_not_know(row: Model) -> None:
    assert row.kind in KINDS
    assert row.sources
    told = " ".join(row.unverified)
    if row.kind == "lexical":
        return
    assert row.model
    assert row.dimension
    assert row.licence or "licence" in told
    if row.kind in ("openai", "voyage"):
        assert row.key_env
        assert row.base_url.startswith("https://")
        assert row.price_usd
        assert row.price_source
        assert row.limits.texts
        assert row.limits.tokens
    else:
        assert len(row.revision) == 40 or "revision" in told
        assert row.pooling or "pooling" in told
    for role in ("query", "document"):
        name = getattr(row, f"{role}_prompt_name")
        assert not name or getattr(row, f"{role}_prompt") is not None or f"{role}_prompt" in told


@pytest.mark.parametrize(("said", "name"), [("MUNINN", "Muninn"), ("brokkai/muninn", "Muninn"), ("BM25", "bm25")])
def test_case_and_the_hub_s_own_id_find_the_row(said: str, name: str) -> None:
    assert find(said).name == name


def test_the_published_setting_is_the_default() -> None:
    assert find("muninn").output_dimension == 2048
    assert find("swerank-large").similarity == "dot"
    assert find("swerank-large").dtype == "bfloat16"


def test_a_shorter_matryoshka_vector_is_one_that_the_model_has() -> None:
    assert find("muninn", Options(dimension=512)).output_dimension == 512
    assert find("voyage-code-3", Options(dimension=2048)).output_dimension == 2048
    assert find("text-embedding-3-large", Options(dimension=300)).output_dimension == 300
    for name, dimension in (("muninn", 500), ("muninn-small", 128), ("text-embedding-3-large", 255), ("muninn", 0)):
        with pytest.raises(UsageError):
            find(name, Options(dimension=dimension))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("nothing-like-it", None),
        ("./no/such/folder", None),
        ("no-such.toml", None),
        ("no-such.parquet", None),
        ("bm25", Options(dtype="float32")),
        ("voyage-4", Options(dtype="bfloat16")),
        ("potion-code-16m", Options(key_env="X")),
        ("muninn", Options(dtype="int3")),
        ("muninn", Options(kind="quantum")),
        ("muninn", Options(kind="static")),
    ],
)
def test_what_cannot_be_is_refused_with_a_way_out(name: str, options: Options | None) -> None:
    with pytest.raises(UsageError) as raised:
        find(name, options)
    assert raised.value.message


def test_a_user_s_toml_file_has_the_fields_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    file = tmp_path / "mine.toml"
    file.write_text(
        'kind = "sentence-transformers"\nmodel = "weights"\ndimension = 64\ndimensions = [32]\nmax_tokens = 100\n'
        'query_prompt = "ask: "\ndtype = "bf16"\nlimits = { texts = 3 }\n'
    )
    with pytest.raises(InvalidInputError, match="dtype is 'bf16'"):
        find(str(file))
    file.write_text(file.read_text().replace("bf16", "bfloat16"))
    model = find(str(file), Options(dimension=32))
    assert (model.name, model.model) == ("mine", str(tmp_path / "weights"))
    assert (model.dimension, model.output_dimension, model.limits) == (64, 32, Limits(texts=3))
    assert model.prompt("query", {"query": "its own: "}) == "ask: "
    assert find(str(file), Options(query_prompt="")).prompt("query", {}) == ""
    assert find(str(file), Options(dtype="bf16")).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dimensoin = 3", "'dimensoin' is no field"),
        ("dimension = true", "dimension cannot be True"),
        ("dimension = -1", "dimension cannot be -1"),
        ('max_tokens = "many"', "max_tokens cannot be 'many'"),
        ("limits = { lines = 3 }", "limits cannot be"),
        ('kind = "magic"', "kind is 'magic'"),
        ("price_usd = inf", "price_usd cannot be inf"),
        ("price_usd = nan", "price_usd cannot be nan"),
        (f"price_usd = 1{'0' * 400}", "price_usd cannot be 1000"),
        ("timeout_s = inf", "timeout_s cannot be inf"),
        ("timeout_s = 0", "timeout_s cannot be 0"),
        ("dimension = 100000000000", "dimension cannot be 100000000000"),
        (f"max_tokens = {2**63}", "max_tokens cannot be 9"),
        ('kind = "precomputed"', "the field `model` is missing"),
        ('name = "x"', "the field `model` is missing"),
        ('asked = "x"', "'asked' is no field"),
        ("= 3", "mine.toml"),
    ],
)
def test_a_toml_file_that_is_wrong_is_named_with_its_mistake(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InvalidInputError, match=words):
        find(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("said", ["sk-secret", "sk secret", "1secret"])
def test_a_key_where_its_variable_s_name_is_asked_is_not_shown(said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(f'model = "m"\nkind = "openai"\nkey_env = "{said}"\n')
    for name, options in (("voyage-4", Options(key_env=said)), (str(tmp_path / "mine.toml"), None)):
        with pytest.raises(UsageError, match="name of the variable") as raised:
            find(name, options)
        assert "secret" not in f"{raised.value.message} {raised.value.hint}"


def test_a_folder_s_kind_is_read_from_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
    assert find(str(tmp_path)).kind == "static"
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.StaticEmbedding", "path": "."}]')
    assert find(str(tmp_path)).kind == "static"
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    assert find(str(tmp_path)).kind == "sentence-transformers"
    with pytest.raises(UsageError, match="no model in this folder"):
        find(str(tmp_path.parent))


def test_prompts_come_from_the_user_then_the_model_then_the_row() -> None:
    row = find("jina-code-embeddings-0.5b")
    own = {"nl2code_query": "own: ", "query": "another: "}
    assert row.prompt("query", own) == "own: "
    assert (
        row.prompt("query", {"nl2code_query": ""}) == "Find the most relevant code snippet given the following query:\n"
    )
    assert find(row.name, Options(query_prompt="user: ")).prompt("query", own) == "user: "


def test_a_stranger_s_prompts_are_those_that_sentence_transformers_would_take() -> None:
    model = find("somebody/something")
    assert model.prompt("query", {"query": "q: ", "passage": "p: "}) == "q: "
    assert model.prompt("document", {"query": "q: ", "passage": "p: "}) == "p: "
    assert model.prompt("query", {"query": "", "document": ""}) == ""
    assert model.prompt("document", {"query": "q: "}) == ""
    assert model.prompt("query", {}) == ""


def test_prompts_with_names_that_say_nothing_are_asked_about_not_dropped() -> None:
    with pytest.raises(UsageError, match="nl2code_query"):
        find("somebody/something").prompt("query", {"nl2code_query": "x"})
    with pytest.raises(UsageError, match="no prompt 'query'"):
        find("nemotron-3-embed-1b").prompt("query", {})


def test_readiness_is_told_without_a_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    assert standing(find("voyage-4")) == (False, "set VOYAGE_API_KEY")
    monkeypatch.setenv("VOYAGE_API_KEY", "x")
    assert standing(find("voyage-4")).ready
    monkeypatch.setattr("quarry_harness.models.embedders.find_spec", lambda name: None)
    assert standing(find("muninn")) == (False, "pip install 'quarry-harness[models]'")
    monkeypatch.setattr("quarry_harness.models.embedders.find_spec", lambda name: object())
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert standing(find("muninn")) == (True, "downloads at first use")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not standing(find("muninn")).ready
    (tmp_path / "hub" / "models--brokkai--Muninn" / "snapshots" / "abc").mkdir(parents=True)
    assert standing(find("muninn")) == (True, "")
