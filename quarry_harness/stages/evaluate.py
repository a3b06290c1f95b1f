"""The eval stage: a model's ranking of every query's corpus, its measures, and the run folder that keeps them."""

from __future__ import annotations

import platform
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quarry_harness import __version__, measures, models
from quarry_harness.documents import document_text
from quarry_harness.errors import UsageError
from quarry_harness.languages import PROFILES
from quarry_harness.retrieve import top_k
from quarry_harness.runs import document_ids, is_whole, per_query_table, qrels_line, read_result, trec_line, write_run
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    digest,
    release_name,
    require_chunked,
    resolution_state,
    runs_folder,
)
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

# Part of every run's identity: raise when the same settings would give other bytes.
RUN_FORMAT = "1"
DEFAULT_DEPTH = 100


class EvalQuery(NamedTuple):
    """A query of the selection as the store gives it."""

    ordinal: int
    query_id: str
    repo: str
    task_id: str
    language: str
    text: str
    revision: str


class GoldLabel(NamedTuple):
    """A gold unit with its resolution, as the store gives it."""

    query: int
    ordinal: int
    unit_key: str
    tier: str
    reason: str
    path: str
    blob: int
    chunk: int
    relevance: str


@dataclass(slots=True)
class Outcome:
    """What the evaluation gathers, query by query."""

    run: dict[int, list[str]] = field(default_factory=dict)
    qrels: dict[int, list[str]] = field(default_factory=dict)
    ranks: dict[int, measures.QueryRanks] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    no_result: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def evaluate(
    workspace: Path, model_name: str, image: str, profile: str, depth: int, progress: Progress
) -> dict[str, Any]:
    """Runs one model over the selection; returns the document of result.json, with run_id, folder and done_before.

    depth: how many results a query keeps, at least the largest cutoff. Raises UsageError where the gold is not
    resolved for the present state of the workspace.
    """
    model = models.load(model_name)
    started = time.monotonic()
    with Store.open(workspace) as store:
        revisions = require_chunked(store, image)
        state = resolution_state(store, image, profile, revisions)
        if store.meta(f"resolved:{image}:{profile}") != state:
            raise UsageError(
                f"The gold units of {image} are not resolved for what the workspace now holds.",
                f"First run: quarry canonicalize --image {image}",
            )
        identity = _identity(store, model, image, profile, depth, state)
        run_id = f"{models.check_name(model_name)}-{image}-{digest(identity)[:12]}"
        folder = runs_folder(workspace) / run_id
        if is_whole(folder, store.run_files(run_id)):
            return read_result(folder) | {"folder": str(folder), "done_before": True}
        outcome = _rank_all(store, model, image, profile, depth, revisions, progress, run_id)
        result = {"run_id": run_id, "model": models.check_name(model_name)} | _result(store, outcome, image, revisions)
        result |= {"settings": identity, "versions": _versions()}
        timing = {"seconds": round(time.monotonic() - started, 3), "machine": platform.machine()}
        order = sorted(outcome.rows)
        files = write_run(
            folder,
            (line for query in order for line in outcome.run[query]),
            (line for query in order for line in outcome.qrels[query]),
            per_query_table([outcome.rows[query] for query in order], measures.names()),
            result,
            timing,
        )
        store.record_run(run_id, model_name, image, digest(identity), files)
    return result | {"folder": str(folder), "done_before": False}


def _identity(
    store: Store, model: models.Retriever, image: str, profile: str, depth: int, state: str
) -> dict[str, Any]:
    """Everything that could change a byte of the run file."""
    return {
        "run_format": RUN_FORMAT,
        "release_files": store.release_files(),
        "selection": digest(store.selected_tasks()),
        "resolutions": state,
        "chunk_rules": digest(chunk_rules()),
        "image": image,
        "profile": profile,
        "depth": depth,
        "model": model.describe(),
    }


def _rank_all(
    store: Store,
    model: models.Retriever,
    image: str,
    profile: str,
    depth: int,
    revisions: Sequence[RevisionRow],
    progress: Progress,
    tag: str,
) -> Outcome:
    gold: dict[int, list[GoldLabel]] = defaultdict(list)
    for row in store.resolutions(image, profile):
        gold[row[0]].append(GoldLabel(*row))
    at = {(r.repo, r.sha): r for r in revisions}
    grouped: dict[tuple[str, str], list[EvalQuery]] = defaultdict(list)
    for row in store.selected_queries(image):
        query = EvalQuery(*row)
        grouped[query.repo, query.revision].append(query)
    outcome = Outcome()
    for done, (key, queries) in enumerate(sorted(grouped.items())):
        progress(done, len(grouped), f"{key[0]}@{key[1][:12]}")
        _rank_revision(store, model, at.get(key), queries, gold, profile, depth, tag, outcome)
    progress(len(grouped), len(grouped), "corpora searched")
    return outcome


