"""The eval stage: a model's ranking of every query's corpus, its measures, and the run folder that keeps them."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quarry_harness import __version__, documents, measures, models, retrieve, runs, significance
from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.retrieve import Ranking
from quarry_harness.runs import GRADES, per_query_table, qrels_line, read_result, trec_line, write_run
from quarry_harness.stages.ranking import EvalQuery, Listing, Ranked, count_missing, rank_corpora
from quarry_harness.stages.texts import write_texts
from quarry_harness.stages.workspace import (
    HAVE,
    chunk_rules,
    command_line,
    digest,
    embeddings_folder,
    release_name,
    require_chunked,
    resolution_state,
    run_is_whole,
    run_name,
    runs_folder,
    source_state,
)
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import RESAMPLES, SEED, Progress

# Part of every run's identity: raise when the same settings would give other bytes.
RUN_FORMAT = "1"


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


Labels = Mapping[int, Sequence[GoldLabel]]
# Outcomes read from the store together; one is some 20 kB.
QUERIES_AT_A_TIME = 500


def evaluate(
    workspace: Path,
    choice: models.Choice,
    image: str,
    profile: str,
    depth: int,
    progress: Progress,
    *,
    accept_missing: bool = False,
) -> dict[str, Any]:
    """Runs one model over the selection; returns the document of result.json, with run_id, folder and done_before.

    depth: how many results a query keeps, at least the largest cutoff. Raises UsageError where the gold is not
    resolved for the present state of the workspace, and what models.load and the model's ranking raise.
    """
    started = time.monotonic()
    name = models.name_of(choice)
    with Store.open(workspace) as store:
        revisions = require_resolved(store, image, profile, accept_missing=accept_missing)
        with closing(models.load(choice, embeddings_folder(workspace), progress)) as model:
            identity = identity_of(store, model.describe(), image, profile, depth, revisions)
            run_id = run_name(name, image, profile, identity)
            if run_is_whole(store, workspace, run_id):
                folder = runs_folder(workspace) / run_id
                return read_result(folder) | {"folder": str(folder), "done_before": True}
            queries = [EvalQuery(*row) for row in store.selected_queries(image)]
            labels = gold_labels(store, image, profile)
            kept = store.ranked_queries(run_id)
            for corpus in rank_corpora(store, model, queries, kept, revisions, profile, depth, progress, run_id):
                keep(store, run_id, corpus, labels)
        return finish(store, workspace, run_id, name, image, identity, queries, revisions, started)


def dry_run(
    workspace: Path,
    choice: models.Choice,
    image: str,
    profile: str,
    progress: Progress,
    *,
    accept_missing: bool = False,
    texts: Path | None = None,
) -> dict[str, Any]:
    """Returns what evaluate would have to embed, as ranking.count_missing gives it. Raises what evaluate raises.

    texts: a file for the texts themselves; `texts` of what is returned is then what write_texts returns.
    """
    with Store.open(workspace) as store:
        revisions = require_resolved(store, image, profile, accept_missing=accept_missing)
        queries = [EvalQuery(*row) for row in store.selected_queries(image)]
        with closing(models.load(choice, embeddings_folder(workspace), progress)) as model:
            plan = count_missing(store, model, choice, queries, revisions, profile, progress)
        if texts is not None:
            plan["texts"] = write_texts(store, texts, queries, revisions, profile, progress)
        return plan


def require_resolved(store: Store, image: str, profile: str, *, accept_missing: bool) -> list[RevisionRow]:
    """Returns the revisions of the selection, chunked, with the gold resolved for them; UsageError where it is not."""
    revisions = require_chunked(store, image, accept_missing=accept_missing)
    if store.meta(f"resolved:{image}:{profile}") != resolution_state(store, image, profile, revisions):
        raise UsageError(
            f"The gold units of {image} are not resolved in profile {profile} for what the workspace now holds.",
            f"First run: {command_line('canonicalize', store.path.parent, image, profile)}",
        )
    return revisions


def finish(
    store: Store,
    workspace: Path,
    run_id: str,
    name: str,
    image: str,
    identity: dict[str, Any],
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    started: float,
) -> dict[str, Any]:
    """Writes the run folder of what is kept, and records it; returns the document of result.json and the folder."""
    # The lists of lines are read again from the store as they are written.
    outcomes = [replace(outcome, run=[], qrels=[]) for outcome in _kept(store, run_id, queries)]
    result: dict[str, Any] = {"run_id": run_id, "model": name, "profile": identity["profile"]}
    result |= {"filters": json.loads(store.meta("selection") or "{}").get("filters", {})}
    result |= _result(store, outcomes, image, revisions)
    shared = sum(
        len(numbers) - len(set(numbers)) for outcome in outcomes for numbers in [outcome.row["gold_documents"]]
    )
    result |= {"units_sharing_a_chunk": shared}
    if cut := _cut(store, run_id):
        result["texts"] = cut
    result |= {"settings": identity, "versions": _versions()}
    folder = runs_folder(workspace) / run_id
    files = write_run(
        folder,
        (line for outcome in _kept(store, run_id, queries) for line in outcome.run),
        (line for outcome in _kept(store, run_id, queries) for line in outcome.qrels),
        per_query_table(_measured([outcome.row for outcome in outcomes]), measures.names()),
        result,
        {"seconds": round(time.monotonic() - started, 3), "machine": platform.machine()},
    )
    store.record_run(run_id, name, image, digest(identity), files)
    return result | {"folder": str(folder), "done_before": False}


def _cut(store: Store, run_id: str) -> dict[str, dict[str, int]]:
    """Returns by embedding model how many texts of all repositories it did not see whole."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for document in store.repository_notes(run_id):
        for name, counts in json.loads(document).items():
            totals[name].update(counts)
    return {name: dict(counts) for name, counts in sorted(totals.items())}


