"""Embedding each text once: what is missing in a store is embedded, longest first, batch by batch, each one durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.models import Plan
from quarry_harness.models.embedders import NOBODY, SERVER, Embedder, OutOfMemory, RequestRefused, text_name
from quarry_harness.types import Progress
from quarry_harness.vectors import VectorStore, key_of

# Texts prepared and counted together, so that no second copy of a repository is ever held.
_TEXTS_AT_A_TIME = 1024
# How far from 1 the length of a vector may be that is said to have length 1.
_LENGTH_TOLERANCE = 1e-3


# Told of the tokens of each batch before it is sent, negative where it was not sent after all; may refuse by raising.
Spend = Callable[[int], None]


class Allowance:
    """What embedding may still cost, in US dollars; shared by every model of one command."""

    def __init__(self, usd: float) -> None:
        self._all = self._left = usd

    def spend(self, price_usd: float, tokens: int) -> None:
        """Takes tokens off, at a price of a million. EnvironmentProblem, and none taken, where too little is left."""
        cost = price_usd * tokens / 1_000_000
        if cost > self._left + 1e-9 * self._all:
            raise EnvironmentProblem(
                f"The next batch ({tokens} tokens, ${cost:.4f}) would exceed --max-cost {self._all:g}"
                f" (${max(0.0, self._left):.4f} is left).",
                "What is embedded is kept; raise it and run the same command again.",
            )
        self._left -= cost


def plan(embedder: Embedder, texts: Sequence[str], role: str, store: VectorStore, seen: set[bytes]) -> Plan:
    """Returns what of these texts the store does not have, but for the keys in `seen`, which then has theirs too.

    Raises what embed_missing raises before its first batch.
    """
    wanted = keys(embedder, texts, role)
    positions, counts = _missing(embedder, texts, role, store, wanted, seen)
    seen.update(wanted[i] for i in positions)
    tokens = int(_sent(embedder, counts).sum())
    return Plan(len(counts), tokens, int(counts.max(initial=0)), _too_long(embedder, counts), embedder.token_count)


def keys(embedder: Embedder, texts: Sequence[str], role: str) -> list[bytes]:
    """Returns the store's key of each text, made of the exact text that the model is given."""
    found: list[bytes] = []
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        prepared = embedder.prepare(texts[start : start + _TEXTS_AT_A_TIME], role)
        found += [key_of(text, role) for text in prepared]
    return found


def count_cut(embedder: Embedder, store: VectorStore, rows: NDArray[np.int64]) -> int:
    """Returns how many of these rows' texts are longer than the model takes."""
    return _too_long(embedder, store.tokens(rows))


