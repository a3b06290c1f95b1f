"""Which blobs are parsed at all: what is no text, or would cost too much, is told before any parser sees it."""

from __future__ import annotations

import re

MAX_BLOB_BYTES = 4 * 1024 * 1024

# How many signs that a grammar finds ambiguous one statement may have, comments and strings apart.
MAX_AMBIGUOUS_SIGNS = 1_000

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LFS = b"version https://git-lfs.github.com/spec/"
_LOOKED_AT = 8192
_CONTROL = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"


def unreadable(data: bytes) -> str:
    """Returns why a blob is no source that a parser should be given, "" when it is."""
    if len(data) > MAX_BLOB_BYTES:
        return "too_large"
    if data.startswith(_LFS) and len(data) < 1024:
        return "lfs_pointer"
    head = data[:_LOOKED_AT]
    if data.startswith(_UTF16_MARKS):
        return "utf16"
    # A few control characters stand in real sources (a NUL in a test's string); a compiled file has many.
    if b"\0" in head or b"\x01" in head:
        if _looks_like_utf16(head):
            return "utf16"
        if len(head) - len(head.translate(None, _CONTROL)) > len(head) // 100 + 8:
            return "binary"
    # Scala's grammar needs hours for a megabyte of signs that no text has so many of.
    strange = not data.isascii() and any(data.count(sign) > _MANY_STRANGE for sign in (b"\xff", b"\xef\xbb\xbf"))
    return "binary" if strange else ""


_MANY_STRANGE = 1_000


def _looks_like_utf16(head: bytes) -> bool:
    """Text without a mark in two-byte units: nearly all zeros are on one side of the pairs."""
    zeros = head.count(0)
    return zeros > len(head) // 4 and max(head[::2].count(0), head[1::2].count(0)) > zeros * 9 // 10


_COMMENT_OR_STRING = re.compile(rb'/\*.*?(?:\*/|\Z)|//[^\n]*|"(?:[^"\\\n]|\\.)*+"', re.S)


def unbearable(data: bytes, signs: bytes, hard: tuple[bytes, int, re.Pattern[bytes]] | None = None) -> str:
    """Returns why a blob is not given to a parser that would take gigabytes or hours over it; "" for all real code.

    `signs` are those of which one statement must not have thousands, `hard` what must not be there at all: a sign,
    how many of it are in each match, and the pattern.

    At the end of a file with errors the parser tries all ways through what it could not decide, in one step that
    nothing can interrupt: 32,000 `a<` in Java take more than 12 GB, 4,000 `a=>` take 20 seconds.
    """
    if hard is not None and data.count(hard[0]) >= hard[1] and hard[2].search(data) is not None:
        return "too_ambiguous"
    if sum(data.count(sign) for sign in signs) <= MAX_AMBIGUOUS_SIGNS or not _has_many_in_a_statement(data, signs):
        return ""
    return "too_ambiguous" if _has_many_in_a_statement(_COMMENT_OR_STRING.sub(b"", data), signs) else ""


def _has_many_in_a_statement(data: bytes, signs: bytes) -> bool:
    others = bytes(byte for byte in range(256) if byte not in signs + b";{}")
    run = b"[%s]{%d}" % (re.escape(signs), MAX_AMBIGUOUS_SIGNS + 1)
    return re.search(run, data.translate(None, others)) is not None


def too_strange(data: bytes) -> str:
    """Returns why a blob is not given to the grammar of Scala, "" for all real code: it needs minutes, in one step, for
    a long run of signs that no token begins with."""
    strange = len(data) - len(data.translate(None, _STRANGE))
    return "binary" if strange > _LONGEST_RUN and _STRANGE_RUN.search(data) is not None else ""


_LONGEST_RUN = 20_000
_STRANGE = bytes((*range(32), *range(127, 256)))
_STRANGE_RUN = re.compile(rb"(?<![\x00-\x20\x7f-\xff])[\x00-\x20\x7f-\xff]{%d}" % _LONGEST_RUN)


def too_deep(data: bytes) -> str:
    """Returns why a blob is not given to the grammar of Python, "" for all real code: with more than 512 levels of
    indentation, it ends the process."""
    if len(data) < _SMALLEST_DEEP or _DEEP.search(data) is None:
        return ""
    levels = [0]
    for line in _INDENT.finditer(data):
        column = len(_RESET.split(line[0])[-1].expandtabs(8))
        while levels[-1] > column:
            levels.pop()
        if column > levels[-1]:
            levels.append(column)
        if len(levels) > _MAX_LEVELS:
            return "too_deep"
    return ""


_MAX_LEVELS = 400
# No fewer blanks make a line of so many levels, a tab being eight columns, and no smaller file has all their lines.
_DEEP = re.compile(rb"[\n\r\f][ \t]{%d}" % (_MAX_LEVELS // 8))
_SMALLEST_DEEP = _MAX_LEVELS * _MAX_LEVELS // 16
_INDENT = re.compile(rb"(?<=\n)[ \t\r\f]*+(?=[^\s#])")
_RESET = re.compile(rb"[\r\f]")  # behind these the grammar counts anew
