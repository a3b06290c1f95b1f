"""A source's tree: parsed within limits, and mended where the grammar does not know all of the language."""

from __future__ import annotations

import time
from functools import cache
from importlib import import_module
from typing import cast

from tree_sitter import Language, Parser, Tree
from tree_sitter_language_pack import SupportedLanguage, get_language

from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.rules import errors

# A parse is given up after this many progress reports of the parser. It counts work, not time, so that every machine
# gives up on the same files; a report is about 100 parser actions and at most 10 KB of tree. Real code makes 5,000 to
# 22,000 reports a megabyte, a single array of 1.5 million numbers 150,000.
PARSE_STEPS = 200_000
# And after this many seconds of processor time, whatever it did: the one limit that depends on the machine, but not on
# what else it does.
PARSE_LIMIT_S = 30.0

# A parser reports between steps, and hostile text makes single steps of any length. In a worker the system ends the
# process that takes more processor time over one blob than this, or more memory.
PARSE_CPU_S = 60.0
PARSE_MEMORY_BYTES = 1 << 30

# The reports cost 2% to 4% of a parse, more in Scala; a blob as small as this takes seconds at worst without them.
SMALL_BLOB_BYTES = 8 * 1024

_EDITED_BLOCK = 256


@cache
def grammar(dialect: str) -> Language:
    """Returns the grammar that this dialect is parsed with: the pack's, or that of the description's own package."""
    rules = RULES_OF_DIALECT[dialect]
    if rules.package:
        return Language(import_module(rules.package.replace("-", "_")).language())
    return get_language(cast(SupportedLanguage, rules.grammars[dialect]))


class Deadline:
    """The moment at which the parses of a blob that begin now are given up: after `PARSE_LIMIT_S` of this thread."""

    def __init__(self) -> None:
        self.work = time.thread_time() + PARSE_LIMIT_S
        self.clock = time.monotonic() + PARSE_LIMIT_S

    def passed(self) -> bool:
        """Whether it is over. A pause, or another's work, makes it no earlier; the cheaper clock is asked first."""
        return time.monotonic() > self.clock and time.thread_time() > self.work


def parse(data: bytes, dialect: str, deadline: Deadline, old: Tree | None = None) -> Tree:
    """Returns a source's tree; raises TimeoutError after the deadline, or too much work.

    `old` is an edited tree to take parts of.
    """
    parser = Parser(grammar(dialect))
    if len(data) <= SMALL_BLOB_BYTES:
        return parser.parse(data) if old is None else parser.parse(data, old)
    steps = 0

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > PARSE_STEPS or ((steps % 8 == 0 or steps < 64) and deadline.passed())

    # tree-sitter 0.26 keeps what it was given to read for ever: of a view that is released, this is nothing.
    view, given = memoryview(data), list[memoryview]()

    def read(offset: int, _point: object) -> memoryview:
        given.append(view[offset:])
        return given[-1]

    try:
        if old is not None:
            return parser.parse(read, old, progress_callback=give_up)
        return parser.parse(read, progress_callback=give_up)
    except ValueError as error:  # all the binding says of a parse that was stopped
        raise TimeoutError from error
    finally:
        for piece in given:
            piece.release()


def best_tree(given: bytes, dialect: str, deadline: Deadline) -> tuple[Tree, int]:
    """Returns, of a source's own tree and those of what may be parsed in its place, the one with the fewest ERROR and
    MISSING nodes, and their number.

    Raises TimeoutError where the first parse takes too long; a further one that does is left out.
    """
    rules = RULES_OF_DIALECT[dialect]
    first = best = parse(given, dialect, deadline)
    fewest = sum(1 for _ in errors(first.root_node))
    if rules.masked is None or not fewest:
        return first, fewest
    for source in rules.masked(given, first.root_node):
        try:
            old = _edited(first, given, source) if rules.masks_are_few else None
            tree = parse(source, dialect, deadline, old)
        except TimeoutError:
            break
        if (count := sum(1 for _ in errors(tree.root_node))) < fewest:
            best, fewest = tree, count
        if not fewest:
            break
    return best, fewest


def _edited(tree: Tree, before: bytes, after: bytes) -> Tree:
    """A copy of a tree that knows which blocks of its source are others in a second source of the same length."""
    tree, row = tree.copy(), 0
    for start in range(0, len(before), _EDITED_BLOCK):
        end = min(start + _EDITED_BLOCK, len(before))
        rows = before.count(b"\n", start, end)
        if before[start:end] != after[start:end]:
            first = (row, start - before.rfind(b"\n", 0, start) - 1)
            last = (row + rows, end - before.rfind(b"\n", 0, end) - 1)
            tree.edit(start, end, end, first, last, last)
        row += rows
    return tree


def plain(data: bytes, dialect: str) -> bytes:
    """Returns what of a source the parser is given: without what its grammar cannot read, every offset kept."""
    rules = RULES_OF_DIALECT[dialect]
    return rules.plain(data) if rules.plain is not None else data
