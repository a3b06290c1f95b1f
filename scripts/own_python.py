"""Imported first by the programs beside it: they use this clone's package, and a Python that has what it needs.

That is the Python they were started with, or else that of the environment which scripts/test makes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / ".venv-test" / "bin" / "python"

if importlib.util.find_spec("tree_sitter") is None:
    if not OWN.exists() or Path(sys.executable) == OWN:
        sys.exit(f"{sys.executable} has no tree-sitter: run scripts/test once, or install the package (pip install .).")
    os.execv(OWN, [str(OWN), *sys.argv])  # noqa: S606  # of this clone
sys.path.insert(0, str(ROOT))
