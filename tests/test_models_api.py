"""Embeddings over HTTP: what is sent, and that a busy, broken or lying server changes no vector."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedding_server import KEY, NATIVE_DIMENSION, EmbeddingServer, send, vector_of
from hypothesis import given, settings
from hypothesis import strategies as st

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models import Choice, Plan, models_of
from quarry_harness.models.api import ApiEmbedder
from quarry_harness.models.client import Patience, checked_url
from quarry_harness.models.embedders import OutOfMemory
from quarry_harness.models.embedding import Allowance, count_cut, embed_missing, plan
from quarry_harness.models.registry import Limits, Model, Options, find
from quarry_harness.vectors import VectorStore

TEXTS = ["def add(a, b): return a + b", "größer", "", "x" * 500, "SELECT 1"]


class FakeClock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return 1_800_000_000 + self.time

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    def jitter(self) -> float:
        return 0.5


def model_at(url: str, **settings: Any) -> Model:
    fields = {"name": "m", "kind": "openai", "model": "m-1", "base_url": url, "dimension": NATIVE_DIMENSION}
    return Model(**(fields | settings))


def embed(url: str, texts: list[str] = TEXTS, role: str = "document", **settings: Any) -> np.ndarray:
    embedder = ApiEmbedder(model_at(url, **settings), clock=FakeClock())
    return embedder.embed(embedder.prepare(texts, role), role)


def expected(texts: list[str] = TEXTS, input_type: str = "") -> np.ndarray:
    return np.stack([vector_of(text, input_type) for text in texts])


def wrong_dimension(answer: Any) -> Any:
    answer["data"][0]["embedding"] = answer["data"][0]["embedding"][:-1]
    return answer


def missing_item(answer: Any) -> Any:
    del answer["data"][1]
    return answer


def reordered(answer: Any) -> Any:
    answer["data"].reverse()
    return answer


def twice_the_same(answer: Any) -> Any:
    answer["data"][1]["index"] = 0
    return answer


def error(status: int, message: str, code: str = "", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (status, named, {"error": {"message": message, "code": code}})


@pytest.mark.parametrize("form", ["float", "base64"])
def test_vectors_arrive_in_the_order_of_the_texts(form: str) -> None:
    with EmbeddingServer([reordered], form=form) as server:
        np.testing.assert_allclose(embed(server.url), expected(), atol=1e-7)
        assert server.requests == [{"model": "m-1", "input": TEXTS}]
        assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    "script",
    [
        [error(429, "slow down"), error(429, "slow down"), None],
        [error(500, "oops"), error(503, "oops"), error(502, "oops"), None],
        ["cut", None],
        ["drop", "drop", None],
        ["noise", None],
        [wrong_dimension, None],
        [missing_item, None],
        [twice_the_same, None],
        [("slow", 0.6), None],
        ["drop", error(429, "slow down"), missing_item, error(529, "overloaded"), "cut", reordered],
    ],
    ids=lambda script: "-".join(str(getattr(e, "__name__", e))[:14] for e in script),
)
def test_a_disturbed_server_gives_the_same_vectors(script: list[Any]) -> None:
    with EmbeddingServer(script) as server:
        assert (embed(server.url, timeout_s=0.3) == embed(server.url)).all()
        np.testing.assert_allclose(embed(server.url), expected(), atol=1e-7)


@pytest.mark.parametrize(
    ("entry", "words", "hint"),
    [
        (error(401, "Incorrect API key"), "says 401: Incorrect API key", "M_KEY"),
        (error(403, "not for you"), "says 403", "M_KEY"),
        (error(404, "The model m-1 does not exist"), "says 404", "model's name"),
        (error(429, "You exceeded your current quota", "insufficient_quota"), "exceeded your current quota", "credit"),
        (error(402, "pay first"), "says 402", "credit"),
        (error(400, "content was refused by the policy"), "refused by the policy", "another attempt would not"),
        (error(422, "input exceeds the limits of our content policy"), "text, the document 'one'", "refuses this text"),
        (error(307, "", location="http://127.0.0.1:1/steal"), "redirects to http://127.0.0.1", "own address"),
        (error(429, "tomorrow", Retry_After="90000"), "asks for a wait of 90000 s", "the same command goes on"),
        (error(400, "maximum context length is 8191 tokens"), "one text, the document 'one'", "--max-tokens"),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, tuple) else str(value[0]),
)
def test_what_another_attempt_cannot_mend_ends_at_once(
    entry: Any, words: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("M_KEY", KEY)
    with EmbeddingServer([entry, entry], key=KEY) as server:
        with pytest.raises(EnvironmentProblem) as raised:
            embed(server.url, ["one"], key_env="M_KEY")
        assert len(server.requests) == 1
    assert words in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 4
    assert KEY not in str(raised.value)


def test_a_key_goes_into_the_header_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M_KEY", f" {KEY}\n")
    with EmbeddingServer(key=KEY) as server:
        embedder = ApiEmbedder(model_at(server.url, key_env="M_KEY"))
        embedder.embed(["a"], "query")
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
        assert KEY not in json.dumps(server.requests) + json.dumps(embedder.describe())


def test_a_server_that_repeats_the_key_does_not_get_it_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M_KEY", "sk-wrong-987654321")
    with EmbeddingServer(key=KEY) as server, pytest.raises(EnvironmentProblem) as raised:
        embed(server.url, key_env="M_KEY")
    assert "Wrong key: Bearer ***" in raised.value.message


@pytest.mark.parametrize("value", ["", "  ", "two words", "schlüssel"])
def test_a_missing_or_impossible_key_is_told_before_anything_is_sent(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("M_KEY", value)
    with EmbeddingServer() as server, pytest.raises(EnvironmentProblem, match="M_KEY"):
        embed(server.url, key_env="M_KEY")
    assert server.requests == []


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    clock = FakeClock()
    date = formatdate(clock.wall() + 40, usegmt=True)
    script = [error(429, "slow", Retry_After="7"), error(503, "later", Retry_After=date), None]
    with EmbeddingServer(script) as server:
        ApiEmbedder(model_at(server.url), clock=clock).embed(["a"], "query")
    assert clock.waits[0] == 7.5
    assert clock.waits[1] == pytest.approx(40 - 7.5 + 0.5, abs=1.01)


def test_a_server_that_always_asks_for_a_second_is_waited_for_as_long_as_a_silent_one() -> None:
    clock = FakeClock()
    script = [error(429, "slow down", Retry_After="1")] * 12
    with EmbeddingServer(script) as server, pytest.raises(EnvironmentProblem, match="at attempt 12"):
        ApiEmbedder(model_at(server.url), clock=clock).embed(["a"], "query")
    assert sum(clock.waits) > 7 * 60
    assert min(clock.waits) >= 1


def test_waits_double_up_to_the_longest_and_come_to_an_end() -> None:
    clock = FakeClock()
    patience = Patience(attempts=6, longest_wait_s=4.0)
    with EmbeddingServer([error(500, "oops")] * 9) as server:
        with pytest.raises(EnvironmentProblem, match="says 500: oops, at attempt 6"):
            ApiEmbedder(model_at(server.url), clock=clock, patience=patience).embed(["a"], "query")
        assert len(server.requests) == 6
    assert clock.waits == [0.75, 1.5, 3.0, 3.0, 3.0]


def number_too_large(answer: Any) -> Any:
    answer["data"][0]["embedding"][0] = 10**400
    return answer


@pytest.mark.parametrize(
    "change",
    [wrong_dimension, missing_item, twice_the_same, number_too_large, lambda answer: [], lambda answer: {}],
)
def test_an_unusable_answer_is_paid_for_twice_and_not_more(change: Any) -> None:
    with EmbeddingServer([change] * 5) as server:
        with pytest.raises(EnvironmentProblem, match="not usable"):
            embed(server.url)
        assert len(server.requests) == 2


def test_a_wrong_address_is_told_soon() -> None:
    with EmbeddingServer() as server:
        url = server.url
    clock = FakeClock()
    with pytest.raises(EnvironmentProblem, match=r"connection failed.*at attempt 3"):
        ApiEmbedder(model_at(url), clock=clock).embed(["a"], "query")
    assert sum(clock.waits) < 5


def test_a_slow_trickle_ends_like_silence() -> None:
    class Rushed(FakeClock):
        def now(self) -> float:
            self.time += 10  # every look at the clock is ten seconds later
            return self.time

    with EmbeddingServer() as server, pytest.raises(EnvironmentProblem, match="no answer within 5 s"):
        ApiEmbedder(model_at(server.url, timeout_s=5.0), clock=Rushed()).embed(["a"], "query")


def test_a_redirect_is_not_followed_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("M_KEY", KEY)
    with EmbeddingServer() as thief:
        for status in (301, 302, 303, 307, 308):
            moved = (status, {"Location": thief.url + "/embeddings?token=t"}, {})
            with EmbeddingServer([moved]) as server, pytest.raises(EnvironmentProblem, match="redirects") as raised:
                embed(server.url, key_env="M_KEY")
            assert "token" not in str(raised.value)
        assert thief.requests == []


def test_requests_keep_within_the_provider_s_texts_and_tokens() -> None:
    texts = ["a" * 30] * 7 + ["b" * 3000] + ["c" * 30] * 3  # ten tokens each by the estimate, and one of a thousand
    with EmbeddingServer() as server:
        vectors = embed(server.url, texts, limits=Limits(texts=3, tokens=25))
        assert [len(request["input"]) for request in server.requests] == [2, 2, 2, 1, 1, 2, 1]
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.integers(0, 90).map("x".__mul__), min_size=1, max_size=20),
    most=st.integers(0, 5),
    tokens=st.integers(0, 40),
)
def test_every_text_is_in_one_request_and_no_request_is_over_a_limit(texts: list[str], most: int, tokens: int) -> None:
    with EmbeddingServer() as server:
        vectors = embed(server.url, texts, limits=Limits(texts=most, tokens=tokens))
    np.testing.assert_allclose(vectors, expected(texts), atol=1e-7)
    sent = [request["input"] for request in server.requests]
    assert [text for request in sent for text in request] == texts
    for request in sent:
        assert not most or len(request) <= most
        assert not tokens or len(request) == 1 or sum(-(-len(text) // 3) for text in request) <= tokens


def test_requests_and_tokens_a_minute_are_kept() -> None:
    clock = FakeClock()
    with EmbeddingServer() as server:
        limits = Limits(texts=1, requests_per_minute=2)
        ApiEmbedder(model_at(server.url, limits=limits), clock=clock).embed(list("abcde"), "query")
        assert clock.time - 1000 == 120
        clock.time = 5000
        limits = Limits(texts=1, tokens_per_minute=25)
        ApiEmbedder(model_at(server.url, limits=limits), clock=clock).embed(["a" * 30] * 5, "query")
        assert clock.time - 5000 == 120


@pytest.mark.parametrize(
    "entry", [error(413, "payload"), error(400, "max allowed tokens per batch is 120000, exceeded")]
)
def test_a_request_that_is_too_large_asks_for_a_smaller_batch(entry: Any) -> None:
    with EmbeddingServer([entry]) as server, pytest.raises(OutOfMemory):
        embed(server.url)


def test_voyage_gets_its_own_fields_and_adds_its_own_prompt() -> None:
    with EmbeddingServer() as server:
        settings = {"kind": "voyage", "server_truncates_vectors": True}
        for role in ("query", "document"):
            vectors = embed(server.url, ["q"], role, truncate="server", **settings)
            np.testing.assert_allclose(vectors, expected(["q"], role), atol=1e-7)
        embed(server.url, ["q"], **settings)
        assert server.requests[0] == {
            "model": "m-1",
            "input": ["q"],
            "input_type": "query",
            "truncation": True,
            "output_dimension": NATIVE_DIMENSION,
        }
        assert [request["input_type"] for request in server.requests] == ["query", "document", "document"]
        assert server.requests[2]["truncation"] is False


def test_a_shorter_vector_is_asked_of_the_provider_and_cut_here_for_any_other_server() -> None:
    whole = [vector_of(text, dimension=4) for text in TEXTS]
    with EmbeddingServer() as server:
        asked = embed(server.url, server_truncates_vectors=True, output_dimension=4)
        assert server.requests[-1]["dimensions"] == 4
        cut = embed(server.url, output_dimension=4)
        assert "dimensions" not in server.requests[-1]
    np.testing.assert_allclose(asked, np.stack(whole), atol=1e-7)
    np.testing.assert_allclose(cut, np.stack(whole), atol=1e-6)


def test_vectors_have_length_1_for_cosine_and_stay_for_dot() -> None:
    def longer(answer: Any) -> Any:
        answer["data"][0]["embedding"] = [3 * x for x in answer["data"][0]["embedding"]]
        answer["data"][1]["embedding"] = [0.0] * NATIVE_DIMENSION
        return answer

    with EmbeddingServer([longer, longer]) as server:
        cosine = np.linalg.norm(embed(server.url), axis=1)
        dot = np.linalg.norm(embed(server.url, similarity="dot"), axis=1)
    assert cosine == pytest.approx([1, 0, 1, 1, 1])
    assert dot == pytest.approx([3, 0, 1, 1, 1])


def test_a_registered_model_from_another_server_takes_its_prompt_along_and_leaves_the_key() -> None:
    with EmbeddingServer() as server:
        model = find("swerank-small", Options(base_url=server.url))
        embedder = ApiEmbedder(replace(model, dimension=NATIVE_DIMENSION, output_dimension=NATIVE_DIMENSION))
        prompt = "Represent this query for searching relevant code: "
        assert embedder.prepare(["x"], "query") == [f"{prompt}x"]
        assert embedder.prepare(["x"], "document") == ["x"]
        embedder.embed(["x"], "document")
        assert server.requests[0]["model"] == "Salesforce/SweRankEmbed-Small"
        assert find("text-embedding-3-large", Options(base_url=server.url)).key_env == ""


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "localhost:8080",
        "http://",
        "http://host:port/v1",
        "http://[::1/v1",
        "http://ho st/v1",
        "http://host/v1?key=abc",
        "http://me:secret@host/v1",
    ],
)
def test_a_base_url_that_is_none_or_holds_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        checked_url(url)
    assert "secret" not in str(raised.value)
    assert "abc" not in str(raised.value)


def test_a_server_s_model_needs_its_dimension_told() -> None:
    with pytest.raises(UsageError, match="dimension"):
        ApiEmbedder(find("anything", Options(base_url="http://127.0.0.1:9/v1")))


def test_planning_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
    embedder = ApiEmbedder(find("voyage-code-3"))
    assert embedder.describe()["base_url"] == "https://api.voyageai.com/v1"
    assert embedder.count_tokens(embedder.prepare(["x" * 9], "query")).tolist() == [3]
    with pytest.raises(EnvironmentProblem, match="VOYAGE_API_KEY is not set"):
        embedder.embed(["x"], "query")


def word_tokenizer(folder: Path) -> str:
    """Saves a tokenizer of whole words in a folder, and returns the folder."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


