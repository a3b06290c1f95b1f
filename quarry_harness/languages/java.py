"""Java."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Rules, Scope, SecondLook, Step, name_of

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
    if node.type in _TYPES:
        yield Enter(node, scope.inside_type(name_of(node, source)))
    elif node.type == "object_creation_expression":
        yield from (Enter(child, scope) for child in node.named_children[-1:] if child.type == "class_body")


# `new T(..) {..}`: what follows, strings skipped, reaches a brace or something harder to read before a semicolon.
_NEW = re.compile(
    rb"""new\b(?=(?>[^;{}"'/]|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'){0,120}+[^;}])""",
)
# One pattern a word, each with a literal beginning, is several times as fast as one for all.
_LOCAL = [re.compile(word + rb"(?=\s+\w)") for word in (b"class", b"interface", b"enum", b"record")]

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
    second_looks=tuple(SecondLook(pattern, _local_type) for pattern in (_NEW, *_LOCAL)),
)
