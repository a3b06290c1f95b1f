"""How to find function bodies of JavaScript and TypeScript in their source: strings, comments, regular expressions."""

from __future__ import annotations

import re

from quarry_harness.languages.bodies import COMMENT, bodies
from quarry_harness.languages.rules import Bodies, compiled

STATEMENTS = frozenset({"const", "for", "if", "let", "return", "switch", "throw", "var", "while"})
TO_THE_LINES_END = rb"//(?:[^\n\r\xe2]++|\xe2(?!\x80[\xa8\xa9]))*+"  # two more signs end a line: U+2028, U+2029
# Right behind a bracket or a word no string begins, but for some words in sources without blanks: it is the text
# of JSX (`<b>it's</b>`), which is not read.
_BEGINS_A_STRING = rb"(?:(?<![\w$)\]}]%b)|(?<=\b(?:case|from)%b)|(?<=\b(?:import|return|typeof)%b))"


def _string(sign: bytes, begins: bytes = b"") -> bytes:
    """A string between two such signs; `begins` looks back from behind the first."""
    return rb"%b%b(?:[^%b\\\n]++|\\.)*+%b" % (sign, begins, sign, sign)


_QUOTED = tuple(_string(sign, _BEGINS_A_STRING % ((sign,) * 3)) for sign in (b'"', b"'"))
_IN_A_CLASS = rb"\[(?:[^\]\\\n]++|\\[^\n])*+\]"
_REGEX = rb"(?:[^/\\\[\n*]|\\[^\n]|%b)(?:[^/\\\[\n]++|\\[^\n]|%b)*+/" % (_IN_A_CLASS, _IN_A_CLASS)
# What a slash begins, a regular expression or a divisor, is told by what stands before it; the widths are fixed, since
# a pattern looks back no other way.
_WORD = rb"(?<![\w$.#])"  # where a word begins that is no member's name
_BEFORE_A_VALUE = (
    rb"%b(?:do|in|of)" % _WORD,
    rb"%b(?:case|else|void)" % _WORD,
    rb"%b(?:await|throw|yield)" % _WORD,
    rb"%b(?:delete|return|typeof)" % _WORD,
    rb"%binstanceof" % _WORD,
)
_BEFORE_A_REGEX = (
    *(rb"[(,=:\[|&?;{]%b" % blank for blank in (b"", b" ", *(rb"\n[\t ]{%d}" % n for n in range(9)))),
    *(rb"%b%b" % (words, blank) for words in _BEFORE_A_VALUE for blank in (b"", b" ")),
    *(rb"[\s(&|=!]!", rb"=> "),
)
_BEHIND_A_VALUE = rb"(?!>)(?:(?<=[\w$\]]/)|(?<=[\w$\]] /))%b" % b"".join(
    rb"(?<!%b/)(?<!%b /)" % (words, words) for words in _BEFORE_A_VALUE
)
# In `if (a) /"/.test(b)` it is not told: read only where what may be a regular expression holds no sign that matters.
_BEHIND_A_PARENTHESIS = rb"""(?!>)(?:(?<=\)/)|(?<=\) /))(?![^/\n"'`{}\\\[]*+(?:["'`{}\\\[][^\n/]*+/|/\*))"""
_BEGINS_A_REGEX = rb"(?:%b)%b" % (b"|".join(rb"(?<=%b/)" % before for before in _BEFORE_A_REGEX), _REGEX)
# The last two slashes of a line, with no sign between that matters, of which the second begins no comment: they are a
# regular expression, or two divisors.
_PLAIN = rb"""[^/\\\[\n"'`{}]|\\[^\n/"'`{}]|\[(?:[^\]\\\n/"'`{}]|\\[^\n/"'`{}])*+\]"""
_EITHER = rb"(?![>*])(?<!</)(?:%b)++/(?!\*|[^\n/]*+/)" % _PLAIN
_SLASH = rb"/(?:%b)" % b"|".join(
    (COMMENT[1:], TO_THE_LINES_END[1:], _BEHIND_A_VALUE, _BEHIND_A_PARENTHESIS, _BEGINS_A_REGEX, _EITHER)
)


