"""The eval stage: a model's ranking of every query's corpus, its measures, and the run folder that keeps them."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quarry_harness import __version__, documents, measures, models, retrieve, runs, significance
from quarry_harness.documents import document_text
from quarry_harness.errors import UsageError
from quarry_harness.languages import PROFILES
from quarry_harness.retrieve import top_k
from quarry_harness.runs import GRADES, document_ids, per_query_table, qrels_line, read_result, trec_line, write_run
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    command_line,
    digest,
    release_name,
    require_chunked,
    resolution_state,
    run_is_whole,
    runs_folder,
    source_state,
)
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import RESAMPLES, SEED, Progress

# Part of every run's identity: raise when the same settings would give other bytes.
RUN_FORMAT = "1"


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
    kind: str
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one query gave: its lines of the run and the qrels, its row of the per-query table, why it has no result."""

    run: list[str]
    qrels: list[str]
    row: dict[str, Any]
    no_result: str  # "" where there is one, or no gold unit to find


def evaluate(
    workspace: Path,
    model_name: str,
    image: str,
    profile: str,
    depth: int,
    progress: Progress,
    *,
    accept_missing: bool = False,
) -> dict[str, Any]:
    """Runs one model over the selection; returns the document of result.json, with run_id, folder and done_before.

    depth: how many results a query keeps, at least the largest cutoff. Raises UsageError where the gold is not
    resolved for the present state of the workspace.
    """
    model = models.load(model_name)
    started = time.monotonic()
    with Store.open(workspace) as store:
        revisions = require_chunked(store, image, accept_missing=accept_missing)
        state = resolution_state(store, image, profile, revisions)
        if store.meta(f"resolved:{image}:{profile}") != state:
            raise UsageError(
                f"The gold units of {image} are not resolved in profile {profile} for what the workspace now holds.",
                f"First run: {command_line('canonicalize', workspace, image, profile)}",
            )
        identity = _identity(store, model, image, profile, depth, state)
        scope = image if profile == "quarry" else f"{image}-{profile}"
        run_id = f"{models.check_name(model_name)}-{scope}-{digest(identity)[:12]}"
        folder = runs_folder(workspace) / run_id
        if run_is_whole(store, workspace, run_id):
            return read_result(folder) | {"folder": str(folder), "done_before": True}
        outcomes = _rank_all(store, model, image, profile, depth, revisions, progress, run_id)
        result: dict[str, Any] = {"run_id": run_id, "model": models.check_name(model_name), "profile": profile}
        result |= {"filters": json.loads(store.meta("selection") or "{}").get("filters", {})}
        result |= _result(store, outcomes, image, revisions)
        result |= {"units_sharing_a_chunk": result["units"] - sum(len(outcome.qrels) for outcome in outcomes)}
        result |= {"settings": identity, "versions": _versions()}
        timing = {"seconds": round(time.monotonic() - started, 3), "machine": platform.machine()}
        files = write_run(
            folder,
            (line for outcome in outcomes for line in outcome.run),
            (line for outcome in outcomes for line in outcome.qrels),
            per_query_table(_measured([outcome.row for outcome in outcomes]), measures.names()),
            result,
            timing,
        )
        store.record_run(run_id, models.check_name(model_name), image, digest(identity), files)
    return result | {"folder": str(folder), "done_before": False}