def in_a_store(root: Path, model: Model, texts: list[str]) -> tuple[Plan, int]:
    """What is planned for these documents, and how many were cut, after embedding them."""
    embedder = ApiEmbedder(model)
    with VectorStore(root, embedder.describe(), embedder.dimension, "float32") as store:
        planned = plan(embedder, texts, "document", store, set())
        rows = embed_missing(embedder, texts, "document", store, lambda *_: None)
        return planned, count_cut(embedder, store, rows)


def test_what_the_user_wants_cut_is_cut_before_it_is_sent(tmp_path: Path) -> None:
    texts = ["one two three four five", "one two"]
    with EmbeddingServer() as server:
        model = model_at(server.url, max_tokens=3, tokenizer=word_tokenizer(tmp_path))
        planned, cut = in_a_store(tmp_path / "vectors", model, texts)
        assert server.requests[0]["input"] == ["one two three", "one two"]
    assert (planned.tokens, planned.cut, cut) == (5, 1, 1)


def test_a_text_that_nobody_can_cut_is_refused_and_not_sent_whole_as_if_it_were_cut(tmp_path: Path) -> None:
    # By the estimate "x" * 30 has ten tokens.
    with EmbeddingServer() as server:
        model = model_at(server.url, max_tokens=9)
        with pytest.raises(
            EnvironmentProblem, match=r"1 of 2 texts .* 9 tokens .*'src/a.py/f x+' \(1\d tokens"
        ) as raised:
            in_a_store(tmp_path, model, ["src/a.py/f " + "x" * 30, "short"])
        assert server.requests == []
        assert "quarry-harness[api]" in raised.value.hint
        planned, cut = in_a_store(tmp_path, model, ["x" * 27, "short"])
        assert (planned.cut, cut, len(server.requests)) == (0, 0, 1)


