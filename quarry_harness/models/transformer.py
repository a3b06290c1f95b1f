"""Transformer embeddings by sentence-transformers: on the GPU where there is one, else on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem
from quarry_harness.models.embedders import HERE, OutOfMemory, unit_length
from quarry_harness.models.hub_files import HubModel
from quarry_harness.models.registry import Model
from quarry_harness.models.tokens import EXACT, Estimate

_NO_LIMIT = 10**9  # tokenizers write a number like 10**30 where they know none
_NO_ROOM = ("out of memory", "can't allocate memory", "not enough memory")


class TransformerEmbedder:
    """A model from a folder or the hub. Raises EnvironmentProblem where it is not to be had.

    Its settings come from its small files; the weights are loaded with the first text, or where the files do not tell
    the dimension or the longest text.
    """

    cuts = HERE

    def __init__(self, model: Model) -> None:
        self._model = model
        self._source = HubModel(model)
        self._weights: Any = None  # a SentenceTransformer, once it is loaded
        self._tokenizer: Any = None  # False where there is none of the usual kind
        own = self._source.prompts()
        self._prompts = {role: model.prompt(role, own) for role in ("query", "document")}
        self.limits = model.limits
        self.similarity = model.similarity
        given = self._source.dimension() or self._load().get_embedding_dimension()
        self._source.check_dimension(given)
        if model.output_dimension > given:
            raise EnvironmentProblem(f"{model.name} gives {given} dimensions, not {model.output_dimension}.")
        self.dimension: int = model.output_dimension or given
        self.max_tokens = model.max_tokens or self._source.max_tokens() or self._own_limit()

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a vector, the machine's own rounding aside."""
        minor = {name: ".".join(version(name).split(".")[:2]) for name in ("sentence-transformers", "transformers")}
        return {
            "name": self._model.name,
            "kind": "sentence-transformers",
            "model": self._source.shown,
            "revision": self._source.revision,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "query_prompt": self._prompts["query"],
            "document_prompt": self._prompts["document"],
            "pooling": self._source.pooling(),
            "similarity": self.similarity,
            "dtype": self._model.dtype,
            "library": ", ".join(f"{name} {number}" for name, number in minor.items()),
        }

    @property
    def token_count(self) -> str:
        """How tokens are counted: exactly, or estimated for a model without a tokenizer of the usual kind."""
        return EXACT if self._load_tokenizer() is not None else Estimate.how

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        """Returns the texts with the role's prompt before them."""
        return [self._prompts[role] + text for text in texts]

    def count_tokens(self, prepared: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text, special ones included."""
        tokenizer = self._load_tokenizer()
        if tokenizer is None or not prepared:
            return Estimate().count(prepared)
        ids = tokenizer(list(prepared), truncation=False, padding=False, verbose=False)["input_ids"]
        return np.array([len(one) for one in ids], dtype=np.int64)

    def embed(self, prepared: Sequence[str], role: str) -> NDArray[np.float32]:
        """Returns vectors of shape (texts, dimension): of length 1 for cosine, as the model gives them for dot."""
        model = self._load()
        prompt = self._prompts[role]
        # The prompt is given apart, since some models pool without it; the role, since some have two encoders.
        encode = model.encode_query if role == "query" else model.encode_document
        try:
            tensor = encode(
                [text[len(prompt) :] for text in prepared],
                prompt=prompt,
                batch_size=max(1, len(prepared)),
                show_progress_bar=False,
                convert_to_tensor=True,
            )
            vectors: NDArray[np.float32] = tensor.float().cpu().numpy()
        except (RuntimeError, MemoryError) as error:
            if not frees_memory(error):
                raise
            raise OutOfMemory(f"{self._model.name}: {len(prepared)} texts do not fit into memory") from error
        vectors = vectors.reshape(len(prepared), -1)[:, : self.dimension]
        return unit_length(vectors) if self.similarity == "cosine" else vectors

    def _own_limit(self) -> int:
        """The loaded model's longest text; 0 where it has no limit."""
        longest = self._load().max_seq_length
        return longest if isinstance(longest, int) and longest < _NO_LIMIT else 0

    def _load(self) -> Any:
        if self._weights is None:
            self._weights = self._source.loaded(self._load_weights)
        return self._weights

    def _load_weights(self) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer

        mind_the_log()
        weights = SentenceTransformer(
            self._source.place,
            trust_remote_code=self._model.trust_remote_code,
            model_kwargs={"dtype": getattr(torch, self._model.dtype)},
            **self._source.load_arguments(),
        )
        if longest := self._model.max_tokens or self._source.max_tokens():
            weights.max_seq_length = longest
        return weights

    def _load_tokenizer(self) -> Any:
        if self._tokenizer is None:
            self._tokenizer = tokenizer_of(self._source, self._model) or False
        return self._tokenizer or None


def mind_the_log() -> None:
    """Keeps transformers from drawing bars where nobody looks: a log file is no place for one."""
    from transformers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()


def tokenizer_of(source: HubModel, model: Model) -> Any:
    """Returns the tokenizer of a model of the hub or a folder, None where there is none of the usual kind."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            source.place, trust_remote_code=model.trust_remote_code, **source.load_arguments()
        )
    except Exception:  # noqa: BLE001 whatever it is, there is no tokenizer of the usual kind
        return None


def frees_memory(error: Exception) -> bool:
    """Returns whether torch failed for want of memory; what its cache holds is then given back to the GPU."""
    if isinstance(error, RuntimeError) and not any(words in str(error).lower() for words in _NO_ROOM):
        return False
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return True
