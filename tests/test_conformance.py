"""Comparing with another tool's inventory: pairing, counting, and the inventories themselves."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from quarry_harness.conformance import Row, compare, read_inventory
from quarry_harness.errors import QuarryError

SCRIPT = Path(__file__).parents[1] / "scripts" / "conformance"


def inventory(path: Path, rows: list[object]) -> Path:
    lines = [json.dumps(row) for row in ({"repo": "o/n", "commit": "0" * 40, "tool": "t", "functions": 0}, *rows)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("def one(): ...\n\ndef two():\n    ...\n\ndef two(): ...\n\ndef ours(): ...\n")
    (tmp_path / "not_listed.py").write_text("def other(): ...\n")
    (tmp_path / "a.h").write_text("struct S { void m(); };\n")
    return tmp_path


def test_rows_pair_off_exact_first_then_by_name(folder: Path) -> None:
    rows = [
        Row("a.py", "python", "one", 1, 1),
        Row("a.py", "python", "two", 6, 6),
        Row("a.py", "python", "two", 2, 4),
        Row("a.py", "python", "gone", 9, 9),
        Row("missing.py", "python", "lost", 1, 1),
    ]
    (python,) = compare(folder, rows)
    assert (python.theirs, python.ours, python.exact) == (5, 4, 2)
    assert python.other_range == ((rows[2], Row("a.py", "python", "two", 3, 4)),)
    assert python.only_theirs == (rows[3], rows[4])
    assert python.only_ours == (Row("a.py", "python", "ours", 8, 8),)
    assert python.share == 0.4


def test_a_header_is_read_in_the_language_of_the_inventory(folder: Path) -> None:
    (cpp,) = compare(folder, [Row("a.h", "cpp", "m", 1, 1)])
    assert cpp.exact == 1


def test_a_damaged_inventory_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(QuarryError, match=r"bad\.jsonl\.gz:2"):
        read_inventory(inventory(tmp_path / "bad.jsonl.gz", [["a.py", "python", "f", "one"]]))
    (tmp_path / "plain").write_text("[]")
    with pytest.raises(QuarryError, match="not a gzipped inventory"):
        read_inventory(tmp_path / "plain")


def test_the_script_prints_a_table_and_one_document(folder: Path) -> None:
    file = inventory(folder / "i.jsonl.gz", [["a.py", "python", "one", 1, 1]])
    command = [sys.executable, str(SCRIPT), str(folder), str(file), "--samples", "1"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert table.splitlines()[1].split() == ["python", "1", "4", "1", "100.00", "0", "0", "3"]
    assert "only ours: a.py:8-8 ours" in table
    document = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert document["languages"][0]["exact"] == 1
    assert subprocess.run([*command[:3], str(folder / "no")], capture_output=True, check=False).returncode == 3