def test_what_a_server_cuts_is_counted_as_it_is_sent(tmp_path: Path) -> None:
    with EmbeddingServer() as server:
        model = model_at(server.url, max_tokens=9, truncate="server")
        planned, cut = in_a_store(tmp_path, model, ["x" * 30])
    assert (planned.tokens, planned.cut, cut) == (10, 1, 1)


def test_a_limit_of_the_user_s_own_is_no_server_s_limit() -> None:
    assert ApiEmbedder(find("voyage-code-3")).cuts == "server"
    assert ApiEmbedder(find("voyage-code-3", Options(max_tokens=32000))).cuts == "server"
    asked = find("voyage-code-3", Options(max_tokens=512))
    assert (asked.max_tokens, ApiEmbedder(asked).cuts) != (512, "server")
    unlike = {json.dumps(ApiEmbedder(replace(asked, truncate=by)).describe()) for by in ("server", "client")}
    assert len(unlike) == 2  # other vectors, another store
    served = find("swerank-small", Options(base_url="http://127.0.0.1:9/v1"))
    assert served.tokenizer == "Salesforce/SweRankEmbed-Small"


def test_another_tokenizer_cuts_elsewhere_and_so_is_another_store(tmp_path: Path) -> None:
    def identity() -> dict[str, object]:
        model = model_at("http://127.0.0.1:9/v1", max_tokens=3, tokenizer=word_tokenizer(tmp_path))
        return ApiEmbedder(model).describe()

    first = identity()
    file = tmp_path / "tokenizer.json"
    assert identity() == first
    file.write_text(file.read_text() + "\n")
    changed = ApiEmbedder(model_at("http://127.0.0.1:9/v1", max_tokens=3, tokenizer=str(tmp_path))).describe()
    assert changed != first


