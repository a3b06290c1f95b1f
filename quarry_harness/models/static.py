"""Static embeddings: the mean of the tokens' vectors, by model2vec. No GPU, no transformer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.models.embedders import HERE, unit_length
from quarry_harness.models.hub_files import HubModel
from quarry_harness.models.registry import Model
from quarry_harness.models.tokens import EXACT, Tokenizers


class StaticEmbedder:
    """A model2vec model from a folder or the hub. Raises EnvironmentProblem where it is not to be had."""

    token_count = EXACT
    cuts = HERE

    def __init__(self, model: Model) -> None:
        from model2vec import StaticModel

        self._model = model
        self._source = HubModel(model)
        folder = self._source.folder(everything=True)
        # max_length None: model2vec cuts by characters before it cuts by tokens; here only tokens count.
        self._static: Any = self._source.loaded(
            lambda: StaticModel.from_pretrained(folder, max_length=None, force_download=False)
        )
        self._tokens = Tokenizers(self._static.tokenizer)
        own = self._source.prompts()
        self._prompts = {role: model.prompt(role, own) for role in ("query", "document")}
        self._source.check_dimension(self._static.dim)
        self.dimension: int = model.output_dimension or self._static.dim
        self.max_tokens = model.max_tokens
        self.limits = model.limits
        self.similarity = model.similarity

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a vector."""
        return {
            "name": self._model.name,
            "kind": "static",
            "model": self._source.shown,
            "revision": self._source.revision,
            "dimension": self.dimension,
            "max_tokens": self.max_tokens,
            "query_prompt": self._prompts["query"],
            "document_prompt": self._prompts["document"],
            "pooling": "mean",
            "similarity": self.similarity,
            "dtype": str(self._static.embedding.dtype),
            "library": f"model2vec {version('model2vec')}",
        }

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        """Returns the texts with the role's prompt before them."""
        return [self._prompts[role] + text for text in texts]

    def count_tokens(self, prepared: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text, unknown ones included."""
        return self._tokens.count(prepared)

    def embed(self, prepared: Sequence[str], role: str) -> NDArray[np.float32]:
        """Returns vectors of shape (texts, dimension); zeros for a text that has no known token."""
        texts = [self._tokens.cut(text, self.max_tokens) if self.max_tokens else text for text in prepared]
        given = self._static.encode(texts, show_progress_bar=False, use_multiprocessing=False)
        vectors = np.asarray(given, dtype=np.float32)[:, : self.dimension]
        return unit_length(vectors) if self.similarity == "cosine" else vectors
