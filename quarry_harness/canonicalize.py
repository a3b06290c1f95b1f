"""From portable gold units to local chunks, by tiers that are tried in order and recorded.

The key of a unit is path + symbol + lines. Its qualified name was made from another checkout than the pinned one,
so it is evidence of last resort. Equal candidates are never settled by luck: they resolve to none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from quarry_harness.types import GoldUnit, LocatedChunk, Resolution

TIERS = ("exact", "overlap", "lines", "fqmn")

REVISION_MISSING = "revision_missing"
REVISION_DIFFERS = "revision_differs"
PATH_ABSENT = "path_absent"
FILE_SKIPPED = "file_skipped"
LINES_PAST_END = "lines_past_end"
NO_FUNCTION = "no_function_at_lines"
AMBIGUOUS = "ambiguous"
OUTSIDE_PROFILE = "outside_profile"


def resolve(
    unit: GoldUnit,
    chunks: Sequence[LocatedChunk],
    kinds: Collection[str] | None,
    file_status: Mapping[str, str],
    file_lines: Mapping[str, int],
) -> Resolution:
    """Returns where one unit lies among the chunks of its revision, or why it does not.

    chunks: at least every chunk of the unit's path and every chunk with the last name of its fqmn.
    kinds: the profile, None for all; a chunk outside it is never an answer, since no query could retrieve it.
    file_status: "parsed" or the skip reason, for each path of the revision that is known; file_lines: its lines.
    """
    status = file_status.get(unit.path)
    if status is not None and status != "parsed":
        return Resolution(reason=f"{FILE_SKIPPED}: {status}")
    if status is not None and unit.end_line > file_lines[unit.path]:
        return Resolution(reason=f"{LINES_PAST_END}: the file has {file_lines[unit.path]} lines")
    found = _first_tier(unit, chunks)
    if found is None:
        return Resolution(reason=PATH_ABSENT if status is None else NO_FUNCTION)
    # Only now the profile: a weak candidate inside it must not stand in for the very function outside it.
    if found.tier and kinds is not None and chunks[found.chunk].chunk.kind not in kinds:
        return Resolution(reason=f"{OUTSIDE_PROFILE}: {chunks[found.chunk].chunk.kind}")
    return found


def _first_tier(unit: GoldUnit, chunks: Sequence[LocatedChunk]) -> Resolution | None:
    """The first tier with a candidate decides: one candidate resolves, equal ones are ambiguous; None for no tier."""
    here = [i for i, located in enumerate(chunks) if located.path == unit.path]
    named = [i for i in here if chunks[i].chunk.name == unit.symbol]
    for tier, candidates in (
        ("exact", [i for i in named if _lines(chunks[i]) == (unit.start_line, unit.end_line)]),
        ("overlap", _largest_overlap(unit, chunks, named)),
        ("lines", [i for i in here if _lines(chunks[i]) == (unit.start_line, unit.end_line)]),
        ("fqmn", _same_tail(unit, chunks, here) or _same_tail(unit, chunks, _methods(chunks))),
    ):
        if len(candidates) == 1:
            return Resolution(tier=tier, chunk=candidates[0])
        if candidates:
            return Resolution(reason=f"{AMBIGUOUS}: {len(candidates)} candidates at tier {tier}")
    return None


def _methods(chunks: Sequence[LocatedChunk]) -> list[int]:
    """In another file only a method can be the unit: every program has a `main.run`."""
    return [i for i, located in enumerate(chunks) if located.chunk.container]


def _lines(located: LocatedChunk) -> tuple[int, int]:
    return located.chunk.start_line, located.chunk.end_line


def _largest_overlap(unit: GoldUnit, chunks: Sequence[LocatedChunk], named: Sequence[int]) -> list[int]:
    shared = {}
    for i in named:
        start, end = _lines(chunks[i])
        shared[i] = min(end, unit.end_line) - max(start, unit.start_line) + 1
    best = max(shared.values(), default=0)
    return [i for i, lines in shared.items() if lines == best] if best > 0 else []


def _same_tail(unit: GoldUnit, chunks: Sequence[LocatedChunk], among: Collection[int]) -> list[int]:
    """Chunks that share the longest tail of the fqmn, at least two parts of it."""
    wanted = _parts(unit.fqmn)
    best = 2
    found: list[int] = []
    for i in among:
        shared = _common_tail(wanted, _parts(chunks[i].chunk.qualified_name))
        if shared > best:
            best, found = shared, [i]
        elif shared == best:
            found.append(i)
    return found


def last_name(fqmn: str) -> str:
    """Returns the last part of a qualified name: what a chunk's name must be to share its tail."""
    return _parts(fqmn)[-1]


def _parts(qualified_name: str) -> list[str]:
    return qualified_name.replace("/", ".").replace("::", ".").replace("\\", ".").split(".")


def _common_tail(left: Sequence[str], right: Sequence[str]) -> int:
    count = 0
    while count < min(len(left), len(right)) and left[-1 - count] == right[-1 - count]:
        count += 1
    return count
