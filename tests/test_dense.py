"""Dense retrieval from texts to run files, with vectors of a hashed bag of words: no weights, and some recall."""

import json
import os
import re
import shutil
import tracemalloc
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Ended
from toy_embedder import ToyEmbedder, toy_vector

from quarry_harness.models import Choice
from quarry_harness.models.dense import Dense
from quarry_harness.models.registry import Limits
from quarry_harness.retrieve import Corpus
from quarry_harness.stages.evaluate import evaluate
from quarry_harness.stages.ranking import EvalQuery, rank_corpora, repository_documents
from quarry_harness.store import Store

Quarry = Callable[..., Ended]


def nothing(_done: int, _total: int, _words: str) -> None:
    pass


def corpora_of(*rows: tuple[list[int], list[int]]) -> list[Corpus]:
    return [Corpus(np.array(documents, dtype=np.int64), tuple(queries)) for documents, queries in rows]


def test_rankings_are_those_of_the_cosines_and_nothing_is_embedded_twice(tmp_path: Path) -> None:
    embedder = ToyEmbedder(limits=Limits(texts=3))
    model = Dense(embedder, tmp_path, nothing)
    queries, documents = ["q one", "q two"], [f"document {i % 7}" for i in range(12)]
    corpora = corpora_of((list(range(12)), [0, 1]), ([11, 3, 5], [1]), ([], [0]))
    found = list(model.rank(queries, documents, corpora, 10))
    for corpus, rankings in zip(corpora, found, strict=True):
        for query, ranking in zip(corpus.queries, rankings, strict=True):
            of_query = toy_vector(f"Q: {queries[query]}", 8).astype(float)
            scores = [of_query @ toy_vector(documents[d], 8).astype(float) for d in corpus.documents]
            # Documents of the same text, in corpus order.
            assert ranking.positions.tolist() == sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:10]
            assert ranking.scores == pytest.approx([scores[p] for p in ranking.positions], abs=1e-7)
    assert sum(map(len, embedder.calls)) == 2 + 7
    model.close()
    again = ToyEmbedder()
    model = Dense(again, tmp_path, nothing)
    second = list(model.rank(queries, documents, corpora, 10))
    assert [[r.scores.tobytes() for r in rankings] for rankings in second] == [
        [r.scores.tobytes() for r in rankings] for rankings in found
    ]
    assert again.calls == []
    model.close()


@pytest.mark.parametrize("stored", ["float32", "float16"])
def test_vectors_of_any_length_are_ranked_by_their_dot_product(tmp_path: Path, stored: str) -> None:
    def long(text: str, dimension: int) -> np.ndarray:
        return toy_vector(text, dimension) * (1 + zlib.crc32(text.encode()) % 50)

    model = Dense(ToyEmbedder(similarity="dot", vector=long), tmp_path, nothing, dtype=stored)
    documents = [f"document {i}" for i in range(40)]
    ((ranking,),) = model.rank(["q"], documents, corpora_of((list(range(40)), [0])), 40)
    kept = np.stack([long(text, 8) for text in ["Q: q", *documents]]).astype(stored).astype(float)
    scores = kept[1:] @ kept[0]
    assert ranking.positions.tolist() == np.argsort(-scores, kind="stable").tolist()
    assert ranking.scores == pytest.approx(scores[ranking.positions], rel=1e-6)
    model.close()


def test_what_was_cut_is_counted_also_when_nothing_is_embedded(tmp_path: Path) -> None:
    queries, documents = ["a b c d", "a"], ["one two three four five", "one", "one", "one two three four"]
    for _ in range(2):
        model = Dense(ToyEmbedder(max_tokens=4), tmp_path, nothing)
        list(model.rank(queries, documents, corpora_of(([0, 1, 2, 3], [0])), 2))
        # "Q: a b c d" has five words.
        assert model.count_cut(queries, documents) == {
            "toy": {"queries": 2, "queries_cut": 1, "documents": 3, "documents_cut": 1}
        }
        model.close()


def test_a_plan_counts_a_text_of_two_repositories_once(tmp_path: Path) -> None:
    model = Dense(ToyEmbedder(), tmp_path, nothing)
    seen: dict[str, set[bytes]] = {}
    first = model.plan(["q"], ["a b", "c"], seen)["toy"]
    second = model.plan(["q", "r"], ["c", "d"], seen)["toy"]
    assert (first.texts, first.tokens, first.longest_tokens, first.cut) == (3, 5, 2, 0)
    assert (second.texts, second.tokens) == (2, 3)
    model.close()


