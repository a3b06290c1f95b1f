"""The rerank stage: the best of a run's rankings in the order of a cross-encoder, measured like a run of eval."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.models.cross_encoder import CrossEncoderScorer
from quarry_harness.models.pairs import Pairs, PairScores
from quarry_harness.models.registry import Model
from quarry_harness.retrieve import Ranking, best
from quarry_harness.runs import read_result
from quarry_harness.stages.compare import KeptRun, depth_of, open_run
from quarry_harness.stages.evaluate import finish, gold_labels, identity_of, keep, require_resolved
from quarry_harness.stages.ranking import (
    NO_CORPUS,
    NO_RESULT,
    EvalQuery,
    Listing,
    Ranked,
    is_there,
    repository_documents,
)
from quarry_harness.stages.score import Line, RunFile, check_queries, ranking_of, unknown_documents
from quarry_harness.stages.workspace import digest, embeddings_folder, run_is_whole, run_name, runs_folder
from quarry_harness.store import RevisionRow, Store
from quarry_harness.types import Progress

# What a first stage must have in common with the workspace: else its ids would name other documents, or none.
_SAME = ("release_files", "selection", "resolutions", "chunk_rules", "image", "profile")


class _FirstStage(NamedTuple):
    """The run that is re-ranked, how it writes each query's id, and how many results of a query are re-ranked."""

    run: RunFile
    written: Mapping[str, Sequence[str]]
    top: int


def rerank(
    workspace: Path, first: str, model: Model, top: int, progress: Progress, *, accept_missing: bool = False
) -> dict[str, Any]:
    """Re-ranks the best `top` of every ranking of a run; returns what evaluate returns.

    first: a run id of the workspace or a run folder, as in compare. Raises UsageError for a run that is not there,
    keeps fewer results, or is of another state of the workspace, InvalidInputError for one that cannot be read or has
    changed since it was written, and what the cross-encoder and its scores raise.
    """
    started = time.monotonic()
    kept_run = open_run(workspace, first)
    settings = _settings_of(kept_run)
    if 0 < depth_of(kept_run) < top:
        raise UsageError(
            f"--top {top}: the run {kept_run.run_id} keeps {depth_of(kept_run)} results a query.",
            f"Choose a smaller one, or run: quarry eval --depth {top}",
        )
    image, profile = settings["image"], settings["profile"]
    with Store.open(workspace) as store:
        revisions = require_resolved(store, image, profile, accept_missing=accept_missing)
        run = RunFile(kept_run.folder / "run.trec")
        with closing(PairScores(CrossEncoderScorer(model), embeddings_folder(workspace), progress)) as scores:
            name = f"{model.name} over {kept_run.result.get('model', kept_run.run_id)}, top {top}"
            described = _description(name, top, kept_run, run, scores)
            identity = identity_of(store, described, image, profile, depth_of(kept_run), revisions)
            _check_first_stage(store, workspace, kept_run, identity)
            run_id = run_name(name, image, profile, identity)
            if run_is_whole(store, workspace, run_id):
                folder = runs_folder(workspace) / run_id
                return read_result(folder) | {"folder": str(folder), "done_before": True}
            queries = [EvalQuery(*row) for row in store.selected_queries(image)]
            stage = _FirstStage(run, check_queries(run, store.query_ids()), top)
            labels = gold_labels(store, image, profile)
            for corpus in _rerank(store, stage, scores, queries, revisions, profile, run_id, progress):
                keep(store, run_id, corpus, labels)
        return finish(store, workspace, run_id, name, image, identity, queries, revisions, started)


def _settings_of(run: KeptRun) -> dict[str, Any]:
    settings = run.result.get("settings")
    if not isinstance(settings, dict) or not all(isinstance(settings.get(name), str) for name in ("image", "profile")):
        raise InvalidInputError(f"{run.folder / 'result.json'}: the settings are missing.", "Run quarry eval again.")
    return settings


def _description(name: str, top: int, first: KeptRun, run: RunFile, scores: PairScores) -> dict[str, object]:
    return {
        "name": name,
        "kind": "re-ranking",
        "top": top,
        "first_stage": {
            "run_id": first.run_id,
            "identity": digest(first.result["settings"]),
            "sha256": run.sha256,
        },
        "reranker": scores.describe(),
    }


def _check_first_stage(store: Store, workspace: Path, first: KeptRun, identity: Mapping[str, Any]) -> None:
    """Raises where the run does not fit the workspace as it is now, or is not what was written."""
    differing = [name for name in _SAME if first.result["settings"].get(name) != identity[name]]
    if differing:
        raise UsageError(
            f"The run {first.run_id} was made for another state of the workspace ({', '.join(differing)}).",
            "Run quarry eval again, and re-rank that run.",
        )
    recorded = store.run_files(first.run_id) and first.folder == runs_folder(workspace) / first.run_id
    if recorded and not run_is_whole(store, workspace, first.run_id):
        raise InvalidInputError(f"{first.folder}: the run has changed since it was written.", "Run quarry eval again.")