@pytest.mark.parametrize(
    ("script", "paid"),
    [
        ([None], 0),
        (["cut", "noise", None], 2),
        ([missing_item, None], 1),
        (["drop", None], 1),
        ([("slow", 0.6), None], 1),
        ([error(429, "slow down"), error(500, "oops"), None], 0),
    ],
    ids=["answered", "cut and noise", "missing item", "dropped", "slow", "refused"],
)
def test_what_is_asked_again_after_an_answer_that_may_cost_is_paid_again(script: list[Any], paid: int) -> None:
    told: list[int] = []
    with EmbeddingServer(script) as server:
        model = model_at(server.url, timeout_s=0.3)
        ApiEmbedder(model, clock=FakeClock(), pay_again=told.append).embed(["x" * 9, "y" * 9], "document")
    assert told == [6] * paid


def test_broken_answers_do_not_lead_beyond_the_allowance(tmp_path: Path) -> None:
    # Three tokens a request at a dollar a token; every answer breaks off.
    spend = partial(Allowance(7).spend, 1_000_000)
    with EmbeddingServer(["cut"] * 9) as server:
        embedder = ApiEmbedder(model_at(server.url), clock=FakeClock(), pay_again=spend)
        store = VectorStore(tmp_path, embedder.describe(), embedder.dimension, "float32")
        with store, pytest.raises(EnvironmentProblem, match=r"exceed --max-cost 7 \(\$1.0000 is left\)"):
            embed_missing(embedder, ["x" * 9], "document", store, lambda *_: None, spend)
        assert len(server.requests) == 2


@pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0])
def test_an_allowance_that_is_no_sum_of_money_is_refused(cost: float) -> None:
    with pytest.raises(UsageError, match="--max-cost"):
        models_of(Choice("voyage-code-3", max_cost_usd=cost))


def test_an_answer_that_is_nested_without_end_is_no_json() -> None:
    class Nested(EmbeddingServer):
        def answer(self, handler: Any, body: Any) -> None:
            send(handler, 200 if len(self.requests) < 3 else 500, {}, b"[" * 200_000)

    with Nested() as server:
        embedder = ApiEmbedder(model_at(server.url), clock=FakeClock(), patience=Patience(attempts=3))
        with pytest.raises(EnvironmentProblem, match="says 500"):
            embedder.embed(["a"], "query")


def test_the_text_that_a_server_refuses_is_found_and_named(tmp_path: Path) -> None:
    class Strict(EmbeddingServer):
        def answer(self, handler: Any, body: Any) -> None:
            if any("forbidden" in text for text in body["input"]):
                self.script.insert(0, error(400, "the content is not wanted here"))
            super().answer(handler, body)

    texts = [f"src/f{i}.py:f{i}\n{'forbidden' if i == 5 else 'welcome, and longer'} text" for i in range(8)]
    with Strict() as server:
        embedder = ApiEmbedder(model_at(server.url, document_prompt="passage: "), clock=FakeClock())
        with VectorStore(tmp_path, embedder.describe(), embedder.dimension, "float32") as store:
            with pytest.raises(EnvironmentProblem, match=r"not wanted here.*the document 'src/f5.py:f5'"):
                embed_missing(embedder, texts, "document", store, lambda *_: None)
            assert len(store) == 7


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [math.inf, 1e300, math.nan])
def test_a_vector_with_an_infinite_number_is_refused_without_a_warning(number: float, tmp_path: Path) -> None:
    def infinite(answer: Any) -> Any:
        answer["data"][0]["embedding"][0] = number
        return answer

    for similarity in ("cosine", "dot"):
        with EmbeddingServer([infinite]) as server, pytest.raises(EnvironmentProblem, match="NaN or infinite"):
            in_a_store(tmp_path, model_at(server.url, similarity=similarity), ["a"])


