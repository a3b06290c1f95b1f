"""Embeddings from a server: OpenAI's protocol, which TEI, vLLM, Ollama and LM Studio speak too, and Voyage's.

POST {base_url}/embeddings with `model` and `input`, a list of texts; the answer has `data`, a list of `embedding` and
`index`. OpenAI's `dimensions` is Voyage's `output_dimension`; Voyage also takes `input_type` ("query" or "document":
the server adds its own prompt) and `truncation`.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models.client import Client, Clock, Patience, RefusedError, checked_url
from quarry_harness.models.embedders import HERE, NOBODY, SERVER, RequestRefused, text_name, unit_length
from quarry_harness.models.registry import Model
from quarry_harness.models.tokens import EXACT, counter_for


class ApiEmbedder:
    """A model behind HTTP. Raises UsageError where its server or its dimension is not told.

    The key is looked for with the first request: what only plans, or finds all vectors stored, needs none.
    pay_again is told of the tokens of each attempt behind a request's first that may cost, and of those that the server
    counted beyond ours in earlier requests; it may refuse by raising.
    """

    def __init__(
        self,
        model: Model,
        *,
        patience: Patience | None = None,
        clock: Clock | None = None,
        pay_again: Callable[[int], None] | None = None,
    ) -> None:
        if not model.base_url:
            raise UsageError(f"{model.name}: no server is named.", "Give its address: --base-url URL")
        if not model.dimension:
            raise UsageError(f"{model.name}: the dimension of its vectors is not told.", "Give it: --dimension N")
        self._model = model
        self._base_url = checked_url(model.base_url)
        self._patience, self._clock, self._pay_again = patience, clock, pay_again
        self._owed = 0  # tokens of earlier requests, above what they were taken for
        self._counter = counter_for(model.tokenizer)
        self._prompts = {role: model.prompt(role, {}) for role in ("query", "document")}
        self.dimension = model.output_dimension or model.dimension
        # What the server is to send: it cuts the vectors, or they are cut here.
        self._sent_dimension = self.dimension if model.server_truncates_vectors else model.dimension
        self.max_tokens = model.max_tokens
        self.limits = model.limits
        self.similarity = model.similarity
        self.token_count = self._counter.how
        here = HERE if self.token_count == EXACT else NOBODY
        self.cuts = SERVER if model.truncate == "server" else here

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a vector, as far as a server's user can know it."""
        return {
            "name": self._model.name,
            "kind": self._model.kind,
            "model": self._model.model,
            "base_url": self._base_url,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "cut_by": "server" if self.cuts == SERVER else _identity_of(self._model.tokenizer),
            "query_prompt": self._prompts["query"],
            "document_prompt": self._prompts["document"],
            "input_type": self._model.kind == "voyage",
            "pooling": self._model.pooling,
            "similarity": self.similarity,
            "dtype": "float32",
        }

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        """Returns the texts with the role's prompt before them; Voyage's own is added by the server."""
        return [self._prompts[role] + text for text in texts]

    def count_tokens(self, prepared: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text; a prompt that the server adds is not among them."""
        return self._counter.count(prepared)

    def embed(self, prepared: Sequence[str], role: str) -> NDArray[np.float32]:
        """Returns vectors of shape (texts, dimension): of length 1 for cosine, as the server gives them for dot."""
        texts = list(prepared)
        counts = self.count_tokens(texts)
        if self.cuts == HERE and self.max_tokens:
            texts = [
                self._counter.cut(text, self.max_tokens) if count > self.max_tokens else text
                for text, count in zip(texts, counts, strict=True)
            ]
            counts = np.minimum(counts, self.max_tokens)
        parts = [self._request(texts[at], int(counts[at].sum()), role) for at in self._requests(counts)]
        vectors = np.concatenate(parts)[:, : self.dimension]
        return unit_length(vectors) if self.similarity == "cosine" else vectors

    @cached_property
    def _client(self) -> Client:
        return Client(
            self._base_url,
            self._model.name,
            self._model.limits,
            key=_key(self._model),
            key_env=self._model.key_env,
            timeout_s=self._model.timeout_s,
            patience=self._patience,
            clock=self._clock,
            pay_again=self._pay_again,
        )

    def _requests(self, counts: NDArray[np.int64]) -> Iterator[slice]:
        """The texts of each request, within the provider's limits; a text over the limit goes alone."""
        most = self.limits.texts or len(counts)
        start, tokens = 0, 0
        for position, count in enumerate(map(int, counts)):
            full = position - start >= most or (self.limits.tokens and tokens + count > self.limits.tokens)
            if position > start and full:
                yield slice(start, position)
                start, tokens = position, 0
            tokens += count
        yield slice(start, len(counts))

    def _request(self, texts: Sequence[str], tokens: int, role: str) -> NDArray[np.float32]:
        document: dict[str, Any] = {"model": self._model.model, "input": list(texts)}
        if self._model.kind == "voyage":
            document |= {"input_type": role, "truncation": self._model.truncate == "server"}
            document["output_dimension"] = self._sent_dimension
        elif self._model.server_truncates_vectors:
            document["dimensions"] = self._sent_dimension
        client = self._client
        if self._owed and self._pay_again is not None:
            owed, self._owed = self._owed, 0
            self._pay_again(owed)
        try:
            vectors, used = client.post(
                "embeddings",
                document,
                tokens,
                lambda answer: (_vectors(answer, len(texts), self._sent_dimension), _used(answer)),
            )
        except RefusedError as error:
            if len(texts) > 1:  # which of them it was, a smaller request tells
                raise RequestRefused(str(error)) from None
            own = texts[0].removeprefix(self._prompts[role])
            too_large = "It is longer than the server takes; --max-tokens cuts it, docs/models.md says how."
            raise EnvironmentProblem(
                f"{error} It was sent one text, {text_name(own, role)} ({tokens} tokens, {self.token_count}).",
                too_large
                if error.too_large
                else "The server refuses this text; another attempt would not change that.",
            ) from None
        self._owed += max(0, used - tokens)
        found: NDArray[np.float32] = vectors
        return found


def _identity_of(tokenizer: str) -> str:
    """A tokenizer's name; of a folder, the digest of its file."""
    file = Path(tokenizer, "tokenizer.json")
    if not tokenizer or not file.is_file():
        return f"tokenizer {tokenizer}".strip()
    return f"tokenizer sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def _key(model: Model) -> str:
    """The key, from the environment; "" for a server that is asked without one."""
    if not model.key_env:
        return ""
    key = os.environ.get(model.key_env, "").strip()
    if not key:
        raise EnvironmentProblem(
            f"{model.name}: {model.key_env} is not set.", f"Put the provider's key into it: export {model.key_env}=..."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise EnvironmentProblem(f"{model.name}: what is in {model.key_env} is no key: it has other characters.")
    return key


def _vectors(answer: Any, count: int, dimension: int) -> NDArray[np.float32]:
    """The vectors of an answer in the order of the texts, shape (count, dimension); ValueError where it is not that."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise ValueError("it has no list `data`")  # noqa: TRY004 the client's word for an answer that is not usable
    vectors = np.full((count, dimension), math.nan, dtype=np.float32)
    seen: set[int] = set()
    for position, item in enumerate(data):
        index = item.get("index", position) if isinstance(item, dict) else -1
        if type(index) is not int or not 0 <= index < count or index in seen:
            raise ValueError(f"{len(data)} vectors for {count} texts, numbered wrongly at {position}")
        vector = _vector(item.get("embedding"))
        if vector.shape != (dimension,):
            raise ValueError(f"a vector has {vector.size} numbers, {dimension} are expected (see --dimension)")
        vectors[index] = vector
        seen.add(index)
    if len(seen) != count:
        raise ValueError(f"{len(seen)} vectors for {count} texts")
    return vectors


def _used(answer: Any) -> int:
    """The tokens that the server says it counted; 0 where it says nothing of the kind."""
    usage = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if type(total) is int and 0 < total < 2**53 else 0


def _vector(given: Any) -> NDArray[np.float32]:
    """A vector from a list of numbers, or from base64 of little-endian float32."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity are refused later, with the text's name
            if isinstance(given, str):
                return np.frombuffer(base64.b64decode(given, validate=True), dtype="<f4").astype(np.float32)
            return np.array(given, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise ValueError("a vector is not a list of numbers") from None
