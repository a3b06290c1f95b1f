"""The house's own rules: who may import whom, who may print, how large a room may grow, what the README maps."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "quarry_harness"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "trees" not in path.parts and "_data" not in path.parts)

BASE = {"types", "errors", "resources"}
# What each room may import beside the base rooms. Stages join rooms and alone open the store; the command line
# imports stages, and the rooms that make text of results.
MAY_IMPORT = {
    "types": set(),
    "errors": set(),
    "resources": set(),
    "__init__": set(),
    "__main__": {"cli"},
    "languages": {"languages"},
    "readable": set(),
    "trees": {"languages"},
    "chunking": {"languages", "readable", "trees"},
    "fingerprints": {"chunking", "languages", "readable", "trees"},
    "parsing": {"chunking", "git", "readable", "trees"},
    "workers": {"chunking", "git", "parsing", "trees"},
    "conformance": {"languages", "parsing", "workers"},
    "documents": set(),
    "canonicalize": set(),
    "git": set(),
    "mirrors": {"git"},
    "transport": {"git", "mirrors"},
    "layout": {"git"},
    "fetching": {"git", "layout", "mirrors", "transport"},
    "pruning": {"git", "layout"},
    "rows": set(),
    "manifest": {"rows"},
    "records": {"rows"},
    "release": {"manifest", "records", "rows"},
    "hub": {"release", "demo"},
    "verify": {"hub", "manifest", "release"},
    "demo": {"git", "demo"},
    "retrieve": set(),
    "measures": set(),
    "significance": set(),
    "shards": set(),
    "vectors": {"shards"},
    "models": {"retrieve", "models", "vectors"},
    "runs": set(),
    "report": {"measures"},
    "comparison": {"report"},
    "reports": {"comparison", "measures", "report"},
    "store": set(),
    "console": set(),
    "cli": {"stages", "console", "comparison", "report", "reports", "runs"},
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "quarry_harness":
                names = [f"quarry_harness.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "quarry_harness" and len(parts) > 1 and parts[1] != "__version__":
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    name = room(path)
    rooms = imported_rooms(path)
    if name == "stages":
        assert not rooms & {"cli", "console", "comparison", "report", "reports"}
    else:
        assert rooms <= MAY_IMPORT[name] | BASE | {name}, f"{name} imports {rooms - MAY_IMPORT[name] - BASE}"
        assert "store" not in rooms - {name}, "only stages open the store"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_stay_small_and_only_the_command_line_prints(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= 500
    if room(path) not in ("cli", "console"):
        assert not re.search(r"(?m)^\s*(print|click\.echo|sys\.exit)\(", text)
    if room(path) != "store":
        assert "import duckdb" not in text


def test_the_readme_maps_every_room() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for name in sorted({room(path) for path in MODULES} - {"__init__", "__main__"}):
        entry = f"{name}/" if (PACKAGE / name).is_dir() else f"{name}.py"
        assert entry in readme, f"README.md does not mention {entry}"
