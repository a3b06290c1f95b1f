"""What the parser is given in place of C and C++ that only a preprocessor could read: the source without some macros.

Every offset and line break is kept: what is taken out becomes spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice

from tree_sitter import Node

from quarry_harness.languages.rules import Span, without

# Searched for in every file: each begins with a rare sign, or with a line break (a file's first line is left as it is).
_COMMENT_IN_A_MACRO = re.compile(rb"/\*[^*\n]{0,200}+(?:\*(?!/)[^*\n]{0,200}+){0,9}+\*/(?=[ \t]*\\\r?\n)")
_DOUBLY_IN_PARENTHESES = re.compile(rb"\(\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)\s*+\)(?=\s*;)")
_NAME_AND_MACRO = re.compile(rb"\b(?!(?:return|else|do|throw|co_return)\b)\w+[ \t]+([A-Z_]\w*[ \t]*)\Z")
_MACRO = rb"(?:[A-Z][A-Z0-9_]{2,}+\b|[A-Z]\w*_(?:API|EXPORT)\b)"
_CALL = _MACRO + rb"(?:\([^(){};\n]*+\)|[ \t]\([\d, ]++\))?"
_CALLS = re.compile(_CALL)
_AFTER_SMALL_WORDS = re.compile(
    rb"\n(?:template[ \t]*<[^\n;{}]*>)?([a-z0-9_ \t*]*+)(%b(?:[ \t]+%b)*+)(?=\s+[\w~:{/*&])" % (_CALL, _CALL)
)
_BEFORE_A_BODY = re.compile(rb"\)(?: const)? ([A-Z][A-Z0-9_]{2,}+)(?=\s*\{|[ \t]*=[ \t]*default\b)")
# Before a name, these words are no type: the macro is the type, or there is none.
_NO_TYPES = frozenset(
    b"case class const constexpr delete else enum explicit extern friend goto inline local namespace new register "
    b"return static struct template throw typedef typename union using virtual volatile".split()
)
_NO_HEADS = frozenset({b"return", b"else", b"case", b"new", b"throw", b"enum", b"using"})
_TEMPLATE = rb"<[^<>(){};\n]*+(?:<[^<>(){};\n]*+(?:<[^<>(){};\n]*+>[^<>(){};\n]*+)*+>[^<>(){};\n]*+)*+>"
_WORD = rb"(?!(?:return|else|case|goto|new|delete|throw|const|volatile)\b)[A-Za-z_]\w*+"
_TYPE = rb"%b(?:%b)?(?:::\w++(?:%b)?)*+(?:[ \t]+%b){0,2}?(?:[ \t]+const)?" % (_WORD, _TEMPLATE, _TEMPLATE, _WORD)
_SCOPE = rb"(?:\w++(?:%b)?::)*+" % _TEMPLATE
# A function's head, of which the macros before it are no part: a type and a name, a constructor outside its class, a
# destructor, a conversion; and a pointer to a function.
_HEAD = re.compile(
    rb"(?:[ \t]+|(?<=\n))(?:(?:const|constexpr|inline|static|virtual|explicit|friend)[ \t]+)*+(?:%b|%b|%b)"
    % (
        _TYPE
        + rb"(?:[ \t]*[*&][*&\s]*|\s+)(?:\(\*\s*\w++\)|%b(?:operator[ \t]*[^\s\w(]+|\w++))[ \t]*\((?!\()" % _SCOPE,
        rb"(?:\w+::)*(\w++)(?:%b)?::\1[ \t]*\(" % _TEMPLATE,
        _SCOPE + rb"(?:~\w+[ \t]*\(|operator\b)",
    )
)
_NAME = re.compile(rb"\s+(?:explicit[ \t]+)?[*& \t]*([A-Za-z_]\w*+)[ \t]*(?:[A-Z_]\w*[ \t]*\()?\(")
_COMMENTS = rb"(?:\s|//[^\n]*+|/\*[^*]{0,2000}+(?:\*(?!/)[^*]{0,2000}+){0,99}+\*/)*+"
_CLASS_NAME = re.compile(rb"\s+[A-Za-z_]\w*+")
_CLASS_BODY = re.compile(rb"\s*(?:final\b)?%b[:{]" % _COMMENTS)
_CLASSES_NAMED = [
    re.compile(rb"%b[ \t]+(?:%b[ \t]+)*+([A-Za-z_]\w*+)" % (word, _CALL)) for word in (b"class", b"struct", b"union")
]
# Clang's annotations for its analysis of thread safety, under the names that its manual gives them.
_LOCKS = {
    word: re.compile(word + rb"[ \t]*\([^(){};]*+(?:\([^(){};]*+\)[^(){};]*+)*+\)")
    for word in (b"GUARDED_BY", b"LOCKS_REQUIRED", b"LOCKS_EXCLUDED", b"LOCK_FUNCTION", b"E_LOCK", b"D_LOCK")
}
_BEFORE_A_LOCK = re.compile(rb"(?<!\w)(?:ABSL_)?(?:PT_|EXCLUSIVE_|SHARED_|UN|ASSERT_EXCLUSIV|ASSERT_SHARE)?\Z")


def plain_c(source: bytes) -> bytes:
    """The source without what the grammar cannot read, every offset and line break kept.

    A comment inside a macro ends it there; `OF` in `int f OF((int a));`, `CALL` in `int CALL f(int a)` and `API` in
    `API type f(int a)` are taken for types or names.
    """
    return without(source, _macros(source, frozenset))


def plain_cpp(source: bytes) -> bytes:
    """As in C; and without the macros in `class API Foo {`, behind which the grammar sees a function's statements, in
    `API X::X() {` and, inside a class of the file, `API X() {`, in `f() NOEXCEPT {`, and in `int x GUARDED_BY(m);`,
    which it takes for a function.
    """
    spans = _macros(source, lambda: frozenset(name for one in _CLASSES_NAMED for name in one.findall(source)))
    spans += [match.span(1) for match in _BEFORE_A_BODY.finditer(source)]
    if b"LOCK" in source or b"GUARDED_BY" in source:
        spans += [span for word, pattern in _LOCKS.items() if word in source for span in _locks(pattern, source)]
    return without(source, spans)


def _macros(source: bytes, find_classes: Callable[[], frozenset[bytes]]) -> list[Span]:
    classes = cache(find_classes)
    spans = [match.span() for match in _COMMENT_IN_A_MACRO.finditer(source)]
    spans += [_in_front(match, classes) for match in _AFTER_SMALL_WORDS.finditer(source)]
    for match in _DOUBLY_IN_PARENTHESES.finditer(source):
        before = max(0, match.start() - 200)
        if macro := _NAME_AND_MACRO.search(source[before : match.start()]):
            spans += [(before + macro.start(1), match.start() + 1), (match.end() - 1, match.end())]
    return spans


def _in_front(match: re.Match[bytes], classes: Callable[[], frozenset[bytes]]) -> Span:
    """Which words in capitals, with nothing but small words before them in their line, are neither type nor name."""
    before, source, (start, end) = match[1], match.string, match.span(2)
    words = before.replace(b"*", b" ").split()
    if (before and not before.endswith((b" ", b"\t", b"*"))) or (words and words[-1] in _NO_HEADS):
        return end, end
    last = start + [one.start() for one in _CALLS.finditer(match[2])][-1]
    if words and words[-1] in (b"class", b"struct", b"union"):
        name = _CLASS_NAME.match(source, end)
        named = name is not None and _CLASS_BODY.match(source, name.end()) is not None
        return start, (end if named else last if _CLASS_BODY.match(source, end) is not None else start)
    if _HEAD.match(source, end) is not None:
        return start, end
    name = _NAME.match(source, end)
    if name is None:
        return end, end
    untyped = _NO_TYPES.issuperset(words)
    whole = name[1] in classes() if untyped else not before[:1].isspace()
    return start, (end if whole else last)


def _locks(pattern: re.Pattern[bytes], source: bytes) -> Iterator[Span]:
    for match in pattern.finditer(source):
        first = max(0, match.start() - 40)
        start = _BEFORE_A_LOCK.search(source, first, match.start())
        if start is not None and not source.endswith(b"define", 0, start.start() - 1):
            yield start.start(), match.end()


# Searched for where the tree has errors.
_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*(if|el|endif|)(?:[^\n\\/]++|\\.|/(?!\*)|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z))*+", re.S
)
_NO_CODE = re.compile(
    rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)|//[^\n]*+|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'",
    re.S,
)
_BEGINS_WITHIN = re.compile(rb"\s*[:,?|.=)\]]")
_ENDS_WITHIN = re.compile(rb"(?:[,?|=&(+<]|\belse)\s*\Z")
_ALONE = re.compile(
    rb"\n([ \t]*+)(%b([ \t]?\([^{};\n]*\))?)[ \t]*(?:/[*/][^\n]*)?\r?(?=\n|\Z)(?=(%b))" % (_MACRO, _COMMENTS)
)
_NO_FUNCTION = re.compile(rb"(?:(?:template|class|struct|union|enum|namespace|using|typedef|extern)\b|#|\Z)")
_TOP_CALL = re.compile(rb"\n([A-Z]\w*\([^(){};\"]{0,300}(?:\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"\s*)++\);)")
_PARENTHESIS = re.compile(rb"[()]")
_ANY_BEHIND = re.compile(rb"\)(?=\s*+(?:[a-z]+\s++){0,3}+%b)" % _MACRO)
_BEHIND, _BEHIND_IN_C = (
    re.compile(
        rb"\n[ \t]*(?:(?!(?:return|else|case)\b)[A-Za-z_][\w:<>,*& \t]{0,200}[ \t*&])?"
        rb"(?!(?:if|for|while|switch|return|sizeof)\b)(?:~?\w++|\(\*\w+\))[ \t]*"
        rb"\([^(){};]{0,1000}+(?:\([^(){};]{0,1000}+\)[^(){};]{0,1000}+){0,100}+\)%b(?=\s*[;{])" % macro
    )
    for macro in (
        rb"(?:[ \t]+(?:const|noexcept|override|final)\b)*+[ \t]+(%b)" % _MACRO,
        rb"\s+(%b(?:\s+%b)*+)" % (_CALL, _CALL),
    )
)


def _masked(behind: re.Pattern[bytes], source: bytes, _root: Node) -> Iterator[bytes]:
    """The source without branches of an `#if` that splits a statement, lines that are one macro, calls of macros with a
    string in the first column, and macros behind a function's parameters."""
    spans, alone = [*_split_conditionals(source), *_macros_behind(behind, source)], [*_lone_macros(source)]
    spans += [match.span(1) for match in _TOP_CALL.finditer(source)]
    if spans or alone:
        left = without(source, spans)
        masked = bytearray(without(left, [span for span, _ in alone]))
        for (start, end), head in alone:
            if left[start:end] == source[start:end]:
                masked[start : start + len(head)] = head
        yield bytes(masked)