def _template(hole: bytes) -> bytes:
    """A template string with such holes."""
    return rb"`(?:[^`\\$]++|\\.|\$(?!\{)|\$\{%b\})*+`" % hole


_SLASH_IN_A_HOLE = rb"/(?:%b|(?<=\(/)%b|(?<=[\w\])] /)(?=\s))" % (COMMENT[1:], _REGEX)
_IN_A_HOLE = rb"""[^{}"'`/]++|%b""" % b"|".join((*_QUOTED, _SLASH_IN_A_HOLE, _template(rb"""[^{}"'`/]*+""")))
_TEMPLATE = _template(rb"(?:%b|\{(?:%b)*+\})*+" % (_IN_A_HOLE, _IN_A_HOLE))


_FINDER = bodies(
    (*_QUOTED, _SLASH, _TEMPLATE, rb"#(?:![^\n]*+)?"),
    # Not behind `a =>` without parentheses: one more sign to stop at, and one more pattern, cost more than they save.
    (rb"""\)\s*+(?::[^(){};"'`/=]{1,200}+)?(?:=>\s*+)?""",),
)


_LINE_COMMENT = re.compile(rb"(?<!\S)//[^\n]*\Z")
# In such a line two slashes may stand in a string, a template string or a regular expression.
_UNSURE_COMMENT = rb"""[^\n]*?(?:["'`/][^\n]*?(?<!\S)//|(?<!\S)//[^\n]*`)"""


def code_before(source: bytes, at: int, *, surely: bool = False) -> bytes:
    """Returns the last signs before a place that are in no comment; b"" where they are too far away to say, or, with
    `surely`, where what looks like a comment may be none.
    """
    for _ in range(16):
        first = max(0, at - 512)
        line = source[first:at].rstrip()
        if line.endswith(b"*/"):
            at = max(0, source.rfind(b"/*", max(0, at - 16_384), at))
        elif comment := _LINE_COMMENT.search(line):
            if surely and compiled(_UNSURE_COMMENT).match(line, line.rfind(b"\n") + 1):
                return b""
            at = first + comment.start()
        else:
            return line[-20:]
    return b""


# Two patterns: an alternative of two signs is searched for ten times as slowly as a sign that comes first.
_OPENING_OF_HTML = re.compile(rb"<!--")
_CLOSING_OF_HTML = re.compile(rb"-->")
_BLANKS_LOOKED_AT = 1_000


def _comments_of_html(source: bytes) -> list[int]:
    """Where HTML's comments may be, whose text may hold any sign: what begins one, or ends it at a line's beginning."""
    found = [match.start() for match in _OPENING_OF_HTML.finditer(source)]
    for match in _CLOSING_OF_HTML.finditer(source):
        before = source[max(0, match.start() - _BLANKS_LOOKED_AT) : match.start()].rstrip(b" \t\f\v")
        if not before or before.endswith((b"\n", b"\r")):
            found.append(match.start())
    return sorted(found)


_WORDS = b"|".join(_BEFORE_A_VALUE)
# An exclamation mark behind a value is TypeScript's.
_SURELY_BEFORE_A_VALUE = rb"(?:[(,=:\[|&?;{*%%^~]|=>|(?<!\+)\+|(?<!-)-|(?:[^\w$)\]\s]|%b)!|%b)\Z" % (_WORDS, _WORDS)
_BEFORE_A_STRING = rb"%b(?:await|default|delete|do|else|in|of|throw|void|yield)\Z" % _WORD
_BEFORE_A_STATEMENT = rb"%b(?:if|while|for|with|await)\Z" % _WORD
_FAR_BYTES = 300
_PLAIN_STRING = rb"""(["'])[\w .:,%-]*+\1"""
# Between parentheses, where no braces are, all others pair off but in a comment, in a string, and in a regular
# expression that has a backslash or a class.
_HIDES_PARENTHESES = b"\"'`\n{}\\"
# In the holes of a template string; each costs 20 microseconds.
_MOST_SLASHES = 20


