"""Our function chunks against another tool's inventory of the same files.

An inventory is gzipped JSON lines: a header `{repo, commit, tool, functions}`, then one row a function
`[path, language, name, start_line, end_line]`.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quarry_harness.errors import InvalidInputError
from quarry_harness.languages import LANGUAGE_OF_DIALECT, PROFILES, dialect_of_path
from quarry_harness.workers import Isolated, worker


class Row(NamedTuple):
    """One function as either side lists it."""

    path: str
    language: str
    name: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """One language's comparison. A row of theirs is exact, other_range or only_theirs; so it is with ours."""

    language: str
    theirs: int
    ours: int
    exact: int
    other_range: tuple[tuple[Row, Row], ...]  # same path and name, (theirs, ours)
    only_theirs: tuple[Row, ...]
    only_ours: tuple[Row, ...]

    @property
    def share(self) -> float:
        """Exact matches as a share of the inventory, 1.0 for an empty one."""
        return self.exact / self.theirs if self.theirs else 1.0


def read_inventory(path: Path) -> tuple[dict[str, object], list[Row]]:
    """Returns the header and the rows of an inventory.

    Raises InvalidInputError with the line of the first row that is not one.
    """
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{path}: not a gzipped inventory: {error}", "Give the path of a .jsonl.gz inventory."
        ) from error
    rows: list[Row] = []
    header: dict[str, object] = {}
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if isinstance(value, dict):
                header = value
            else:
                name, language, symbol, start, end = value
                rows.append(Row(str(name), str(language), str(symbol), int(start), int(end)))
        except (ValueError, TypeError) as error:
            raise InvalidInputError(
                f"{path}:{number}: not a row [path, language, name, start_line, end_line]: {error}",
                "Check that the file is a function inventory.",
            ) from error
    return header, rows


def compare(folder: Path, inventory: list[Row], profile: str = "quarry") -> list[Agreement]:
    """Returns one `Agreement` a language, by name, over the files that the inventory names.

    A file that the inventory calls one language and its extension another (a C header read as C++) is parsed as the
    inventory says. Rows pair off one to one: an exact one first, then same path and name, in order of start line.
    Raises as `workers.worker` does.
    """
    kinds = PROFILES[profile]
    theirs: dict[str, list[Row]] = defaultdict(list)
    for row in inventory:
        theirs[row.language].append(row)
    result = []
    with worker() as cut:
        for language, rows in sorted(theirs.items()):
            paths = sorted({row.path for row in rows})
            ours = [row for path in paths for row in _chunks(folder, path, language, kinds, cut)]
            result.append(_agreement(language, rows, ours))
    return result


def _chunks(folder: Path, path: str, language: str, kinds: frozenset[str] | None, cut: Isolated) -> Iterator[Row]:
    dialect = dialect_of_path(path, cpp_headers=language == "cpp")
    if dialect is None or LANGUAGE_OF_DIALECT[dialect] != language:
        dialect = language
    try:
        data = (folder / path).read_bytes()
    except OSError:
        return  # every row of theirs then counts as only theirs, which is what a reader must see
    for chunk in cut(data, dialect, str(folder / path)).chunks:
        if kinds is None or chunk.kind in kinds:
            yield Row(path, language, chunk.name, chunk.start_line, chunk.end_line)


def _agreement(language: str, theirs: list[Row], ours: list[Row]) -> Agreement:
    exact = Counter(theirs) & Counter(ours)
    left = sorted((Counter(theirs) - exact).elements())
    right: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted((Counter(ours) - exact).elements()):
        right[row.path, row.name].append(row)
    pairs, only_theirs = [], []
    for row in left:
        candidates = right[row.path, row.name]
        if candidates:
            pairs.append((row, candidates.pop(0)))
        else:
            only_theirs.append(row)
    only_ours = sorted(row for rows in right.values() for row in rows)
    return Agreement(
        language, len(theirs), len(ours), exact.total(), tuple(pairs), tuple(only_theirs), tuple(only_ours)
    )