def _identity(
    store: Store, model: models.Retriever, image: str, profile: str, depth: int, state: str
) -> dict[str, Any]:
    """Everything that could change a byte of the run file."""
    return {
        "run_format": RUN_FORMAT,
        "code": source_state(documents, measures, retrieve, runs, significance),
        "release": [release_name(store.meta("release_ref") or ""), store.meta("release_version")],
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
    run_id: str,
) -> list[Outcome]:
    """Ranks every query of the selection, in release order; what an interrupted run has kept is not ranked again."""
    gold: dict[int, list[GoldLabel]] = defaultdict(list)
    for row in store.resolutions(image, profile):
        gold[row[0]].append(GoldLabel(*row))
    at = {(r.repo, r.sha): r for r in revisions}
    kept = store.outcomes(run_id)
    queries = [EvalQuery(*row) for row in store.selected_queries(image)]
    waiting: dict[tuple[str, str], list[EvalQuery]] = defaultdict(list)
    for query in queries:
        if query.ordinal not in kept:
            waiting[query.repo, query.revision].append(query)
    for done, (key, group) in enumerate(sorted(waiting.items())):
        progress(done, len(waiting), f"{key[0]}@{key[1][:12]}")
        ranked = _rank_revision(store, model, at.get(key), group, gold, profile, depth, run_id)
        fresh = {query: json.dumps(asdict(outcome)) for query, outcome in ranked.items()}
        store.keep_outcomes(run_id, fresh)
        kept |= fresh
    progress(len(waiting), len(waiting), "corpora searched")
    return [Outcome(**json.loads(kept[query.ordinal])) for query in queries]


def _rank_revision(
    store: Store,
    model: models.Retriever,
    revision: RevisionRow | None,
    queries: Sequence[EvalQuery],
    gold: dict[int, list[GoldLabel]],
    profile: str,
    depth: int,
    tag: str,
) -> dict[int, Outcome]:
    """Ranks one revision's corpus for its queries; returns the outcome of each by its ordinal."""
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
    outcomes = {}
    for query, row in zip(queries, scores, strict=True):
        ranking = top_k(row, depth)
        rank_of = {int(index): rank for rank, index in enumerate(ranking, start=1)}
        labels = gold[query.ordinal]
        found = [index_of[g.path, g.blob, g.chunk] if g.tier else -1 for g in labels]
        outcomes[query.ordinal] = Outcome(
            [trec_line(query.query_id, ids[index], rank, row[index], tag) for index, rank in rank_of.items()],
            _qrels(query, found, labels, ids),
            _row(query, labels, [rank_of.get(index, 0) for index in found], len(ids), len(rank_of)),
            "" if rank_of or not labels else _why_empty(revision, ids),
        )
    return outcomes


def _qrels(query: EvalQuery, found: Sequence[int], labels: Sequence[GoldLabel], ids: Sequence[str]) -> list[str]:
    """The query's qrels lines: a document once, with its highest grade; an unresolved unit as one nobody can find."""
    grades: dict[str, str] = {}
    for number, (index, label) in enumerate(zip(found, labels, strict=True)):
        document = ids[index] if index >= 0 else f"unresolved:{number}"
        grades[document] = max(grades.get(document, label.relevance), label.relevance, key=GRADES.__getitem__)
    return sorted(qrels_line(query.query_id, document, relevance) for document, relevance in grades.items())


def _why_empty(revision: RevisionRow | None, ids: Sequence[str]) -> str:
    if revision is None:
        return "no_revision_stated"
    if revision.status not in HAVE:
        return "revision_missing"
    return "no_match" if ids else "empty_corpus"


def _row(
    query: EvalQuery, labels: Sequence[GoldLabel], unit_ranks: list[int], corpus_chunks: int, retrieved: int
) -> dict[str, Any]:
    numbers: dict[Any, int] = {}
    places = [(g.path, g.blob, g.chunk) if g.tier else g.ordinal for g in labels]
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
        "gold_ranks": unit_ranks,
        "gold_documents": [numbers.setdefault(place, len(numbers)) for place in places],
        "gold_kinds": [g.kind for g in labels],
        "gold_chunk_bytes": [g.chunk_bytes for g in labels],
    }