def _explain(source: bytes, at: int) -> int:
    """Where that ends which begins here: a template string with more in its holes than the pattern knows, a regular
    expression behind what no value ends with, however far before it that is, a divisor behind the parentheses of no
    statement, or a string right behind a word. 0 where it is something else, or cannot be told.
    """
    sign = source[at : at + 1]
    if sign == b"`":
        return _end_of_template(source, at)
    if sign == b"/":
        return _end_of_slash(source, at)
    return _end_of_string(source, at) if sign in (b'"', b"'") else 0


def _end_of_string(source: bytes, at: int) -> int:
    if not compiled(_BEFORE_A_STRING).search(source, max(0, at - 10), at):
        return 0
    found = compiled(_string(source[at : at + 1])).match(source, at)
    return found.end() if found else 0


def _end_of_slash(source: bytes, at: int) -> int:
    if source.startswith(b"*", at + 1):
        return 0
    if compiled(_SURELY_BEFORE_A_VALUE).search(code_before(source, at, surely=True)):
        regex = compiled(rb"/" + _REGEX).match(source, at)
        return regex.end() if regex else 0
    return at + 1 if _is_behind_an_operand(source, at) else 0


def _is_behind_an_operand(source: bytes, at: int) -> bool:
    """Whether parentheses end right before a place that are a call's, or around a value; False where it is not told."""
    first, depth = max(0, at - _FAR_BYTES), 0
    before = source[first:at].rstrip(b" ")
    if not before.endswith(b")"):
        return False
    before = compiled(_PLAIN_STRING).sub(lambda match: b"_" * len(match[0]), before)
    for place in range(len(before) - 1, 0, -1):
        sign = before[place]
        if sign in _HIDES_PARENTHESES:
            return False
        depth += (sign == ord(")")) - (sign == ord("("))
        if not depth:
            inside, word = before[place:], code_before(source, first + place, surely=True)
            unsure = (b"/" in inside and b"]" in inside) or any(sign in inside for sign in (b"/*", b"*/", b"//"))
            return word[-1:] not in (b"", b"\\") and not (unsure or compiled(_BEFORE_A_STATEMENT).search(word))
    return False


# The text of a template string up to a hole or its end; and a hole's code up to a brace, a template string, or a slash
# that it does not explain.
_TEXT_OF_A_TEMPLATE = rb"(?:[^`\\$]++|\\.|\$(?!\{))*+(`|\$\{)"
_CODE_OF_A_HOLE = rb"""(?:[^{}"'`/]++|%b)*+([{}`/])""" % b"|".join((*_QUOTED, _SLASH))


def _end_of_template(source: bytes, at: int) -> int:
    """Where a template string ends, 0 where that cannot be told."""
    text, code = compiled(_TEXT_OF_A_TEMPLATE), compiled(_CODE_OF_A_HOLE)
    inside = [b"`"]  # what is open
    slashes = 0
    at += 1
    while inside and slashes <= _MOST_SLASHES:
        match = (text if inside[-1] == b"`" else code).match(source, at)
        if match is None:
            return 0
        at = match.end()
        if match[1] == b"/":
            slashes += 1
            at = _end_of_slash(source, at - 1)
            if not at:
                return 0
        elif match[1] == b"}" or (match[1] == b"`" == inside[-1]):
            inside.pop()
        else:
            inside.append(b"`" if match[1] == b"`" else b"{")
    return at if not inside else 0


BODIES = Bodies(
    _FINDER,
    doubts=_comments_of_html,
    explain=_explain,
    # Blocks that are walked through, and, in a broken object, statements that look like methods.
    blocks=rb"[^\n]*\b(?:(?:catch|%b)[ \t]*+\(|class\b)" % b"|".join(sorted(map(str.encode, STATEMENTS))),
)
