"""Function bodies taken out before the parse.

Most of a source is the inside of functions, and the walk never goes there: without it the parser has less than half the
work. What is taken out becomes spaces, so every offset and line break stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tree_sitter import Node

from quarry_harness.types import Chunk

# A body with braces nested deeper than this is left as it is, and those inside it are taken out.
_DEPTH = 8
# What is shorter costs as much to take out as to parse.
_FEW_BYTES = 12
_BLANK = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))


COMMENT = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
LINE_COMMENT = rb"//[^\n]*+"


class Bodies(NamedTuple):
    """How the bodies of a language's functions are found in its source, without a tree.

    `pattern` matches what may hold braces that are none (comments, strings); as group 1 a body behind what shows that
    it is a function's; and with a later group a sign that nothing else explains, behind which nothing is certain.
    """

    pattern: re.Pattern[bytes]
    statements: frozenset[str]  # node types that hold statements only, besides functions


def bodies(opaque: Sequence[bytes], head: bytes, statements: frozenset[str]) -> Bodies:
    """Returns the `Bodies` of a language with braces.

    `opaque` are patterns of what may hold braces that are none, and of other uses of the signs they begin with; each
    begins with a sign itself, not a class of them, and so does `head`, what stands before a body: searching for
    several first signs is several times as fast as trying patterns everywhere.
    """
    signs = bytes(sorted({pattern[pattern[:1] == b"\\"] for pattern in opaque} | {ord("/")}))
    # A slash that begins no comment divides.
    within = rb"[^{}%b]++|%b|/(?![*/])" % (re.escape(signs), b"|".join(opaque))
    body = rb"\{(?:%b)*+\}" % within
    for _ in range(_DEPTH):
        body = rb"\{(?:%b|%b)*+\}" % (within, body)
    stray = [b"/(?=[*/])()", *(b"%b()" % re.escape(bytes([sign])) for sign in signs if sign != ord("/"))]
    return Bodies(re.compile(b"|".join([*opaque, rb"%b(%b)" % (head, body), *stray]), re.S), statements)


def without_bodies(source: bytes, how: Bodies, kept: Sequence[int]) -> tuple[bytes, list[tuple[int, int]]]:
    """Returns the source with bodies blanked, and which bytes were; nothing where it holds what cannot be read.

    A body with one of the bytes `kept` in it, which are in ascending order, stays.
    """
    pieces: list[bytes] = []
    spans: list[tuple[int, int]] = []
    behind = 0
    for match in how.pattern.finditer(source):
        if match.lastindex is None:
            continue
        if match.lastindex > 1:
            return source, []
        start, end = match.start(1) + 1, match.end(1) - 1
        if end - start < _FEW_BYTES or _has_one(kept, start, end):
            continue
        pieces += (source[behind:start], source[start:end].translate(_BLANK))
        spans.append((start, end))
        behind = end
    return b"".join((*pieces, source[behind:])), spans


def _has_one(places: Sequence[int], start: int, end: int) -> bool:
    at = bisect_left(places, start)
    return at < len(places) and places[at] < end


def hold_no_function(spans: Sequence[tuple[int, int]], chunks: Sequence[Chunk], root: Node, how: Bodies) -> bool:
    """Whether all the spans are inside functions, or in other places for statements; a class has no room for one.

    `chunks` are those of the tree without the spans, sorted by their first byte.
    """
    number, reach = 0, 0
    for start, end in spans:
        while number < len(chunks) and chunks[number].start_byte < start:
            reach = max(reach, chunks[number].end_byte)
            number += 1
        if end < reach:
            continue
        node = root.named_descendant_for_byte_range(start - 1, end + 1)
        if node is None or node.type not in how.statements:
            return False
    return True