def _rank_revision(
    store: Store,
    model: models.Retriever,
    revision: RevisionRow | None,
    queries: Sequence[EvalQuery],
    gold: dict[int, list[GoldLabel]],
    profile: str,
    depth: int,
    tag: str,
    outcome: Outcome,
) -> None:
    """Ranks one revision's corpus for its queries and adds what came out to the outcome."""
    ids: list[str] = []
    index_of: dict[tuple[str, int, int], int] = {}
    scores = np.empty((len(queries), 0), dtype=np.float32)
    if revision is not None and revision.status in HAVE:
        corpus = store.corpus(revision.id, PROFILES[profile]).to_pydict()
        columns = (corpus[name] for name in ("path", "name", "start_line", "end_line"))
        ids = document_ids(zip(*columns, strict=True))
        keys = zip(corpus["path"], corpus["blob"], corpus["ordinal"], strict=True)
        index_of = {key: i for i, key in enumerate(keys)}
        texts = list(map(document_text, corpus["path"], corpus["container"], corpus["name"], corpus["text"]))
        scores = model.score([query.text for query in queries], texts)
    for query, row in zip(queries, scores, strict=True):
        ranking = top_k(row, depth)
        rank_of = {int(index): rank for rank, index in enumerate(ranking, start=1)}
        labels = gold[query.ordinal]
        found = [index_of[g.path, g.blob, g.chunk] if g.tier else -1 for g in labels]
        unit_ranks = tuple(rank_of.get(index, 0) for index in found)
        outcome.run[query.ordinal] = [
            trec_line(query.query_id, ids[index], rank, row[index], tag) for index, rank in rank_of.items()
        ]
        outcome.qrels[query.ordinal] = sorted(
            qrels_line(query.query_id, ids[index] if index >= 0 else f"unresolved:{n}", g.relevance)
            for n, (index, g) in enumerate(zip(found, labels, strict=True))
        )
        if not rank_of:
            outcome.no_result[_why_empty(revision, ids)] += 1
        outcome.ranks[query.ordinal] = measures.QueryRanks(
            query.query_id,
            query.repo,
            query.task_id,
            query.language,
            unit_ranks,
            tuple(g.relevance == "ESSENTIAL" for g in labels),
            len(rank_of),
        )
        outcome.rows[query.ordinal] = _row(query, labels, unit_ranks, len(ids), len(rank_of), outcome)


def _why_empty(revision: RevisionRow | None, ids: Sequence[str]) -> str:
    if revision is None:
        return "no_revision_stated"
    if revision.status not in HAVE:
        return "revision_missing"
    return "no_match" if ids else "empty_corpus"


def _row(
    query: EvalQuery,
    labels: Sequence[GoldLabel],
    unit_ranks: tuple[int, ...],
    corpus_chunks: int,
    retrieved: int,
    outcome: Outcome,
) -> dict[str, Any]:
    values = measures.per_query([outcome.ranks[query.ordinal]])
    return {
        "query_id": query.query_id,
        "repo": query.repo,
        "task_id": query.task_id,
        "language": query.language,
        "revision": query.revision,
        "query": query.text,
        "corpus_chunks": corpus_chunks,
        "retrieved": retrieved,
        "gold_units": len(labels),
        "unresolved_units": sum(not g.tier for g in labels),
        "gold_unit_keys": [g.unit_key for g in labels],
        "gold_relevances": [g.relevance for g in labels],
        "gold_ranks": list(unit_ranks),
        **{name: None if np.isnan(column[0]) else float(column[0]) for name, column in values.items()},
    }


def _result(store: Store, outcome: Outcome, image: str, revisions: Sequence[RevisionRow]) -> dict[str, Any]:
    queries = [outcome.ranks[ordinal] for ordinal in sorted(outcome.ranks)]
    rows = [outcome.rows[ordinal] for ordinal in sorted(outcome.rows)]
    counts = store.counts()
    return {
        "release": release_name(store.meta("release_ref") or ""),
        "release_version": store.meta("release_version"),
        "image": image,
        "queries": sum(bool(query.unit_ranks) for query in queries),
        "queries_without_gold": sum(not query.unit_ranks for query in queries),
        "queries_without_result": sum(outcome.no_result.values()),
        "queries_without_result_by_reason": dict(sorted(outcome.no_result.items())),
        "tasks": counts["selected_tasks"],
        "release_tasks": counts["tasks"],
        "units": sum(row["gold_units"] for row in rows),
        "unresolved_units": sum(row["unresolved_units"] for row in rows),
        "measures": summary(queries)["micro"],
        "pooled": measures.pooled_recall(queries),
        "rollup": _rollup(queries),
        "revisions": [{"repo": r.repo, "revision": r.sha, "status": r.status} for r in revisions],
    }


def summary(queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    """Returns the counts and the micro means of a group of queries."""
    return {
        "queries": sum(bool(query.unit_ranks) for query in queries),
        "units": sum(len(query.unit_ranks) for query in queries),
        "micro": measures.micro(measures.per_query(queries)),
    }


def _rollup(queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    levels = measures.rollup(queries, measures.per_query(queries))
    by_language: dict[str, list[measures.QueryRanks]] = defaultdict(list)
    by_repo: dict[tuple[str, str], list[measures.QueryRanks]] = defaultdict(list)
    for query in queries:
        by_language[query.language].append(query)
        by_repo[query.language, query.repo].append(query)
    return {
        **{level: measures.macro(levels, level) for level in ("task", "repo", "language")},
        "by_language": {
            language: summary(group) | {"macro": levels["language"].get((language,), {})}
            for language, group in sorted(by_language.items())
        },
        "by_repo": [
            {"repo": repo, "language": language} | summary(group) | {"macro": levels["repo"].get((language, repo), {})}
            for (language, repo), group in sorted(by_repo.items())
        ],
    }


def _versions() -> dict[str, str]:
    packages = ("duckdb", "numpy", "pyarrow", "tree-sitter", "tree-sitter-language-pack")
    return {"quarry-harness": __version__, "python": platform.python_version()} | {
        package: version(package) for package in packages
    }
