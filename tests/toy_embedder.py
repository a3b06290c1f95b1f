"""A deterministic embedder for tests: a text's vector comes from its hash, its tokens are its words."""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from quarry_harness.models.embedders import OutOfMemory
from quarry_harness.models.registry import Limits


def toy_vector(prepared: str, dimension: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(prepared.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class ToyEmbedder:
    """`calls` has the texts of every batch, those refused for memory left out; the log file has them too."""

    token_count = "exact"
    cuts = "here"

    def __init__(
        self,
        dimension: int = 8,
        *,
        max_tokens: int = 0,
        limits: Limits = Limits(texts=4),  # noqa: B008 frozen
        similarity: str = "cosine",
        prompt: str = "Q: ",
        room_tokens: int = 1 << 60,
        log: Path | None = None,
        pause_s: float = 0.0,
        vector: Callable[[str, int], np.ndarray] = toy_vector,
    ) -> None:
        self.dimension, self.max_tokens, self.limits, self.similarity = dimension, max_tokens, limits, similarity
        self._prompt, self._room, self._log, self._pause_s, self._vector = prompt, room_tokens, log, pause_s, vector
        self.calls: list[list[str]] = []
        self.refused: list[int] = []

    def describe(self) -> dict[str, object]:
        return {"name": "toy", "dimension": self.dimension, "max_tokens": self.max_tokens, "query_prompt": self._prompt}

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        return [self._prompt + text if role == "query" else text for text in texts]

    def count_tokens(self, prepared: Sequence[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in prepared], dtype=np.int64)

    def embed(self, prepared: Sequence[str], role: str) -> np.ndarray:
        longest = int(self.count_tokens(prepared).max())
        if len(prepared) * min(longest, self.max_tokens or longest) > self._room:
            self.refused.append(len(prepared))
            raise OutOfMemory(f"{len(prepared)} texts do not fit")
        self.calls.append(list(prepared))
        if self._log is not None:
            with self._log.open("a") as file:
                file.write("\t".join(prepared) + "\n")
                file.flush()
                os.fsync(file.fileno())
        time.sleep(self._pause_s)
        return np.stack([self._vector(text, self.dimension) for text in prepared])