def gold_labels(store: Store, image: str, profile: str) -> Labels:
    """Returns query ordinal -> its gold units with their resolutions; empty for a query without any."""
    gold: dict[int, list[GoldLabel]] = defaultdict(list)
    for row in store.resolutions(image, profile):
        gold[row[0]].append(GoldLabel(*row))
    return gold


def identity_of(
    store: Store,
    model: dict[str, object],
    image: str,
    profile: str,
    depth: int,
    revisions: Sequence[RevisionRow],
) -> dict[str, Any]:
    """Returns everything that could change a byte of the run file. model: its description; depth 0: no limit."""
    return {
        "run_format": RUN_FORMAT,
        "code": source_state(documents, measures, retrieve, runs, significance),
        "release": [release_name(store.meta("release_ref") or ""), store.meta("release_version")],
        "release_files": store.release_files(),
        "selection": digest(store.selected_tasks()),
        "resolutions": resolution_state(store, image, profile, revisions),
        "chunk_rules": digest(chunk_rules()),
        "image": image,
        "profile": profile,
        "depth": depth,
        "model": model,
    }


def keep(store: Store, run_id: str, corpus: Ranked, labels: Labels) -> None:
    """Keeps the outcomes of a corpus's queries: durable on return."""
    outcomes = {
        query.ordinal: _outcome(query, corpus.revision, labels[query.ordinal], corpus.listing, ranking, run_id)
        for query, ranking in zip(corpus.queries, corpus.rankings, strict=True)
    }
    store.keep_outcomes(run_id, {query: json.dumps(asdict(outcome)) for query, outcome in outcomes.items()})


def _outcome(
    query: EvalQuery,
    revision: RevisionRow | None,
    labels: Sequence[GoldLabel],
    listing: Listing,
    ranking: Ranking,
    tag: str,
) -> Outcome:
    """Returns what a ranking of a query's corpus is worth."""
    rank_of = {position: rank for rank, position in enumerate(ranking.positions.tolist(), start=1)}
    try:
        found = [listing.position[g.path, g.blob, g.chunk] if g.tier else -1 for g in labels]
    except KeyError as error:
        raise InvalidInputError(
            f"{query.query_id}: the chunk that a gold unit was resolved to is not in the database any more: {error}.",
            "quarry verify tells what is wrong with it; delete it, and quarry run --release REF makes it anew.",
        ) from error
    ids = listing.ids
    lines = (
        trec_line(query.query_id, ids[position], rank, score, tag)
        for (position, rank), score in zip(rank_of.items(), ranking.scores, strict=True)
    )
    return Outcome(
        list(lines),
        _qrels(query, found, labels, ids),
        _row(query, labels, [rank_of.get(position, 0) for position in found], len(ids), len(rank_of)),
        "" if rank_of or not labels else _why_empty(revision, ids),
    )


def _kept(store: Store, run_id: str, queries: Sequence[EvalQuery]) -> Iterator[Outcome]:
    """Yields the outcomes of these queries, in order, without holding them all."""
    for start in range(0, len(queries), QUERIES_AT_A_TIME):
        ordinals = [query.ordinal for query in queries[start : start + QUERIES_AT_A_TIME]]
        yield from (Outcome(**json.loads(document)) for document in store.outcomes(run_id, ordinals))


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
