"""A run's best results in the order of a cross-encoder: its own scores, each pair once, whatever kills it."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Ended
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.models.embedders import OutOfMemory, open_embedder
from quarry_harness.models.pairs import Pairs, PairScores
from quarry_harness.models.registry import Limits, Options, find
from quarry_harness.retrieve import Ranking
from quarry_harness.stages.ranking import EvalQuery, Listing, repository_documents
from quarry_harness.stages.rerank import rerank, reranked
from quarry_harness.store import Store

Quarry = Callable[..., Ended]
real_model = pytest.mark.models
quiet_libraries = pytest.mark.filterwarnings("ignore")


# -- the new ranking ------------------------------------------------------------------------------------------------


def test_the_best_are_ordered_by_score_then_corpus_order_and_the_rest_follows() -> None:
    first = Ranking(np.array([7, 2, 9, 4, 1]), np.array([5, 4, 3, 2, 1], dtype=np.float32))
    new = reranked(first, np.array([0.5, 0.25, 0.5], dtype=np.float32))
    assert new.positions.tolist() == [7, 9, 2, 4, 1]
    assert new.scores.tolist() == [0.5, 0.5, 0.25, -0.75, -1.75]
    assert reranked(first, np.array([1, 3, 2, 9, 8], dtype=np.float32)).positions.tolist() == [4, 1, 2, 9, 7]


def test_one_score_for_all_is_no_ranking_unless_there_is_but_one() -> None:
    first = Ranking(np.array([3, 1]), np.array([2, 1], dtype=np.float32))
    assert len(reranked(first, np.array([0.5, 0.5], dtype=np.float32)).positions) == 0
    assert reranked(first, np.array([0.5], dtype=np.float32)).positions.tolist() == [3, 1]
    assert len(reranked(Ranking(first.positions[:0], first.scores[:0]), np.empty(0, np.float32)).positions) == 0


@given(
    st.permutations(range(12)),
    st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=12).filter(
        lambda scores: len(scores) == 1 or len(set(scores)) > 1
    ),
)
def test_scores_tell_the_order_to_any_tool_that_reads_float32(order: list[int], scores: list[float]) -> None:
    first = Ranking(np.array(order), np.arange(12, 0, -1, dtype=np.float32))
    new = reranked(first, np.array(scores, dtype=np.float32))
    assert sorted(new.positions.tolist()) == list(range(12))
    assert new.positions[len(scores) :].tolist() == order[len(scores) :]
    best = sorted(range(len(scores)), key=lambda i: (-scores[i], order[i]))
    assert new.positions[: len(scores)].tolist() == [order[i] for i in best]
    assert new.scores.dtype == np.float32
    assert np.isfinite(new.scores).all()
    assert (np.diff(new.scores[: len(scores)]) <= 0).all()
    assert (np.diff(new.scores[len(scores) - 1 :].astype(np.float64)) < 0).all()


# -- each pair once ---------------------------------------------------------------------------------------------------

QUERIES = ["who counts", "where is it"]
DOCUMENTS = [f"src/f{i}.py/f{i}\n" + "word " * (i % 7 + 1) for i in range(30)]
EVERY_PAIR = Pairs(np.repeat([0, 1], 30), np.tile(np.arange(30), 2))


class ToyScorer:
    """A pair's score is made of its texts; tokens are words; what it was given is in `calls`, and in the log."""

    def __init__(self, *, limits: Limits = Limits(texts=4), room: int = 1 << 60, log: Path | None = None) -> None:  # noqa: B008 frozen
        self.limits, self._room, self._log = limits, room, log
        self.calls: list[list[tuple[str, str]]] = []
        self.refused: list[int] = []
        self.bad: dict[str, float] = {}

    def describe(self) -> dict[str, object]:
        return {"name": "toy pairs"}

    def max_tokens(self) -> int:
        return 9

    def special_tokens(self) -> int:
        return 3

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in texts], dtype=np.int64)

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        longest = max(len(f"{query} {document}".split()) + 3 for query, document in pairs)
        if len(pairs) * min(longest, 9) > self._room:
            self.refused.append(len(pairs))
            raise OutOfMemory("too many")
        self.calls.append(list(pairs))
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps(list(pairs)) + "\n")
            time.sleep(0.01)
        return np.array([self.bad.get(d, toy_score(q, d)) for q, d in pairs], dtype=np.float32)


