"""Java."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.bodies import COMMENT, DIVISION, LINE_COMMENT, bodies
from quarry_harness.languages.rules import Bodies, Enter, Rules, Scope, SecondLook, Step, name_of

_TYPES = frozenset(
    {
        "class_declaration",
        "interface_declaration",
        "enum_declaration",
        "record_declaration",
        "annotation_type_declaration",
    }
)


def _local_type(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """The body of an anonymous class, or a type declared in a body."""
    if node.type == "object_creation_expression":
        last = node.child(node.child_count - 1)
        return (Enter(last, scope),) if last is not None and last.type == "class_body" else ()
    return (Enter(node, scope.inside_type(name_of(node, source))),) if node.type in _TYPES else ()


# `new T(..) {..}`: not where a plain type's name is followed by something else, or the parentheses are followed by no
# brace and no comment. What is nested deeply, or long, stays; the limits bound the cost of hostile text.
_NAME = rb"\s++[\w$\x80-\xff]++(?:\s*+\.\s*+[\w$\x80-\xff]++)*+\s*+"
_PLAIN = rb"""[^()"'/{};]{0,80}"""
_ARGUMENTS = rb"""\((?:%b+(?:"[^"\\\n]{0,80}+"|'(?:[^'\\\n]|\\[^\n])'|\(%b+(?:\(%b+\)%b+)?\))?){0,5}+\)""" % (
    (_PLAIN,) * 4
)
_NEW = re.compile(rb"new(?=\s++[@</]|%b[(<@/.])(?!%b(?:<%b>\s*+)?%b\s*+[^\s{/])" % (_NAME, _NAME, _PLAIN, _ARGUMENTS))
_SECOND_LOOKS = (
    SecondLook(_NEW, _local_type),
    *(
        # One pattern a word, each with a literal beginning, is several times as fast as one for all. Nearly every file
        # has the word `class`, few have the others.
        SecondLook(
            re.compile(rb"%b(?=\s+[\w$\x80-\xff]+\s*[%b<@/])" % (word, follows)),
            _local_type,
            word=word if word != b"class" else b"",
        )
        for word, follows in ((b"class", b"{eip"), (b"interface", b"{ep"), (b"enum", b"{i"), (b"record", b"("))
    ),
)

_FINDER = bodies(
    (
        COMMENT,
        LINE_COMMENT,
        DIVISION,
        rb"""\"\"\"(?:[^"\\]++|\\.|"(?!""))*+\"\"\"""",
        rb'"(?:[^"\\\n]++|\\.)*+"(?!")',
        rb"'(?:[^'\\\n]++|\\.)++'",
    ),
    (rb"\)\s*+(?:throws\b[\w\s.,]*+)?",),
)

RULES = Rules(
    language="java",
    grammars={"java": "java"},
    extensions={"java": "java"},
    functions={
        "method_declaration": "method",
        "constructor_declaration": "constructor",
        "compact_constructor_declaration": "constructor",
        "annotation_type_element_declaration": "annotation_element",
    },
    types=_TYPES,
    clauses=frozenset({"package_declaration"}),
    wrappers=frozenset(
        {
            "ERROR",
            "class_body",
            "interface_body",
            "enum_body",
            "enum_body_declarations",
            "annotation_type_body",
            "enum_constant",
        }
    ),
    searched=frozenset({"field_declaration", "constant_declaration", "static_initializer", "block", "argument_list"}),
    second_looks=_SECOND_LOOKS,
    ambiguous=b"<=",
    bodies=Bodies(_FINDER, stays_behind_a_place=True),
)