def embed_missing(
    embedder: Embedder,
    texts: Sequence[str],
    role: str,
    store: VectorStore,
    progress: Progress,
    spend: Spend | None = None,
) -> NDArray[np.int64]:
    """Returns the row of each text's vector in the store, after embedding those that it did not have.

    Each distinct text is embedded once, the longest first, so that memory fails early; a batch has at most the
    embedder's limits of texts and of tokens, padding counted, and is on the disk before the next is begun. Where a
    batch does not fit into memory, it and all later ones are halved. progress is told of tokens.

    Raises, before anything is embedded, InvalidInputError for an empty text, and EnvironmentProblem for one that is
    too long where nobody can cut it. Raises EnvironmentProblem for a vector that is
    none (another shape, NaN, infinite, zero, or not of length 1 where the model says so), after its batch's other
    vectors are kept, for a text that does not fit alone, and what spend and the embedder raise.
    """
    wanted = keys(embedder, texts, role)
    missing, counts = _missing(embedder, texts, role, store, wanted)
    tokens = _sent(embedder, counts)
    most = embedder.limits.texts or len(missing)
    budget = embedder.limits.tokens or len(missing) * int(tokens.max(initial=1))
    words = f"tokens of {len(missing)} texts embedded ({role})"
    start, done, total = 0, 0, int(tokens.sum())
    while start < len(missing):
        progress(done, total, words)
        longest = max(1, int(tokens[start]))
        batch = slice(start, start + max(1, min(most, budget // longest)))
        some = [texts[i] for i in missing[batch]]
        sent = int(tokens[batch].sum())
        if spend is not None:
            spend(sent)
        try:
            vectors = embedder.embed(embedder.prepare(some, role), role)
        except OutOfMemory as error:
            if len(some) == 1:
                raise EnvironmentProblem(
                    f"{text_name(some[0], role)}: {error}, though it is alone.",
                    "A smaller number of tokens (--max-tokens) or a machine with more memory may do.",
                ) from error
            budget = len(some) * longest // 2
            if not isinstance(error, RequestRefused):  # what a server minds is not known; memory is the same everywhere
                embedder.limits = replace(embedder.limits, tokens=budget)
            if spend is not None:
                spend(-sent)
            continue
        good, problem = _checked(embedder, store, vectors, some, role)
        store.append([wanted[i] for i in missing[batch][good]], counts[batch][good], vectors[good])
        if problem is not None:
            raise problem
        start, done = start + len(some), done + sent
    if total:
        progress(total, total, words)
    return store.find(wanted)


def _missing(
    embedder: Embedder,
    texts: Sequence[str],
    role: str,
    store: VectorStore,
    wanted: Sequence[bytes],
    seen: Set[bytes] = frozenset(),
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the positions of the distinct texts that the store lacks, and their token counts, longest first."""
    for text in texts:
        if not text or text.isspace():
            raise InvalidInputError(f"a {role} is empty: {text!r}.", "A model has nothing to say of it; leave it out.")
    first: dict[bytes, int] = {}
    for position in np.flatnonzero(store.find(wanted) < 0).tolist():
        if wanted[position] not in seen:
            first.setdefault(wanted[position], position)
    positions = np.array(list(first.values()), dtype=np.int64)
    counts = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(positions), _TEXTS_AT_A_TIME):
        some = [texts[i] for i in positions[start : start + _TEXTS_AT_A_TIME]]
        counts.append(embedder.count_tokens(embedder.prepare(some, role)))
    tokens = np.concatenate(counts)
    order = np.argsort(-tokens, kind="stable")
    positions, tokens = positions[order], tokens[order]
    if embedder.cuts == NOBODY and (number := _too_long(embedder, tokens)):
        raise EnvironmentProblem(
            f"{embedder.describe().get('name')}: {number} of {len(tokens)} texts may be longer than"
            f" {embedder.max_tokens} tokens and cannot be cut, since the model's tokenizer is not on this machine; the"
            f" longest is {text_name(texts[positions[0]], role)} ({tokens[0]} tokens, {embedder.token_count}).",
            "Install it: pip install 'quarry-harness[api]', and name the tokenizer in a TOML file of the model"
            " (docs/models.md, A server); or let no limit be set.",
        )
    return positions, tokens


def _sent(embedder: Embedder, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many tokens of each text are given to the model, or sent to its server."""
    return np.minimum(counts, embedder.max_tokens) if embedder.max_tokens and embedder.cuts != SERVER else counts


def _too_long(embedder: Embedder, counts: NDArray[np.int64]) -> int:
    return int(np.count_nonzero(counts > embedder.max_tokens)) if embedder.max_tokens else 0


def _checked(
    embedder: Embedder, store: VectorStore, vectors: NDArray[np.float32], texts: Sequence[str], role: str
) -> tuple[NDArray[np.bool_], EnvironmentProblem | None]:
    """Returns which vectors can be kept, and the problem of the first that cannot."""
    name = embedder.describe().get("name")
    if vectors.shape != (len(texts), store.dimension):
        raise EnvironmentProblem(
            f"{name}: vectors of shape {vectors.shape} came back for {len(texts)} texts of {store.dimension} dimensions"
            f"; the first is {text_name(texts[0], role)}.",
            "Check the model's dimension, and that server and model are the ones meant.",
        )
    with np.errstate(over="ignore", invalid="ignore"):
        kept = vectors.astype(store.dtype)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    faults = {
        "it has NaN or infinite numbers": ~np.isfinite(vectors).all(axis=1),
        f"its numbers do not fit {store.dtype}": ~np.isfinite(kept).all(axis=1),
        "it is zero": ~kept.any(axis=1),
    }
    if embedder.similarity == "cosine":
        faults["its length is not 1"] = ~(np.abs(lengths - 1) < _LENGTH_TOLERANCE)
    bad = np.logical_or.reduce(list(faults.values()))
    if not bad.any():
        return ~bad, None
    first = int(np.flatnonzero(bad)[0])
    fault = next(words for words, where in faults.items() if where[first])
    return ~bad, EnvironmentProblem(
        f"{name}: the vector of {text_name(texts[first], role)} cannot be used: {fault}"
        f" ({np.count_nonzero(bad)} of {len(bad)} in its batch).",
        "The batch's other vectors are kept. Check the model and its dtype; a score would be meaningless.",
    )