def test_a_search_through_the_store_holds_no_more_than_its_budget(tmp_path: Path) -> None:
    count, dimension = 6000, 256
    rows = np.random.default_rng(1).standard_normal((count, dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    documents = [f"document {i}" for i in range(count)]
    number = {text: i for i, text in enumerate(documents)}
    embedder = ToyEmbedder(
        dimension, limits=Limits(texts=500), prompt="", vector=lambda text, _: rows[number.get(text, 0)]
    )
    budget = 1_000_000  # the vectors are 6 MB
    model = Dense(embedder, tmp_path, nothing, dtype="float16", budget_bytes=budget)
    queries = [f"q {i}" for i in range(100)]
    corpora = corpora_of(*((list(range(i, count, 2)), list(range(50 * i, 50 * i + 50))) for i in (0, 1)))
    list(model.rank(queries, documents, corpora, 10))
    tracemalloc.start()
    try:
        held = []
        for rankings in model.rank(queries, documents, corpora, 10):
            held.append(tracemalloc.get_traced_memory()[1])
            assert len(rankings) == 50
    finally:
        tracemalloc.stop()
    # Keys of the texts, and the store's index of them, are some 300 bytes a document.
    assert max(held) < budget + 300 * count + 500_000
    model.close()


# -- through the stages -----------------------------------------------------------------------------------------------


def words_vector(text: str, dimension: int = 64) -> np.ndarray:
    vector = np.zeros(dimension, dtype=np.float32)
    for word in re.findall(r"[a-z]+", text.lower()):
        vector[zlib.crc32(word.encode()) % dimension] += 1
    return vector


@pytest.fixture(scope="session")
def texts(demo_workspace: Path) -> list[str]:
    """Every query and document of the demo's preimage."""
    with Store.open(demo_workspace, read_only=True) as store:
        revisions = store.revisions("preimage")
        found = [EvalQuery(*row).text for row in store.selected_queries("preimage")]
        for repo in sorted({r.repo for r in revisions}):
            found += repository_documents(store, repo, revisions, "quarry")
    return found


@pytest.fixture(scope="session")
def vectors_file(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "bag.parquet"
    distinct = sorted(set(texts))
    pq.write_table(pa.table({"text": distinct, "vector": [words_vector(text).tolist() for text in distinct]}), file)
    return file


@pytest.fixture(scope="session")
def searched(demo_workspace: Path, vectors_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo workspace after an evaluation with those vectors; not to be changed."""
    copy = tmp_path_factory.mktemp("searched") / "workspace"
    shutil.copytree(demo_workspace, copy)
    evaluate(copy, Choice(str(vectors_file)), "preimage", "quarry", 100, nothing)
    return copy


def run_of(workspace: Path, start: str) -> Path:
    (folder,) = (path for path in (workspace / "runs").iterdir() if path.name.startswith(start))
    return folder


def rankings_of(folder: Path) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in (folder / "run.trec").read_text("utf-8").splitlines():
        query, _, document, _, score, _ = line.split()
        found[query].append((document, float(score)))
    return found


def test_an_evaluation_ranks_every_corpus_by_the_cosines(searched: Path, texts: list[str]) -> None:
    found = rankings_of(run_of(searched, "bag.parquet-"))
    assert len(found) == 79
    with Store.open(searched, read_only=True) as store:
        revisions = store.revisions("preimage")
        for row in store.selected_queries("preimage")[::9]:
            query = EvalQuery(*row)
            repo = [r for r in revisions if r.repo == query.repo]
            documents = repository_documents(store, query.repo, repo, "quarry")
            (revision,) = (r for r in repo if r.sha == query.revision)
            corpus = store.corpus(revision.id).to_pylist()
            asked = words_vector(query.text)
            scores = []
            for chunk in corpus:
                vector = words_vector(documents[chunk["document"]])
                scores.append(asked @ vector / np.linalg.norm(asked) / np.linalg.norm(vector))
            best = sorted(range(len(scores)), key=lambda i: (-np.float32(scores[i]), i))[:100]
            ranked = found[query.query_id]
            assert [score for _, score in ranked] == pytest.approx([scores[i] for i in best], abs=1e-6)
            # Where the cosines lie apart, so are the documents.
            expected = [f"{corpus[i]['path']}:{corpus[i]['name']}:{corpus[i]['start_line']}" for i in best]
            for place in range(1, len(best) - 1):
                if (
                    min(scores[best[place - 1]] - scores[best[place]], scores[best[place]] - scores[best[place + 1]])
                    > 1e-6
                ):
                    assert ranked[place][0].startswith(expected[place])


def test_an_evaluation_is_not_done_again_and_names_all_that_was_set(
    quarry: Quarry, searched: Path, vectors_file: Path
) -> None:
    done = quarry("eval", "--model", vectors_file, "-w", searched)
    assert (done.code, "nothing to do" in done.err) == (0, True)
    assert "bag.parquet: cosine of 64 dimensions kept as float32, revision sha256:" in done.out
    assert "longer than bag.parquet takes, and cut: 0 of " in done.out
    document = quarry("eval", "--model", vectors_file, "-w", searched, "--json").json
    assert document["texts"]["bag.parquet"]["queries"] == 79
    assert document["settings"]["model"]["stored_as"] == "float32"


def test_a_dry_run_counts_what_is_left_to_embed(
    quarry: Quarry, demo_workspace: Path, searched: Path, vectors_file: Path, texts: list[str], tmp_path: Path
) -> None:
    shutil.copytree(demo_workspace, tmp_path / "w")
    document = quarry("eval", "--model", vectors_file, "--dry-run", "-w", tmp_path / "w", "--json").json
    (row,) = document["models"]
    assert (row["model"], row["texts"], row["cut"], row["cost_usd"]) == ("bag.parquet", len(set(texts)), 0, None)
    assert row["tokens"] == sum(-(-len(text.encode()) // 3) for text in set(texts))
    after = quarry("eval", "--model", vectors_file, "--dry-run", "-w", searched)
    assert after.out.startswith("bag.parquet: 0 texts to embed, 0 tokens")
    assert quarry("eval", "--dry-run", "-w", searched).out == "nothing to embed: the model reads words\n"


def test_an_interrupted_evaluation_ends_with_the_same_bytes(
    demo_workspace: Path, searched: Path, vectors_file: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_workspace, tmp_path / "w")
    told = 0

    def stop_after(done: int) -> Callable[[int, int, str], None]:
        def progress(now: int, _total: int, words: str) -> None:
            nonlocal told
            told += "@" in words
            if now == done and "@" in words:
                raise KeyboardInterrupt

        return progress

    arguments = (Choice(str(vectors_file)), "preimage", "quarry", 100)
    for done in (1, 4, 7):
        with pytest.raises(KeyboardInterrupt):
            evaluate(tmp_path / "w", *arguments, stop_after(done))
    evaluate(tmp_path / "w", *arguments, stop_after(-1))
    assert told == 16 + 3
    whole, again = run_of(searched, "bag.parquet-"), run_of(tmp_path / "w", "bag.parquet-")
    for name in ("run.trec", "qrels.trec", "per_query.parquet", "result.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes(), name


def test_float16_is_another_run_whose_scores_are_almost_the_same(
    quarry: Quarry, searched: Path, vectors_file: Path, tmp_path: Path
) -> None:
    shutil.copytree(searched, tmp_path / "w")
    done = quarry("eval", "--model", vectors_file, "--stored-as", "float16", "-w", tmp_path / "w", "--json")
    assert done.json["done_before"] is False
    ours, theirs = rankings_of(Path(done.json["folder"])), rankings_of(run_of(searched, "bag.parquet-"))
    for query, ranking in theirs.items():
        assert [s for _, s in ours[query]] == pytest.approx([s for _, s in ranking], abs=1e-3)


def test_damaged_vectors_are_found_and_made_again(
    quarry: Quarry, searched: Path, vectors_file: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(searched, workspace)
    (file,) = (workspace / "embeddings").glob("*/*.vectors")
    with file.open("r+b") as stream:
        stream.seek(-3, os.SEEK_END)
        stream.write(b"\x7f")
    done = quarry("verify", "-w", workspace, "--json")
    assert done.code == 1
    assert [check["name"].split()[0] for check in done.json["checks"] if check["ok"] is False] == ["vectors"]
    folder = run_of(workspace, "bag.parquet-")
    before = (folder / "run.trec").read_bytes()
    (folder / "run.trec").unlink()
    assert quarry("eval", "--model", vectors_file, "-w", workspace).code == 0
    assert (folder / "run.trec").read_bytes() == before
    assert quarry("verify", "-w", workspace).code == 0


def test_a_text_without_a_vector_ends_the_run_and_names_the_text(
    quarry: Quarry, demo_workspace: Path, vectors_file: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_workspace, tmp_path / "w")
    table = pq.read_table(vectors_file)
    pq.write_table(table.slice(1), tmp_path / "less.parquet")
    done = quarry("eval", "--model", tmp_path / "less.parquet", "-w", tmp_path / "w")
    assert done.code == 3
    assert table.column("text")[0].as_py().split("\n")[0][:40] in done.err


def test_a_price_that_nobody_knows_cannot_be_kept_to(quarry: Quarry, searched: Path, vectors_file: Path) -> None:
    done = quarry("eval", "--model", vectors_file, "--max-cost", 1, "-w", searched)
    assert (done.code, "no price is known" in done.err) == (2, True)
    assert json.dumps(done.out) == '""'


def test_the_longest_documents_of_all_repositories_are_embedded_before_anything_else(demo_workspace: Path) -> None:
    class EnoughError(Exception):
        pass

    class Listener(ToyEmbedder):
        def begin_with(self, documents: list[str]) -> None:
            raise EnoughError(documents)

    with Store.open(demo_workspace, read_only=True) as store:
        revisions = store.revisions("preimage")
        queries = [EvalQuery(*row) for row in store.selected_queries("preimage")]
        repos = sorted({r.repo for r in revisions})
        everything = {text for repo in repos for text in repository_documents(store, repo, revisions, "quarry")}
        with pytest.raises(EnoughError) as raised:
            list(rank_corpora(store, Listener(), queries, set(), revisions, "quarry", 50, nothing, "run"))
    (first,) = raised.value.args
    assert 40 < len(first) == len(set(first)) <= 64
    # Each is a document as it is ranked later, so none is embedded in vain.
    assert set(first) <= everything
    # Without the line of the path; a method's class line stands in the source's.
    sources = sorted((len(text.partition("\n")[2]) for text in everything), reverse=True)
    assert len(first[0].partition("\n")[2]) == sources[0]
    assert min(len(text.partition("\n")[2]) for text in first) >= sources[100]