def test_tokens_that_the_server_counts_beyond_ours_are_paid_before_the_next_request(tmp_path: Path) -> None:
    # Two texts of three tokens each by the estimate; the server says that each had five.
    def counted(answer: Any) -> Any:
        return answer | {"usage": {"total_tokens": 5}}

    texts = ["x" * 9, "y" * 9]
    spend = partial(Allowance(7).spend, 1_000_000)
    with EmbeddingServer([counted, counted]) as server:
        embedder = ApiEmbedder(model_at(server.url, limits=Limits(texts=1)), clock=FakeClock(), pay_again=spend)
        store = VectorStore(tmp_path, embedder.describe(), embedder.dimension, "float32")
        with store:
            with pytest.raises(EnvironmentProblem, match=r"2 tokens, \$2.0000\) would exceed --max-cost 7"):
                embed_missing(embedder, texts, "document", store, lambda *_: None, spend)
            assert (len(store), len(server.requests)) == (1, 1)


@pytest.mark.parametrize("usage", [None, [], {"total_tokens": "9"}, {"total_tokens": -3}, {"total_tokens": 10**40}])
def test_a_usage_that_is_none_is_left_alone(usage: Any) -> None:
    told: list[int] = []
    with EmbeddingServer([lambda answer: answer | {"usage": usage}] * 2) as server:
        embedder = ApiEmbedder(model_at(server.url), pay_again=told.append)
        for _ in range(2):
            embedder.embed(["a"], "query")
    assert told == []