def toy_score(query: str, document: str) -> float:
    return random.Random(f"{query}|{document}").random()  # noqa: S311 a score, not a secret


def nobody(_done: int, _total: int, _words: str) -> None:
    """Hears progress and says nothing."""


def test_each_pair_is_scored_once_the_longest_first_and_kept(tmp_path: Path) -> None:
    scorer = ToyScorer()
    scores = PairScores(scorer, tmp_path, nobody)
    found, counts = scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)
    assert found.tolist() == [np.float32(toy_score(q, d)) for q in QUERIES for d in DOCUMENTS]
    sent = [pair for call in scorer.calls for pair in call]
    assert (len(sent), len(set(sent)), max(map(len, scorer.calls))) == (60, 60, 4)
    lengths = [len(f"{q} {d}".split()) + 3 for q, d in sent]
    assert lengths == sorted(lengths, reverse=True)
    assert counts == {"pairs": 60, "pairs_cut": sum(length > 9 for length in lengths)}
    scores.close()
    again = ToyScorer()
    scores = PairScores(again, tmp_path, nobody)
    # Other texts beside, and in another order: the pair is the same by what its texts are.
    back, _ = scores.score(["new", *QUERIES], DOCUMENTS[::-1], Pairs(np.array([2, 1, 0, 0]), np.array([29, 0, 3, 3])))
    assert back.tolist() == [found[30], found[29], *[np.float32(toy_score("new", DOCUMENTS[26]))] * 2]
    assert again.calls == [[("new", DOCUMENTS[26])]]
    scores.close()


def test_what_does_not_fit_is_halved_and_named_when_it_is_alone(tmp_path: Path) -> None:
    scorer = ToyScorer(limits=Limits(texts=16), room=40)
    scores = PairScores(scorer, tmp_path, nobody)
    found, _ = scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)
    assert scorer.refused == [16, 8]
    assert found.tolist() == [np.float32(toy_score(q, d)) for q in QUERIES for d in DOCUMENTS]
    scores.close()
    scores = PairScores(ToyScorer(room=5), tmp_path / "small", nobody)
    with pytest.raises(EnvironmentProblem, match=r"document 'src/f6.py/f6' for the query 'where is it'.*it is alone"):
        scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)
    scores.close()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e31])
def test_a_score_that_is_none_is_named_and_the_batch_s_others_are_kept(tmp_path: Path, number: float) -> None:
    scorer = ToyScorer(limits=Limits(texts=60))
    scorer.bad = {DOCUMENTS[5]: number}
    scores = PairScores(scorer, tmp_path, nobody)
    with pytest.raises(EnvironmentProblem, match=r"toy pairs: the score of the document 'src/f5.py/f5' for the query"):
        scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)
    scores.close()
    mended = ToyScorer(limits=Limits(texts=60))
    scores = PairScores(mended, tmp_path, nobody)
    scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)
    assert sorted(pair for call in mended.calls for pair in call) == sorted((q, DOCUMENTS[5]) for q in QUERIES)
    scores.close()


def test_an_empty_text_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    scorer = ToyScorer()
    scores = PairScores(scorer, tmp_path, nobody)
    with pytest.raises(InvalidInputError, match="a query is empty"):
        scores.score([" "], DOCUMENTS, Pairs(np.array([0]), np.array([0])))
    assert scorer.calls == []
    scores.close()


WORKER = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from pathlib import Path; from test_rerank import *\n"
    "scores = PairScores(ToyScorer(log=Path(sys.argv[3])), Path(sys.argv[2]), nobody)\n"
    "found, _ = scores.score(QUERIES, DOCUMENTS, EVERY_PAIR)\n"
    "Path(sys.argv[3] + '.scores').write_bytes(found.tobytes())\n"
)


def test_five_kills_at_random_moments_cost_one_batch_each(tmp_path: Path) -> None:
    chance = random.Random(20261130)  # noqa: S311 moments, not secrets
    log = tmp_path / "log"

    def worker(root: Path, log: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORKER, str(Path(__file__).parent), str(root), str(log)])

    def batches() -> list[list[tuple[str, str]]]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [[tuple(pair) for pair in json.loads(line)] for line in lines]

    redone = 0
    for _ in range(5):
        before = len(batches())
        process = worker(tmp_path / "killed", log)
        deadline = time.monotonic() + 60
        while len(batches()) < before + chance.randint(1, 2) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.012)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        redone += len(batches()[-1])
    assert worker(tmp_path / "killed", log).wait() == 0
    assert worker(tmp_path / "whole", tmp_path / "whole log").wait() == 0
    sent = [pair for batch in batches() for pair in batch]
    assert len(set(sent)) == 60
    assert len(sent) <= 60 + redone
    assert Path(f"{log}.scores").read_bytes() == (tmp_path / "whole log.scores").read_bytes()


