"""What every embedding model offers, and how a model of the registry becomes one.

Heavy packages are imported where a model is opened; whether it can be opened is told without them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models.registry import API_KINDS, EXTRAS, Limits, Model

ROLES = ("query", "document")
_OF_THE_HUB = ("static", "sentence-transformers", "cross-encoder")
# Who cuts a text that is longer than max_tokens. SERVER: it is sent whole. NOBODY: its tokenizer is not on this
# machine, so where to cut is not known, and it is not sent at all.
HERE, SERVER, NOBODY = CUTS = ("here", "server", "nobody")


class OutOfMemory(Exception):
    """A batch does not fit into memory; half of it may do."""


class RequestRefused(OutOfMemory):
    """A server does not take a batch, for its size or for one of its texts; half of it may do."""


class Embedder(Protocol):
    """A model that gives vectors. A role is "query" or "document"."""

    dimension: int
    max_tokens: int  # longer texts are cut; 0: no limit
    cuts: str  # who cuts them: one of CUTS
    limits: Limits  # of one batch; lowered where memory turns out to hold less
    similarity: str  # "cosine", and then vectors have length 1, or "dot"

    @property
    def token_count(self) -> str:
        """How count_tokens counts: "exact", or the estimate's rule."""

    def describe(self) -> dict[str, object]:
        """Returns everything that could change a vector, and no secret; it becomes part of a run's identity."""

    def prepare(self, texts: Sequence[str], role: str) -> list[str]:
        """Returns the exact texts the model is given, prompts included."""

    def count_tokens(self, prepared: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each prepared text, before anything is cut."""

    def embed(self, prepared: Sequence[str], role: str) -> NDArray[np.float32]:
        """Returns vectors of shape (texts, dimension), not yet checked for NaN or zeros; at least one text is given.

        Raises OutOfMemory where a smaller batch could succeed, EnvironmentProblem where key, model, quota or content
        are refused.
        """


def open_embedder(model: Model, pay_again: Callable[[int], None] | None = None) -> Embedder:
    """Returns the model ready to embed; weights are loaded when the first text is.

    pay_again: told of the tokens of what is sent once more after an attempt that may cost; may refuse by raising.
    Raises EnvironmentProblem where a package, a key or the model is not to be had, UsageError for a model that gives
    no vectors.
    """
    if model.kind == "cross-encoder":
        raise UsageError(
            f"{model.name} is a cross-encoder, which gives no vectors.",
            "It re-ranks what another model has found: quarry rerank --run RUN --model NAME",
        )
    require_packages(model)
    if model.kind == "static":
        from quarry_harness.models.static import StaticEmbedder

        return StaticEmbedder(model)
    if model.kind == "sentence-transformers":
        from quarry_harness.models.transformer import TransformerEmbedder

        return TransformerEmbedder(model)
    if model.kind in API_KINDS:
        from quarry_harness.models.api import ApiEmbedder

        return ApiEmbedder(model, pay_again=pay_again)
    if model.kind == "precomputed":
        from quarry_harness.models.precomputed import PrecomputedVectors

        return PrecomputedVectors(model)
    raise UsageError(f"{model.name} gives no vectors.")


def require_packages(model: Model) -> None:
    """Raises EnvironmentProblem where a package that the model's kind needs is not installed."""
    extra, packages = EXTRAS.get(model.kind, ("", ()))
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise EnvironmentProblem(
            f"{model.name} needs {' and '.join(missing)}, which is not installed.",
            f"Install it: pip install 'quarry-harness[{extra}]'",
        )


class Standing(NamedTuple):
    """Whether a model can be used here and now, and what is missing or will happen first."""

    ready: bool
    note: str


def standing(model: Model) -> Standing:
    """Returns whether a model can be used, found out without importing a heavy package or asking the network."""
    try:
        require_packages(model)
    except EnvironmentProblem as problem:
        return Standing(False, problem.hint.removeprefix("Install it: "))
    if model.key_env and not os.environ.get(model.key_env, "").strip():
        return Standing(False, f"set {model.key_env}")
    if model.kind in _OF_THE_HUB and not Path(model.model).exists() and not _cached(model):
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            return Standing(False, "not downloaded, and HF_HUB_OFFLINE is set")
        return Standing(True, "downloads at first use")
    return Standing(True, "")


def _cached(model: Model) -> bool:
    """Whether the hub's cache has a snapshot of the model; that it is whole only loading it can tell."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()
    snapshots = cache / f"models--{model.model.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob(model.revision or "*"))


def unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the rows divided by their length; a row of zeros, which has no direction, stays one."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # what is infinite becomes NaN, and is refused by name
        return (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def text_name(text: str, role: str) -> str:
    """Returns what a text is called in a message: a document by its first line, which is its path and name."""
    words = " ".join(text.split("\n", 1)[0].split())
    return f"the {role} {words[:120]!r}"
