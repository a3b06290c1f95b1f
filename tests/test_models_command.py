"""`quarry models`: the registry as a table, in full for some names, and as JSON; nothing heavy is loaded for it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from conftest import Ended

Quarry = Callable[..., Ended]


def test_the_table_has_a_line_for_every_model(quarry: Quarry) -> None:
    done = quarry("models", env={"VOYAGE_API_KEY": "", "OPENAI_API_KEY": "x"})
    assert (done.code, done.err) == (0, "")
    lines = {line.split("  ")[0].rstrip(): line for line in done.out.splitlines()}
    assert "lexical" in lines["bm25"]
    assert lines["bm25"].endswith("yes")
    assert lines["voyage-code-3"].endswith("no: set VOYAGE_API_KEY")
    assert lines["text-embedding-3-large"].endswith("yes")
    assert "[models]" in lines["Muninn"]
    assert "query + document" in lines["Muninn"]


def test_json_carries_prompts_sources_and_what_is_not_verified(quarry: Quarry) -> None:
    rows = {row["name"]: row for row in quarry("models", "--json").json}
    assert len(rows) >= 20
    assert rows["SweRank-Small"]["query_prompt"] == "Represent this query for searching relevant code: "
    assert rows["SweRank-Small"]["unverified"]
    assert rows["voyage-4"]["price_usd"] == 0.06
    assert rows["voyage-4"]["limits"]["texts"] == 1000
    assert rows["Muninn"]["sources"]["query_prompt"] == "copy"


def test_details_show_the_exact_prompt_and_the_doubts(quarry: Quarry) -> None:
    out = quarry("models", "swerank-large").out
    assert r"to fix the issue.\nQuery: '" in out
    assert "not verified              dimension" in out
    assert "similarity                dot" in out


def test_a_user_s_own_model_is_shown_too(quarry: Quarry, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'kind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\ndimension = 3\n'
    )
    (row,) = quarry("models", "mine.toml", "--json", cwd=tmp_path).json
    assert (row["name"], row["kind"], row["ready"]) == ("mine", "openai", True)
    assert quarry("models", "no-such-model").code == 2
    (tmp_path / "mine.toml").write_text("kind = 3")
    assert quarry("models", "mine.toml", cwd=tmp_path).code == 3


def test_a_key_is_never_shown(quarry: Quarry) -> None:
    done = quarry("models", "--json", env={"VOYAGE_API_KEY": "sk-secret-value"})
    assert "sk-secret-value" not in done.out + done.err


def test_readiness_is_told_without_loading_a_heavy_package() -> None:
    script = (
        "import sys, quarry_harness.cli as c; sys.argv = ['quarry', 'models', '--json']\n"
        "try: c.main()\n"
        "except SystemExit: print(sorted({m.split('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)
    for package in ("torch", "transformers", "sentence_transformers", "model2vec", "huggingface_hub", "duckdb"):
        assert f"'{package}'" not in done.stderr


def test_a_name_that_could_drive_a_terminal_is_shown_without_its_signs(quarry: Quarry, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "a\\u001b[31mb"\nmodel = "a\\u001b[31mb"\nkind = "openai"\n')
    done = quarry("models", file)
    assert (done.code, "\x1b" in done.out, "a\ufffd[31mb" in done.out) == (0, False, True)
    done = quarry("models", file, tmp_path / "no\x1bthing.toml")
    assert (done.code, "\x1b" in done.err, "no\ufffdthing.toml" in done.err) == (2, False, True)