def _rerank(
    store: Store,
    first: _FirstStage,
    scores: PairScores,
    queries: Sequence[EvalQuery],
    revisions: Sequence[RevisionRow],
    profile: str,
    run_id: str,
    progress: Progress,
) -> Iterator[Ranked]:
    """Yields every corpus with rankings that are not kept yet, a repository at a time, in order.

    Of a repository that an interrupted run has begun, all pairs are asked for again: they are scored already, and what
    is noted of it does not depend on interruptions.
    """
    done = store.ranked_queries(run_id)
    at = {(r.repo, r.sha): r for r in revisions}
    repositories: dict[str, dict[str, list[EvalQuery]]] = defaultdict(lambda: defaultdict(list))
    for query in queries:
        repositories[query.repo][query.revision].append(query)
    for number, (repo, groups) in enumerate(sorted(repositories.items())):
        progress(number, len(repositories), repo)
        asked = [query for group in groups.values() for query in group]
        if all(query.ordinal in done for query in asked):
            continue
        there = {sha: r for sha in sorted(groups) if (r := at.get((repo, sha))) is not None and is_there(r)}
        documents = repository_documents(store, repo, revisions, profile)
        new = _of_repository(store, first, scores, there, groups, documents, run_id, repo)
        for sha, group in sorted(groups.items()):
            waiting = [query for query in group if query.ordinal not in done]
            if waiting:
                listing = Listing.of(store.corpus(there[sha].id)) if sha in there else NO_CORPUS
                rankings = [new.get(query.ordinal, NO_RESULT) for query in waiting]
                yield Ranked(at.get((repo, sha)), waiting, listing, rankings)
    progress(len(repositories), len(repositories), "repositories re-ranked")


def _of_repository(
    store: Store,
    first: _FirstStage,
    scores: PairScores,
    there: Mapping[str, RevisionRow],
    groups: Mapping[str, Sequence[EvalQuery]],
    documents: Sequence[str],
    run_id: str,
    repo: str,
) -> dict[int, Ranking]:
    """Returns query ordinal -> its new ranking, of all queries of a repository; one corpus's listing is held a time."""
    before: dict[int, Ranking] = {}
    texts: list[str] = []
    pools: list[NDArray[np.int64]] = []
    unknown: list[Line] = []
    for sha, revision in there.items():
        corpus = store.corpus(revision.id)
        place = {name: position for position, name in enumerate(Listing.of(corpus).ids)}
        numbers = corpus.column("document").to_numpy()
        for query in groups[sha]:
            before[query.ordinal] = ranking_of(first.run, first.written.get(query.query_id, ()), place, unknown)
            texts.append(query.text)
            pools.append(numbers[before[query.ordinal].positions[: first.top]].astype(np.int64))
    if unknown:
        raise unknown_documents(first.run.file, unknown)
    sizes = [len(pool) for pool in pools]
    pairs = Pairs(np.repeat(np.arange(len(texts)), sizes), np.concatenate([np.empty(0, np.int64), *pools]))
    found, counts = scores.score(texts, documents, pairs)
    store.note_repository(run_id, repo, json.dumps({str(scores.describe()["name"]): counts}))
    parts = np.split(found, np.cumsum(sizes)[:-1]) if sizes else []
    return {ordinal: reranked(ranking, part) for (ordinal, ranking), part in zip(before.items(), parts, strict=True)}


def reranked(first: Ranking, scores: NDArray[np.float32]) -> Ranking:
    """Returns a ranking whose best len(scores) are ordered anew by their scores, the rest behind them as it was.

    scores: of the first's best, in its order. Equal scores fall in corpus order; where all are equal the model has
    ranked nothing, and there is no result. Scores of the rest: each 1 less than the one before it, from the smallest
    score of the re-ranked ones, or the next smaller float32 number where that is less; so they decrease strictly.
    """
    pool, rest = first.positions[: len(scores)], first.positions[len(scores) :]
    in_corpus_order = np.argsort(pool)
    new = best(scores[in_corpus_order], len(pool))
    if not len(new.positions):
        return NO_RESULT
    below = np.empty(len(rest), dtype=np.float32)
    last = np.float32(new.scores[-1])
    for place in range(len(rest)):
        last = min(last - np.float32(1), np.nextafter(last, np.float32(-np.inf)))
        below[place] = last
    positions = np.concatenate([pool[in_corpus_order][new.positions], rest])
    return Ranking(positions, np.concatenate([new.scores, below]))
