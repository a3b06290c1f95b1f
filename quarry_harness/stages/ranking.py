"""A model's rankings of the selection's corpora, a repository at a time; and what they would have to embed first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from quarry_harness.documents import document_text
from quarry_harness.languages import PROFILES
from quarry_harness.models import Choice, Plan, Retriever, models_of
from quarry_harness.models.registry import Model
from quarry_harness.retrieve import Corpus, Ranking
from quarry_harness.runs import document_ids
from quarry_harness.stages.workspace import HAVE
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

# The documents of how many of the longest chunks of all repositories are embedded before anything else.
FIRST_CHUNKS = 64


class EvalQuery(NamedTuple):
    """A query of the selection as the store gives it."""

    ordinal: int
    query_id: str
    repo: str
    task_id: str
    language: str
    text: str
    revision: str


@dataclass(frozen=True, slots=True)
class Listing:
    """One corpus: the id of each document in corpus order, and where a chunk stands by (path, blob, ordinal)."""

    ids: list[str]
    position: dict[tuple[str, int, int], int]

    @classmethod
    def of(cls, corpus: pa.Table) -> Listing:
        """Returns the listing of a corpus as the store gives it."""
        columns = corpus.to_pydict()
        ids = document_ids(zip(*(columns[name] for name in ("path", "name", "start_line", "end_line")), strict=True))
        keys = zip(columns["path"], columns["blob"], columns["ordinal"], strict=True)
        return cls(ids, {key: position for position, key in enumerate(keys)})


NO_CORPUS = Listing([], {})
NO_RESULT = Ranking(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32))


class Ranked(NamedTuple):
    """A corpus with the queries asked of it and their rankings. revision: None where the release states none."""

    revision: RevisionRow | None
    queries: Sequence[EvalQuery]
    listing: Listing
    rankings: Sequence[Ranking]


def rank_corpora(
    store: Store,
    model: Retriever,
    queries: Sequence[EvalQuery],
    done: Collection[int],
    revisions: Sequence[RevisionRow],
    profile: str,
    depth: int,
    progress: Progress,
    run_id: str,
) -> Iterator[Ranked]:
    """Yields every corpus of the selection but for the queries that are done, a repository at a time, in order.

    done: their ordinals. revisions: the selection's. Where a revision is missing the corpus is empty. What the model
    says of a repository's texts is noted in the store under run_id before its first corpus is yielded.
    """
    at = {(r.repo, r.sha): r for r in revisions}
    corpora: dict[str, dict[str, list[EvalQuery]]] = defaultdict(lambda: defaultdict(list))
    for query in queries:
        if query.ordinal not in done:
            corpora[query.repo][query.revision].append(query)
    total, finished = sum(map(len, corpora.values())), 0
    waiting = [r.id for r in revisions if is_there(r) and r.sha in corpora.get(r.repo, ())]
    model.begin_with(_longest(store, waiting, profile))
    for repo, groups in sorted(corpora.items()):
        there = {at[repo, sha]: groups[sha] for sha in sorted(groups) if is_there(at.get((repo, sha)))}
        everything = [query for query in queries if query.repo == repo and is_there(at.get((repo, query.revision)))]
        ranked = _rank_repository(store, model, repo, there, everything, revisions, profile, depth, run_id)
        for sha, group in sorted(groups.items()):
            progress(finished, total, f"{repo}@{sha[:12]}")
            revision = at.get((repo, sha))
            listing, rankings = next(ranked) if revision in there else (NO_CORPUS, [NO_RESULT] * len(group))
            yield Ranked(revision, group, listing, rankings)
            finished += 1
    progress(total, total, "corpora searched")


def _longest(store: Store, revisions: Sequence[int], profile: str) -> list[str]:
    """The longest documents of these revisions: what will not fit in memory, or what is refused, shows at the start."""
    if not revisions:
        return []
    # Blobs that differ elsewhere may hold the same document.
    return list(dict.fromkeys(_texts(store.longest_documents(revisions, PROFILES[profile], FIRST_CHUNKS))))


def _rank_repository(
    store: Store,
    model: Retriever,
    repo: str,
    asked: Mapping[RevisionRow, Sequence[EvalQuery]],
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    depth: int,
    run_id: str,
) -> Iterator[tuple[Listing, list[Ranking]]]:
    """Yields each corpus asked for, in order, with the rankings of its queries.

    The model is given every query and document of the repository in the selection, also those that an interrupted run
    is done with: so what it makes of them does not depend on interruptions. Held at a time: these, the corpora as
    numbers, one corpus's listing, and what the model holds.
    """
    documents = repository_documents(store, repo, revisions, profile)
    number = {query.ordinal: i for i, query in enumerate(queries)}
    corpora = [
        Corpus(store.corpus(revision.id).column("document").to_numpy(), tuple(number[query.ordinal] for query in group))
        for revision, group in asked.items()
    ]
    texts = [query.text for query in queries]
    ranked = model.rank(texts, documents, corpora, depth)
    for count, (revision, rankings) in enumerate(zip(asked, ranked, strict=True)):
        if count == 0:
            store.note_repository(run_id, repo, json.dumps(model.count_cut(texts, documents)))
        yield Listing.of(store.corpus(revision.id)), rankings


def repository_documents(store: Store, repo: str, revisions: Sequence[RevisionRow], profile: str) -> list[str]:
    """Returns the distinct documents of a repository's revisions that we have, by the store's numbers of them."""
    there = [r.id for r in revisions if r.repo == repo and is_there(r)]
    return _texts(store.gather_documents(there, PROFILES[profile]))


def _texts(table: pa.Table) -> list[str]:
    columns = (table.column(name).to_pylist() for name in ("path", "container", "name", "text"))
    return list(map(document_text, *columns))


def is_there(revision: RevisionRow | None) -> bool:
    """Whether a revision could be had."""
    return revision is not None and revision.status in HAVE


def count_missing(
    store: Store,
    model: Retriever,
    choice: Choice,
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    progress: Progress,
) -> dict[str, Any]:
    """Returns what ranking would have to embed: {"models": [row]}, a row an embedding model.

    Rows: model, texts, tokens (as many as the model sees), longest_tokens (before anything is cut), cut, token_count
    ("exact", or the estimate's rule), cost_usd (None where no price is known), price_source.
    """
    seen: dict[str, set[bytes]] = {}
    plans: dict[str, list[Plan]] = defaultdict(list)
    there = {(r.repo, r.sha) for r in revisions if is_there(r)}
    repos = sorted({repo for repo, _ in there})
    for number, repo in enumerate(repos):
        progress(number, len(repos), f"counting {repo}")
        asked = [q.text for q in queries if q.repo == repo and (repo, q.revision) in there]
        for name, plan in model.plan(asked, repository_documents(store, repo, revisions, profile), seen).items():
            plans[name].append(plan)
    progress(len(repos), len(repos), "repositories counted")
    return {"models": [_missing_row(m, plans[m.name]) for m in models_of(choice) if m.kind != "lexical"]}


def _missing_row(model: Model, plans: Sequence[Plan]) -> dict[str, Any]:
    tokens = sum(plan.tokens for plan in plans)
    return {
        "model": model.name,
        "texts": sum(plan.texts for plan in plans),
        "tokens": tokens,
        "longest_tokens": max((plan.longest_tokens for plan in plans), default=0),
        "cut": sum(plan.cut for plan in plans),
        "token_count": plans[0].token_count if plans else "",
        "cost_usd": round(tokens * model.price_usd / 1_000_000, 4) if model.price_usd else None,
        "price_source": model.price_source,
    }
