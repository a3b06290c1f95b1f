"""Function bodies taken out before the parse.

Most of a source is the inside of functions, and the walk never goes there: without it the parser has less than half the
work. What is taken out becomes a comment, or what is as cheap to parse; every offset and line break stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from quarry_harness.languages.rules import Bodies, Span, blank

# A body with braces nested deeper than this is left as it is, and those inside it are taken out.
_DEPTH = 6
_DEPTH_IN_A_PART = 3
# What is shorter costs as much to take out as to parse.
_FEW_BYTES = 12
# A source is searched no more than so often for what is inside of bodies that stay.
_TIMES_INSIDE = 8
# And no more signs of it are explained one by one, each of which may take 20 microseconds: 3 MB of code without a blank
# have 200.
_MOST_EXPLAINED = 5_000
# What stands farther behind a place is not looked at: there the tree tells.
_FAR_BYTES = 1_000
# No more of a line is asked what kind of block begins behind it.
_LINE_BYTES = 200

COMMENT = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"
LINE_COMMENT = rb"//[^\n]*+"
DIVISION = rb"/(?![*/])"


def bodies(
    opaque: Sequence[bytes],
    heads: Sequence[bytes],
    *,
    brace: bytes = rb"\{",
    directives: tuple[bytes, bytes, bytes] | None = None,
) -> bytes:
    """Returns the pattern that finds the bodies of a language's functions in its source.

    It matches what may hold braces that are none (comments, strings); as a group a body, behind what shows that it is a
    function's, or only its brace where the others are beyond the pattern; and with an empty group a sign that nothing
    else explains: then nothing of the source is certain.

    `opaque` are patterns of what may hold braces that are none, and of other uses of the signs they begin with; each
    begins with a sign itself, not a class of them, and so does each of `heads`, what stands before a body: searching
    for several first signs is several times as fast as trying patterns everywhere. Where a few bytes before a body show
    what it is, its head is empty, and `brace`, the sign that begins it, looks behind itself. `directives` begin, divide
    and end parts of which only one is compiled: a body is matched if each has braces of its own.
    """
    signs = bytes(sorted({pattern[pattern[:1] == b"\\"] for pattern in opaque}))
    within = element = rb"[^{}%b]++|%b" % (re.escape(signs), b"|".join(opaque))
    if directives is not None:
        element = rb"%b|%b(?:%b|%b|%b)*+%b" % (
            *(within, directives[0], within, _braces(within, _DEPTH_IN_A_PART), *directives[1:]),
        )
    body = rb"(%b)" % _braces(element, _DEPTH, brace)
    if directives is not None:
        body = rb"(?:%b|(\{))" % body
    found = [head + body for head in heads]
    stray = [rb"%b()" % re.escape(bytes([sign])) for sign in signs]
    return b"|".join([*opaque, *(directives or ()), *found, *stray])


def _braces(element: bytes, depth: int, brace: bytes = rb"\{") -> bytes:
    """What matches a pair of braces, with pairs in it nested so deep."""
    pair = rb"\{(?:%b)*+\}" % element
    for _ in range(depth - 1):
        pair = rb"\{(?:%b|%b)*+\}" % (element, pair)
    return rb"%b(?:%b|%b)*+\}" % (brace, element, pair)


def find_bodies(source: bytes, how: Bodies, kept: Sequence[int]) -> list[Span]:
    """Returns the insides of the bodies that the parser need not see; none where the source holds what cannot be read.

    A body with one of the bytes `kept` in it, which are in ascending order, stays.
    """
    if how.sign not in source:
        return []
    doubts = how.doubts(source) if how.doubts is not None else ()
    if doubts:
        kept = sorted({*kept, *doubts})
    spans: list[Span] = []
    room = _TIMES_INSIDE * len(source)
    unread = 0  # up to where a block goes on whose end is unknown
    matches = _Matches(source, how, doubts)
    try:
        for head, brace, behind in matches:
            if behind - brace == 1 and brace >= unread:
                unread = _end_of_block(source, brace)
            start, end = brace + 1, behind - 1
            if end - start < _FEW_BYTES or start < unread:
                continue
            if not (_has_to_stay(source, start, end, how, kept) or _is_block(source, head, how.block)):
                spans.append((start, end))
            elif how.go_inside and room >= 0:
                room -= end - start
                matches.inside = start
    except _Uncertain:
        return []
    return spans


class _Uncertain(Exception):
    """The source holds what cannot be read."""


class _Matches:
    """What the pattern finds of bodies: where its head begins, where the body does, and what is behind it.

    Raises _Uncertain at a sign that nothing explains, and where one of the doubts does not stand in a comment or a
    string.
    """

    def __init__(self, source: bytes, how: Bodies, doubts: Sequence[int]) -> None:
        self.source, self.how = source, how
        self.doubts = [*reversed(doubts)]  # the next one last
        self.inside: int | None = None  # set to go on there, in what was found last, and not behind it
        self.explained = 0

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        at: int | None = self.how.first(self.source) if self.how.first is not None else 0
        while at is not None:
            matches, at = self.how.pattern.finditer(self.source, at), None
            for match in matches:
                if self.doubts:
                    self._clear(match)
                if match.lastindex is None:
                    continue
                start, end = match.span(match.lastindex)
                if start == end:
                    at = self._explained(match.start())
                    break
                yield match.start(), start, end
                if self.inside is not None:
                    at, self.inside = self.inside, None
                    break
        if self.doubts:
            raise _Uncertain

    def _clear(self, match: re.Match[bytes]) -> None:
        if self.doubts[-1] < match.start():
            raise _Uncertain
        if match.lastindex is None:
            self._clear_up_to(match.end())

    def _clear_up_to(self, end: int) -> None:
        while self.doubts and self.doubts[-1] < end:
            self.doubts.pop()

    def _explained(self, at: int) -> int:
        self.explained += 1
        end = self.how.explain(self.source, at) if self.how.explain is not None else 0
        if not end or self.explained > _MOST_EXPLAINED:
            raise _Uncertain
        self._clear_up_to(end)
        return end


def _has_to_stay(source: bytes, start: int, end: int, how: Bodies, kept: Sequence[int]) -> bool:
    if how.stays is not None and how.stays(source, start, end):
        return True
    if not kept:
        return False
    number = bisect_left(kept, start)
    if number < len(kept) and kept[number] < end:
        return True
    if not how.stays_behind_a_place or number == 0 or kept[number - 1] < start - _FAR_BYTES:
        return False
    # With no brace between, it is the first body behind that byte.
    return source.find(b"{", kept[number - 1], start - 1) < 0


def without_bodies(source: bytes, spans: Sequence[Span], how: Bodies) -> bytes:
    """Returns the source with something else in place of the insides of these bodies, every offset kept."""
    pieces: list[bytes] = []
    kept_to = 0
    for start, end in spans:
        filler = how.filler if how.filler and not is_value(source, start) else b""
        pieces += (source[kept_to:start], _closed(blank(source[start:end]), filler + how.opening, how.closing))
        kept_to = end
    return b"".join((*pieces, source[kept_to:]))


def _closed(blanks: bytes, opening: bytes, closing: bytes) -> bytes:
    """These signs around the blanks, where there is room: a comment costs a parser half to a seventh of blanks."""
    first, last = blanks.find(b" " * len(opening)), blanks.rfind(b" " * len(closing))
    inside, after = first + len(opening), last + len(closing)
    if first < 0 or last < inside:
        return blanks
    return b"".join((blanks[:first], opening, blanks[inside:last], closing, blanks[after:]))


def is_value(source: bytes, start: int) -> bool:
    """Whether braces, with their insides from `start`, are not a body but a value: behind an equals sign."""
    return source[max(0, start - _LINE_BYTES) : start - 1].rstrip().endswith(b"=")


def _end_of_block(source: bytes, brace: int) -> int:
    """Where a block seems to end whose braces do not: at a brace that is indented no more than its own line."""
    line = source.rfind(b"\n", 0, brace) + 1
    indent = _INDENT.match(source, line, brace)
    closing = re.compile(rb"\n[ \t]{0,%d}\}" % (min(len(indent[0]), 99) if indent else 0)).search(source, brace)
    return closing.end() if closing else len(source)


_INDENT = re.compile(rb"[ \t]*+")


def _is_block(source: bytes, head: int, block: re.Pattern[bytes] | None) -> bool:
    if block is None:
        return False
    line = source.rfind(b"\n", max(0, head - _LINE_BYTES), head) + 1
    return line > 0 and block.match(source, line, head + 1) is not None
