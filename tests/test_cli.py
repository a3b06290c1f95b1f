"""The command line itself: help, speed of start, output channels, looking at chunks."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import Ended

from quarry_harness.cli import cli

Quarry = Callable[..., Ended]


@pytest.mark.parametrize("command", [[], *([name] for name in cli.commands)])
def test_every_command_has_help(quarry: Quarry, command: list[str]) -> None:
    done = quarry(*command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage:")
    assert done.err == ""
    for parameter in cli.commands[command[0]].params if command else []:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{command} {parameter.name} has no help"


def test_every_command_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    for name in cli.commands:
        assert f"quarry {name}" in readme


def test_help_loads_no_heavy_package() -> None:
    script = "import sys, quarry_harness.cli; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for package in ("duckdb", "numpy", "pyarrow", "tree_sitter", "torch", "rich", "git", "bm25s", "huggingface_hub"):
        assert f"'{package}'" not in loaded


def test_usage_errors_end_with_2(quarry: Quarry) -> None:
    assert quarry("frobnicate").code == 2
    assert quarry("eval", "--depth", "10").code == 2
    assert quarry("chunks").code == 2


def test_quiet_says_nothing_and_json_is_one_document(quarry: Quarry, demo_workspace: Path) -> None:
    done = quarry("run", "-w", demo_workspace, "--quiet", "--json")
    assert done.err == ""
    assert set(done.json) == {"fetch", "chunk", "canonicalize", "eval"}


def test_results_alone_are_on_standard_output(quarry: Quarry, demo_workspace: Path) -> None:
    done = quarry("eval", "-w", demo_workspace)
    assert done.out.startswith("bm25 on demo")
    assert "NOT comparable" in done.out
    assert "nothing to do" in done.err


def test_the_workspace_can_come_from_the_environment(quarry: Quarry, demo_workspace: Path) -> None:
    assert quarry("status", env={"QUARRY_WORKSPACE": str(demo_workspace)}).code == 0


def test_a_reader_that_has_had_enough_is_no_error(demo_workspace: Path) -> None:
    command = f"{sys.executable} -m quarry_harness eval -q -w {demo_workspace} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fault_of_ours_shows_its_traceback_and_ends_with_70(quarry: Quarry, workspace: Path) -> None:
    (workspace / "quarry.duckdb").unlink()
    script = (
        "import quarry_harness.stages.check as c, quarry_harness.cli as cli, sys;"
        "c.status = lambda workspace: 1 / 0; sys.argv = ['quarry', 'status']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "ZeroDivisionError" in done.stderr
    assert "please report it" in done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.py").write_text(
        "class A:\n    @property\n    def p(self): ...\n    def m(self):\n        pass\n"
    )
    (root / "b.go").write_text("package b\n\nfunc F() {\n}\n")
    (root / "notes.md").write_text("# def no(): pass\n")
    (root / "c.py").write_bytes(bytes(range(1, 32)) * 10)
    (root / ".git").mkdir()
    (root / ".git" / "x.py").write_text("def hidden(): pass\n")
    (root / "link.py").symlink_to(root / "sub" / "a.py")
    return root


def test_chunks_of_a_folder_are_json_lines_with_relative_paths(quarry: Quarry, folder: Path) -> None:
    done = quarry("chunks", folder)
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {
            "path": "b.go",
            "language": "go",
            "name": "F",
            "kind": "function",
            "container": "",
            "start_line": 3,
            "end_line": 4,
        },
        {
            "path": "sub/a.py",
            "language": "python",
            "name": "m",
            "kind": "method",
            "container": "A",
            "start_line": 4,
            "end_line": 5,
        },
    ]
    assert done.err == "c.py: skipped: binary\n"
    assert done.code == 0


def test_chunks_with_profile_all_are_the_superset(quarry: Quarry, folder: Path) -> None:
    rows = [json.loads(line) for line in quarry("chunks", folder, "--profile", "all").out.splitlines()]
    assert [(row["name"], row["kind"]) for row in rows if row["path"] == "sub/a.py"] == [
        ("p", "property"),
        ("m", "method"),
    ]


def test_chunks_of_a_file_keep_the_name_given_and_a_missing_path_is_told(quarry: Quarry, folder: Path) -> None:
    done = quarry("chunks", "no/such", "sub/a.py", cwd=folder)
    assert [json.loads(line)["path"] for line in done.out.splitlines()] == ["sub/a.py"]
    assert "no/such: No such file or directory" in done.err
    assert done.code == 3


def test_chunks_as_one_json_document_are_the_same_chunks(quarry: Quarry, folder: Path) -> None:
    lines = [json.loads(line) for line in quarry("chunks", folder).out.splitlines()]
    assert quarry("chunks", folder, "--json").json == lines != []
