"""What is installed is the whole program: run from a built wheel, outside the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_holds_the_data(installed: Path) -> None:
    package = installed / "quarry_harness"
    page = [f"reports/page.{ending}" for ending in ("html", "css", "js")]
    for name in (
        *page,
        "store/schema.sql",
        "py.typed",
        "_data/RELEASE_MANIFEST.json",
        "_data/manifests/published.toml",
    ):
        assert (package / name).is_file(), name
    shipped = {path.relative_to(ROOT) for path in (ROOT / "quarry_harness" / "demo").rglob("*") if path.is_file()}
    shipped = {path for path in shipped if "__pycache__" not in path.parts}
    missing = {path for path in shipped if not (installed / path).is_file()}
    assert not missing
    assert not list(installed.rglob("tests/test_wheel.py"))


def test_the_main_job_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(installed), "HOME": str(tmp_path / "home")}
    where = [sys.executable, "-c", "import quarry_harness; print(quarry_harness.__file__)"]
    place = subprocess.run(where, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert place.startswith(str(installed))
    for arguments in (["run", "--release", "demo"], ["verify"], ["status"], ["report", "--format", "html"]):
        command = [sys.executable, "-m", "quarry_harness", *arguments]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