def _macros_behind(behind: re.Pattern[bytes], source: bytes) -> Iterator[Span]:
    """Macros between a function's parameters and its body or semicolon: found at the parenthesis, which is rare, and
    proved from the line that has the other one."""
    for found in islice(_ANY_BEHIND.finditer(source), 10_000):
        close = found.start()
        first = max(0, close - 3_000)
        # No head goes on beyond one of these.
        first = max(first, *(source.rfind(sign, first, close) for sign in (b";", b"{", b"}")))
        line = source.rfind(b"\n", first, _opening(source, first, close))
        head = behind.match(source, line) if line >= 0 else None
        if head is not None and source.rfind(b")", 0, head.start(1)) == close:
            yield head.span(1)


def _opening(source: bytes, first: int, close: int) -> int:
    """Where the parenthesis is opened that is closed at `close`; `first` where that is not behind it."""
    depth = 0
    for sign in reversed([*_PARENTHESIS.finditer(source, first, close + 1)]):
        depth += 1 if sign[0] == b")" else -1
        if not depth:
            return sign.start()
    return first


def _split_conditionals(source: bytes) -> Iterator[Span]:
    """All but the first branch of each `#if` that splits a statement, and the lines of its directives: of those inside
    parentheses, and those in a body with a branch that leaves a bracket open, or begins or ends within an expression.
    """
    now, end, begins = (0, 0), 0, False
    groups: list[_Group] = []
    for match in _DIRECTIVE.finditer(source):
        code = _NO_CODE.sub(b" ", source[end : match.start()])
        now, end, word = _open(code, now), match.end(), match[1]
        if groups and begins:
            groups[-1].splits |= _BEGINS_WITHIN.match(code) is not None
        begins = word in (b"if", b"el")
        if word == b"if":
            groups.append(_Group(now))
        if not word or not groups:
            continue
        group = groups[-1]
        group.directives.append(match.span())
        if word != b"if":
            group.splits |= now != group.outside or _ENDS_WITHIN.search(code, len(code) - 100) is not None
            group.after = group.after or now
            now = group.outside
        if word == b"endif":
            groups.pop()
            now = group.after or now
            braces, parentheses = group.outside
            if parentheses or (braces and group.splits):
                yield group.directives[0]
                yield group.directives[1][0], group.directives[-1][1]


