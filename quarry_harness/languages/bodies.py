"""Function bodies taken out before the parse.

Most of a source is the inside of functions, and the walk never goes there: without it the parser has less than half the
work. What is taken out becomes spaces, so every offset and line break stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from quarry_harness.languages.rules import Span, place_after, without

# A body with braces nested deeper than this is left as it is, and those inside it are taken out.
_DEPTH = 8
# What is shorter costs as much to take out as to parse.
_FEW_BYTES = 12

COMMENT = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
LINE_COMMENT = rb"//[^\n]*+"


def bodies(opaque: Sequence[bytes], head: bytes) -> re.Pattern[bytes]:
    """Returns what finds the bodies of a language's functions in its source, without a tree.

    The pattern matches what may hold braces that are none (comments, strings); as group 1 a body, behind what shows
    that it is a function's; and with a later group a sign that nothing else explains: then nothing of the source is
    certain.

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
    return re.compile(b"|".join([*opaque, rb"%b(%b)" % (head, body), *stray]), re.S)


def without_bodies(source: bytes, how: re.Pattern[bytes], kept: Sequence[int]) -> tuple[bytes, list[Span]]:
    """Returns the source with bodies blanked, and which bytes were; nothing where it holds what cannot be read.

    A body with one of the bytes `kept` in it, which are in ascending order, stays.
    """
    spans: list[Span] = []
    for match in how.finditer(source):
        if match.lastindex is None:
            continue
        if match.lastindex > 1:
            return source, []
        start, end = match.start(1) + 1, match.end(1) - 1
        if end - start >= _FEW_BYTES and place_after(kept, start) >= end:
            spans.append((start, end))
    return without(source, spans), spans
