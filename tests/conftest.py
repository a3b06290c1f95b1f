"""What several test files share: the command as a user runs it, and a finished demo workspace."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from quarry_harness.demo import release_folder

# The same examples in every run, however slow the machine is.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run_quarry(*arguments: object, env: dict[str, str] | None = None, cwd: Path | None = None) -> Ended:
    """Runs the command line in a process of its own."""
    command = [sys.executable, "-m", "quarry_harness", *map(str, arguments)]
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith("QUARRY_")} | (env or {})
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings, cwd=cwd, timeout=120, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def quarry() -> Callable[..., Ended]:
    return run_quarry


@pytest.fixture(scope="session")
def demo_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace after `quarry run --release demo`; not to be changed."""
    workspace = tmp_path_factory.mktemp("demo") / "workspace"
    done = run_quarry("run", "--release", "demo", "-w", workspace, "--jobs", 1)
    assert done.code == 0, done.err
    return workspace


@pytest.fixture
def workspace(demo_workspace: Path, tmp_path: Path) -> Path:
    """A copy of the finished demo workspace, to be changed."""
    copy = tmp_path / "workspace"
    shutil.copytree(demo_workspace, copy)
    return copy


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A copy of the demo release without its manifest, to be changed."""
    copy = tmp_path / "release"
    shutil.copytree(release_folder(), copy)
    (copy / "RELEASE_MANIFEST.json").unlink()
    return copy