def _measured(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their measures, all queries at once."""
    units = measures.judged([_ranks(row) for row in rows])
    first, last = measures.first_and_last(units)
    columns = {"first_rank": first.tolist(), "last_rank": last.tolist()}
    for name, column in measures.per_query(units).items():
        columns[name] = [None if np.isnan(value) else value for value in column.tolist()]
    return [row | {name: column[i] for name, column in columns.items()} for i, row in enumerate(rows)]


def _ranks(row: dict[str, Any]) -> measures.QueryRanks:
    return measures.QueryRanks(
        row["query_id"],
        row["repo"],
        row["task_id"],
        row["language"],
        tuple(row["gold_ranks"]),
        tuple(relevance == "ESSENTIAL" for relevance in row["gold_relevances"]),
        row["retrieved"],
        tuple(row["gold_documents"]),
    )


def _result(store: Store, outcomes: Sequence[Outcome], image: str, revisions: Sequence[RevisionRow]) -> dict[str, Any]:
    rows = [outcome.row for outcome in outcomes]
    queries = [_ranks(row) for row in rows]
    no_result = Counter(outcome.no_result for outcome in outcomes if outcome.no_result)
    counts = store.counts()
    return {
        "release": release_name(store.meta("release_ref") or ""),
        "release_version": store.meta("release_version"),
        "image": image,
        "queries": sum(bool(query.unit_ranks) for query in queries),
        "queries_without_gold": sum(not query.unit_ranks for query in queries),
        "queries_without_result": no_result.total(),
        "queries_without_result_by_reason": dict(sorted(no_result.items())),
        "tasks": counts["selected_tasks"],
        "release_tasks": counts["tasks"],
        "units": sum(row["gold_units"] for row in rows),
        "unresolved_units": sum(row["unresolved_units"] for row in rows),
        "revisions_missing": sum(r.status not in HAVE for r in revisions),
        "measures": summary(queries)["micro"],
        "intervals": _intervals(queries),
        "pooled": measures.pooled_recall(queries),
        "rollup": _rollup(queries),
        "groups": _groups(rows, queries),
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


def _intervals(queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    """The interval of each micro mean, and everything needed to make it again."""
    values = measures.per_query(queries)
    tasks = [(query.repo, query.task_id) for query in queries]
    data = significance.clustered(np.stack(list(values.values()), axis=1), tasks)
    low, high = significance.interval(significance.bootstrap(data))
    return {
        "level": significance.LEVEL,
        "method": "percentile interval of the cluster bootstrap",
        "by": "task",
        "clusters": len(data.sums),
        "resamples": RESAMPLES,
        "seed": SEED,
        "measures": {name: list(ends) for name, *ends in zip(values, low.tolist(), high.tolist(), strict=True)},
    }


def _groups(rows: Sequence[dict[str, Any]], queries: Sequence[measures.QueryRanks]) -> dict[str, Any]:
    """The means by number of gold units and corpus size (of queries), by relevance, kind and length (of units)."""
    units = measures.judged(queries)
    values = measures.per_query(units)
    with_gold = [measures.bin_of(row["gold_units"], measures.GOLD_COUNTS) if row["gold_units"] else "" for row in rows]
    sizes = [measures.bin_of(row["corpus_chunks"], measures.CORPUS_CHUNKS) for row in rows]
    kinds = [kind or "unresolved" for row in rows for kind in row["gold_kinds"]]
    lengths = [size for row in rows for size in row["gold_chunk_bytes"]]
    bins = [measures.bin_of(size, measures.CHUNK_BYTES) for size in lengths]
    return {
        "gold_units": {label: group for label, group in measures.by_query(values, with_gold).items() if label},
        "corpus_chunks": measures.by_query(values, sizes),
        "relevance": measures.by_unit(units, [word for row in rows for word in row["gold_relevances"]]),
        "kind": measures.by_unit(units, kinds),
        "chunk_bytes": measures.by_unit(
            units, [kind if kind == "unresolved" else size for kind, size in zip(kinds, bins, strict=True)]
        ),
    }


def _versions() -> dict[str, str]:
    grammars = ("tree-sitter-c-sharp", "tree-sitter-language-pack", "tree-sitter-scala")
    packages = ("duckdb", "numpy", "pyarrow", "tree-sitter", *grammars)
    return {"quarry-harness": __version__, "python": platform.python_version()} | {
        package: version(package) for package in packages
    }
