"""Cross-encoders by sentence-transformers: one number for a query and a document that are read together."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models.embedders import OutOfMemory, require_packages
from quarry_harness.models.hub_files import HubModel
from quarry_harness.models.registry import Model
from quarry_harness.models.tokens import Estimate
from quarry_harness.models.transformer import frees_memory, mind_the_log, tokenizer_of

_NO_LIMIT = 10**9  # tokenizers write a number like 10**30 where they know none
_SPECIAL_TOKENS = 3  # of a pair, where the tokenizer does not say: before, between and behind


class CrossEncoderScorer:
    """A model from a folder or the hub; on the GPU where there is one. Its weights are loaded with the first pair.

    Raises EnvironmentProblem where a package or the model is not to be had, UsageError for a model that scores no
    pairs: a scoring head would be made up for it at random.
    """

    def __init__(self, model: Model) -> None:
        if model.kind != "cross-encoder":
            raise UsageError(f"{model.name} is {model.kind}, not a cross-encoder.", "quarry eval --model takes it.")
        if model.asked or model.query_prompt or model.document_prompt or model.dimension:
            raise UsageError(
                f"{model.name}: a cross-encoder takes neither prompts nor a dimension.", "Leave them out of its file."
            )
        require_packages(model)
        self._model = model
        self._source = HubModel(model)
        if not self._source.scores_pairs():
            raise UsageError(
                f"{model.name} ({model.model}) is no cross-encoder: nothing in its files says that it gives scores.",
                "One has ...ForSequenceClassification in its config.json, or was saved by CrossEncoder.",
            )
        self._weights: Any = None  # a CrossEncoder, once it is loaded
        self._tokenizer: Any = None  # False where there is none of the usual kind
        self.limits = model.limits

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a score, the machine's own rounding aside; max_tokens 0: its own."""
        minor = {name: ".".join(version(name).split(".")[:2]) for name in ("sentence-transformers", "transformers")}
        return {
            "name": self._model.name,
            "kind": "cross-encoder",
            "model": self._source.shown,
            "revision": self._source.revision,
            "max_tokens": self._model.max_tokens,
            "dtype": self._model.dtype,
            "library": ", ".join(f"{name} {number}" for name, number in minor.items()),
        }

    def max_tokens(self) -> int:
        """Returns how many tokens of a pair the model sees; 0: no limit. Loads it where only its weights tell."""
        longest = self._model.max_tokens or self._load().max_seq_length
        return longest if isinstance(longest, int) and longest < _NO_LIMIT else 0

    def count_tokens(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text alone, before anything is cut and without special ones."""
        tokenizer = self._load_tokenizer()
        if tokenizer is None or not texts:
            return Estimate().count(texts)
        ids = tokenizer(list(texts), truncation=False, padding=False, verbose=False, add_special_tokens=False)
        return np.array([len(one) for one in ids["input_ids"]], dtype=np.int64)

    def special_tokens(self) -> int:
        """Returns how many tokens a pair has beside those of its two texts."""
        tokenizer = self._load_tokenizer()
        return _SPECIAL_TOKENS if tokenizer is None else int(tokenizer.num_special_tokens_to_add(pair=True))

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Returns a score for each (query, document), as CrossEncoder.predict gives it: shape (pairs,), not checked.

        Raises OutOfMemory where fewer pairs could succeed, EnvironmentProblem where the model gives several numbers a
        pair.
        """
        model = self._load()
        try:
            scores = model.predict(list(pairs), batch_size=max(1, len(pairs)), show_progress_bar=False)
        except (RuntimeError, MemoryError) as error:
            if not frees_memory(error):
                raise
            raise OutOfMemory(f"{self._model.name}: {len(pairs)} pairs do not fit into memory") from error
        found: NDArray[np.float32] = np.asarray(scores, dtype=np.float32)
        if found.shape != (len(pairs),):
            raise EnvironmentProblem(
                f"{self._model.name} gives {found.shape[-1]} numbers for a pair, not one score.",
                "It is a classifier of another kind.",
            )
        return found

    def _load(self) -> Any:
        if self._weights is None:
            self._weights = self._source.loaded(self._load_weights)
        return self._weights

    def _load_weights(self) -> Any:
        import torch
        from sentence_transformers import CrossEncoder

        mind_the_log()
        return CrossEncoder(
            self._source.place,
            trust_remote_code=self._model.trust_remote_code,
            max_length=self._model.max_tokens or None,
            model_kwargs={"dtype": getattr(torch, self._model.dtype)},
            **self._source.load_arguments(),
        )

    def _load_tokenizer(self) -> Any:
        if self._tokenizer is None:
            self._tokenizer = tokenizer_of(self._source, self._model) or False
        return self._tokenizer or None
