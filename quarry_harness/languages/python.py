"""Python."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import (
    Bodies,
    Enter,
    Function,
    Rules,
    Scope,
    SecondLook,
    Step,
    children,
    first_named,
    name_of,
    text,
)

_PROPERTY = re.compile(
    r"(?:\w+\s*\.\s*)*(?:property|cached_property|abstractproperty)\b|.*\.\s*(?:setter|getter|deleter)\s*$"
)


def _decorated(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A decorated def has its decorator lines; one that a property decorator makes a property is none of its own."""
    definition = node.child_by_field_name("definition")
    if definition is None:
        return
    if definition.type == "class_definition":
        yield Enter(definition, scope.inside_type(name_of(definition, source)))
        return
    kind = "method" if scope.container else "function"
    # A decorator's node goes on to the end of its line, comment and all: what it names is its expression.
    decorators = (first_named(child) for child in children(node) if child.type == "decorator")
    if scope.container and any(_PROPERTY.match(text(one, source)) for one in decorators):
        kind = "property"
    yield Function(node, kind, name_of(definition, source), scope, definition.child_by_field_name("body"))


def _local_class(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    if node.type == "class_definition":
        yield Enter(node, scope.inside_type(name_of(node, source)))


_STRINGS = (
    rb"""\"\"\"(?:[^"\\]++|\\.|"(?!""))*+\"\"\"""",
    rb"'''(?:[^'\\]++|\\.|'(?!''))*+'''",
    rb'"(?!"")(?:[^"\\\n]++|\\.)*+"',
    rb"'(?!'')(?:[^'\\\n]++|\\.)*+'",
)
_COMMENT = rb"#[^\n]*+"
_OPAQUE = b"|".join((*_STRINGS, _COMMENT))
_PART = rb"""(?:[^()"'#]{0,1000}+(?:%b)?+){0,99}+""" % _OPAQUE
_PARAMETERS = rb"\(%b(?:\(%b(?:\(%b\)%b){0,99}+\)%b){0,99}+\)" % ((_PART,) * 5)
_HEAD = rb"""\n([ \t]*+)(?:async[ \t]++)?def\b[^()"'#:\n]*+%b[^()"'#:\n]*+:[ \t]*+(?:%b)?\n""" % (_PARAMETERS, _COMMENT)
_CODE = rb"""(?![\s#])(?:[^\n"'#\\]++|\\.|%b)*+\n""" % _OPAQUE
_NO_CODE = rb"[ \t]*+(?:%b)?\n" % _COMMENT
_FINDER = b"|".join(
    (
        *_STRINGS,
        _COMMENT,
        # The body from the blank before its first sign to the line break behind its last one; no line is indented less
        # than the first.
        rb"%b(?:%b)*+(?=([ \t]++))\1[ \t]*?([ \t]%b(?:(?:%b)*+\2[ \t]*+%b)*+)"
        % (_HEAD, _NO_CODE, _CODE, _NO_CODE, _CODE),
        *(b"%b()" % sign for sign in (b"'", b'"')),
    )
)


def _is_unclear(source: bytes, start: int, end: int) -> bool:
    """Whether a body's last sign is not the end of its function, or its first or last line has no room for quotes."""
    last = source[source.rfind(b"\n", 0, end) + 1 : end]
    first = source.find(b"\n", start, end)
    return min(len(last), first - start if first >= 0 else 3) < 3 or b"#" in last or last.endswith(_NO_ENDS)


_NO_ENDS = (b";", b" ", b"\t", b"\r")


# A star right behind an operator, hundreds of times in code without strings and comments: 2,000 take gigabytes.
_STARS = re.compile(
    rb"""(?:\*(?:%b)[^"'#*]*+){300}""" % b"|".join(rb"(?<=[-+/%%|&^<>@~!]\s{%d}\*)" % n for n in range(4))
)

RULES = Rules(
    language="python",
    grammars={"python": "python"},
    extensions={"py": "python", "pyi": "python", "pyw": "python"},
    functions={"function_definition": "function"},
    types=frozenset({"class_definition"}),
    wrappers=frozenset(
        {
            "ERROR",
            "block",
            "if_statement",
            "elif_clause",
            "else_clause",
            "try_statement",
            "except_clause",
            "except_group_clause",
            "finally_clause",
            "with_statement",
            "for_statement",
            "while_statement",
            "match_statement",
            "case_clause",
        }
    ),
    hooks={"decorated_definition": _decorated},
    hard=(b"*", 300, _STARS),
    levels_are_few=True,
    second_looks=(SecondLook(re.compile(rb"\n[ \t]+class\b"), _local_class),),
    bodies=Bodies(_FINDER, sign=b":", opening=b'"""', closing=b'"""', stays=_is_unclear),
)