def _open(code: bytes, before: tuple[int, int]) -> tuple[int, int]:
    """How many braces are open after this code, and how many parentheses since the last brace or statement."""
    since = max(code.rfind(b";"), code.rfind(b"{"), code.rfind(b"}")) + 1
    parentheses = code.count(b"(", since) - code.count(b")", since) + (0 if since else before[1])
    return before[0] + code.count(b"{") - code.count(b"}"), max(0, parentheses)


class _Group:
    """An `#if` up to its `#endif`."""

    __slots__ = ("after", "directives", "outside", "splits")

    def __init__(self, outside: tuple[int, int]) -> None:
        self.outside = outside
        self.directives: list[Span] = []
        self.after: tuple[int, int] | None = None  # behind the first branch
        self.splits = False


def _lone_macros(source: bytes) -> Iterator[tuple[Span, bytes]]:
    """Lines that are one macro, and what to put there: in front of a function's head, whose first line they are, a word
    that may stand there.
    """
    words: dict[int, bytes] = {}  # by where the macro starts
    for match in reversed([*_ALONE.finditer(source)]):
        indent, (start, end), arguments, at = match[1], match.span(2), match[3], match.end(4)
        if source[max(0, match.start() - 200) : match.start()].rstrip()[-1:] in b"|,=(+&?<-*!%^\\":
            continue
        head = _HEAD.match(source, at - 1) or _HEAD.match(source, at)
        alone = (source.startswith(b"}", at) and not arguments) or (
            indent and re.match(rb"[ \t][A-Za-z_~]", source[at - 1 : at + 1])
        )
        if head and not arguments and end - start >= len(b"inline"):
            words[start] = b"inline"
        elif _NO_FUNCTION.match(source, at) or (alone and not head and at not in words):
            words[start] = b""
        elif at in words and (not words[at] or (not arguments and end - start >= len(words[at]))):
            words[start] = words[at]
        else:
            continue
        yield (start, end), words[start]


mask_c = partial(_masked, _BEHIND_IN_C)
mask_cpp = partial(_masked, _BEHIND)