# -- the command, with a real cross-encoder of random weights -----------------------------------------------------


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT whose classifier gives one number: random weights, the same every time."""
    if find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed: pip install -e '.[test,test-models]'")
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = tmp_path_factory.mktemp("weights") / "tiny-cross-encoder"
    folder.mkdir()
    letters = [chr(code) for code in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=256).save_pretrained(folder)
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=256, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def bm25_run(workspace: Path) -> Path:
    (folder,) = (path for path in (workspace / "runs").iterdir() if path.name.startswith("bm25-preimage"))
    return folder


def rankings(folder: Path) -> dict[str, list[tuple[str, float]]]:
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in (folder / "run.trec").read_text("utf-8").splitlines():
        query, _, document, rank, score, _ = line.split(" ")
        found[query].append((document, float(score)))
        assert int(rank) == len(found[query])
    return found


def texts_of(workspace: Path) -> tuple[dict[str, str], dict[str, dict[str, str]], dict[str, dict[str, int]]]:
    """Query id -> its text; query id -> document id -> its text, and its place in the corpus."""
    queries, documents, places = {}, {}, {}
    with Store.open(workspace, read_only=True) as store:
        revisions = store.revisions("preimage")
        for query in (EvalQuery(*row) for row in store.selected_queries("preimage")):
            whole = repository_documents(store, query.repo, revisions, "quarry")
            (revision,) = (r for r in revisions if (r.repo, r.sha) == (query.repo, query.revision))
            corpus = store.corpus(revision.id)
            ids = Listing.of(corpus).ids
            queries[query.query_id] = query.text
            numbers = corpus.column("document").to_pylist()
            documents[query.query_id] = {name: whole[i] for name, i in zip(ids, numbers, strict=True)}
            places[query.query_id] = {name: place for place, name in enumerate(ids)}
    return queries, documents, places


@real_model
@quiet_libraries
def test_the_ranking_is_sentence_transformers_own(quarry: Quarry, workspace: Path, cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder

    first = bm25_run(workspace)
    done = quarry("rerank", "--run", first.name, "--model", cross_encoder, "--top", 10, "-w", workspace, "--json")
    assert done.code == 0, done.err
    assert done.json["model"] == "tiny-cross-encoder over bm25, top 10"
    before, after = rankings(first), rankings(Path(done.json["folder"]))
    queries, documents, places = texts_of(workspace)
    own = CrossEncoder(str(cross_encoder), device="cpu")
    assert before.keys() == after.keys()
    for query, ranking in before.items():
        pool = [document for document, _ in ranking[:10]]
        scores = own.predict([(queries[query], documents[query][document]) for document in pool])
        new = after[query]
        ours = dict(new)
        np.testing.assert_allclose([ours[document] for document in pool], scores, atol=1e-5)
        assert [d for d, _ in new[:10]] == sorted(pool, key=lambda d: (-ours[d], places[query][d]))
        assert [d for d, _ in new[10:]] == [d for d, _ in ranking[10:]]
        numbers = [score for _, score in new]
        assert all(a > b for a, b in itertools.pairwise(numbers[9:]))
    described = done.json["settings"]["model"]
    assert described["first_stage"]["run_id"] == first.name
    assert described["top"] == 10
    assert described["reranker"]["kind"] == "cross-encoder"
    cut = done.json["texts"]["tiny-cross-encoder"]
    assert 0 < cut["pairs_cut"] <= cut["pairs"] <= 790
    again = quarry("rerank", "--run", first.name, "--model", cross_encoder, "--top", 10, "-w", workspace)
    assert "nothing to do" in again.err
    assert f"the top 10 of {first.name} re-ranked by tiny-cross-encoder" in again.out
    assert f"cut: {cut['pairs_cut']} of {cut['pairs']} pairs" in again.out
    compared = quarry("compare", done.json["run_id"], "--first-stage", first.name, "--pool", 10, "-w", workspace)
    assert compared.code == 0
    assert "oracle" in compared.out
    assert quarry("verify", "-w", workspace).code == 0
    # What was re-ranked can be read as the run of any system, and re-ranked again.
    scored = quarry("score", "--run", Path(done.json["folder"]) / "run.trec", "-w", workspace, "--json")
    assert scored.json["measures"] == done.json["measures"]
    third = rerank(workspace, done.json["run_id"], find(str(cross_encoder)), 5, nobody)
    assert third["settings"]["model"]["first_stage"]["run_id"] == done.json["run_id"]
    assert third["measures"] == done.json["measures"]


@real_model
@quiet_libraries
def test_killed_it_goes_on_and_gives_the_same_bytes(workspace: Path, cross_encoder: Path, tmp_path: Path) -> None:
    shutil.copytree(workspace, tmp_path / "undisturbed")
    (tmp_path / "small.toml").write_text(
        f'name = "tiny"\nkind = "cross-encoder"\nmodel = "{cross_encoder}"\nlimits = {{ texts = 16 }}\n'
    )
    arguments = ["rerank", "--run", bm25_run(workspace).name, "--model", str(tmp_path / "small.toml"), "--top", "8"]
    model = find(str(tmp_path / "small.toml"))
    whole = rerank(tmp_path / "undisturbed", bm25_run(workspace).name, model, 8, nobody)
    command = [sys.executable, "-m", "quarry_harness", *arguments, "-w", str(workspace), "-q"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    size = 0
    while size < 400 and process.poll() is None and time.monotonic() < deadline:
        size = sum(file.stat().st_size for file in (workspace / "embeddings").glob("*/*.vectors"))
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    rows = sum(file.stat().st_size for file in (workspace / "embeddings").glob("*/*.vectors")) // 4
    assert rows >= 100
    done = rerank(workspace, bm25_run(workspace).name, model, 8, nobody)
    for name in ("run.trec", "per_query.parquet", "result.json"):
        one, other = (Path(ended["folder"], name).read_bytes() for ended in (whole, done))
        assert one == other, name
    kept = [
        sum(file.stat().st_size for file in (root / "embeddings").glob("*/*.vectors"))
        for root in (workspace, tmp_path / "undisturbed")
    ]
    assert kept[0] == kept[1]


@real_model
@quiet_libraries
def test_a_nan_ends_it_with_the_document_s_name(workspace: Path, cross_encoder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    shutil.copytree(cross_encoder, broken)
    weights = load_file(broken / "model.safetensors")
    weights["classifier.bias"][:] = float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EnvironmentProblem, match=r"the score of the document '[^']+/[^']+' for the query '.+' is nan"):
        rerank(workspace, bm25_run(workspace).name, find(str(broken)), 50, nobody)


@real_model
@quiet_libraries
def test_a_run_of_another_state_or_a_changed_one_is_refused(workspace: Path, cross_encoder: Path) -> None:
    first = bm25_run(workspace)
    model = find(str(cross_encoder))
    kept = (first / "run.trec").read_bytes()
    (first / "run.trec").write_bytes(kept.partition(b"\n")[2])
    with pytest.raises(InvalidInputError, match="has changed since it was written"):
        rerank(workspace, first.name, model, 10, nobody)
    (first / "run.trec").write_bytes(kept)
    result = json.loads((first / "result.json").read_text())
    result["settings"]["selection"] = "another"
    (first / "result.json").write_text(json.dumps(result))
    with pytest.raises(UsageError, match=r"another state of the workspace \(selection\)"):
        rerank(workspace, first.name, model, 10, nobody)


@real_model
@quiet_libraries
def test_a_model_without_a_scoring_head_is_refused(workspace: Path, cross_encoder: Path, tmp_path: Path) -> None:
    headless = tmp_path / "headless"
    shutil.copytree(cross_encoder, headless)
    config = json.loads((headless / "config.json").read_text())
    (headless / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(UsageError, match="is no cross-encoder"):
        rerank(workspace, bm25_run(workspace).name, find(str(headless), Options(kind="cross-encoder")), 50, nobody)


@real_model
@quiet_libraries
def test_a_classifier_with_several_labels_is_refused(cross_encoder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from quarry_harness.models.cross_encoder import CrossEncoderScorer

    several = tmp_path / "several"
    shutil.copytree(cross_encoder, several)
    torch.manual_seed(5)
    BertForSequenceClassification(BertConfig.from_pretrained(several, num_labels=3)).save_pretrained(several)
    with pytest.raises(EnvironmentProblem, match="gives 3 numbers for a pair"):
        CrossEncoderScorer(find(str(several))).score([("x", "y"), ("x", "z")])


@real_model
@quiet_libraries
def test_precision_and_longest_pair_are_asked_for_and_described(cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder

    from quarry_harness.models.cross_encoder import CrossEncoderScorer

    pairs = [("who counts the words", "src/a.py/count\n" + "def count(words): return len(words)\n" * 3), ("x", "y")]
    own = CrossEncoder(str(cross_encoder), device="cpu", max_length=16)
    said = Options(kind="cross-encoder", max_tokens=16)
    ours = CrossEncoderScorer(find(str(cross_encoder), said))
    np.testing.assert_allclose(ours.score(pairs), own.predict(pairs), atol=1e-5)
    assert ours.max_tokens() == 16
    whole = CrossEncoderScorer(find(str(cross_encoder)))
    assert whole.max_tokens() == 256
    assert abs(whole.score(pairs)[0] - ours.score(pairs)[0]) > 1e-4
    both = whole.count_tokens([*pairs[0]]).sum() + whole.special_tokens()
    tokens = own.tokenizer(*pairs[0], truncation=False)["input_ids"]
    assert both == len(tokens)
    half = CrossEncoderScorer(find(str(cross_encoder), Options(dtype="bf16")))
    assert half.describe()["dtype"] == "bfloat16"
    assert 0 < abs(half.score(pairs) - whole.score(pairs)).max() < 0.1


# -- refusals -------------------------------------------------------------------------------------------------------


def head(folder: Path, **config: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertForSequenceClassification"]} | config))
    return folder


def test_a_folder_that_scores_pairs_is_a_cross_encoder_and_takes_no_eval(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path
) -> None:
    model = head(tmp_path / "ce")
    assert find(str(model)).kind == "cross-encoder"
    saved = head(tmp_path / "saved", architectures=["BertModel"])
    (saved / "modules.json").write_text("[]")
    (saved / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert find(str(saved)).kind == "cross-encoder"
    with pytest.raises(UsageError) as raised:
        open_embedder(find(str(model)))
    assert "quarry rerank" in raised.value.hint
    done = quarry("eval", "--model", model, "-w", demo_workspace)
    assert (done.code, "gives no vectors" in done.err) == (2, True)
    with pytest.raises(UsageError, match="takes no --query-prompt"):
        find(str(model), Options(query_prompt="x"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--run", "nothing", "--model", "ce"], "There is no run 'nothing'"),
        (["--run", "{run}", "--model", "bm25"], "bm25 is lexical, not cross-encoder"),
        (["--run", "{run}", "--model", "no-such-model"], "There is no model 'no-such-model'"),
        (["--run", "{run}", "--model", "ce", "--top", "101"], "keeps 100 results a query"),
        (["--run", "{run}", "--model", "ce", "--top", "0"], "--top"),
        (["--run", "{run}", "--model", "ce", "--dtype", "int3"], "no dtype"),
        (["--run", "{run}"], "--model"),
    ],
)
def test_what_cannot_be_is_usage(
    quarry: Quarry, demo_workspace: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    head(tmp_path / "ce")
    said = [word.format(run=bm25_run(demo_workspace).name) for word in arguments]
    done = quarry("rerank", *said, "-w", demo_workspace, cwd=tmp_path)
    assert done.code == 2, done.err
    assert words in done.err


def test_without_the_package_it_says_what_to_install(quarry: Quarry, demo_workspace: Path, tmp_path: Path) -> None:
    hidden = "import importlib.util as u, sys; real = u.find_spec\n"
    hidden += (
        "u.find_spec = lambda name, *rest: None if name in ('torch', 'sentence_transformers') else real(name, *rest)\n"
    )
    script = hidden + "from quarry_harness.cli import main; main()"
    arguments = ["rerank", "--run", bm25_run(demo_workspace).name, "--model", str(head(tmp_path / "ce"))]
    command = [sys.executable, "-c", script, *arguments, "-w", str(demo_workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 4, done.stderr
    assert "pip install 'quarry-harness[models]'" in done.stderr
