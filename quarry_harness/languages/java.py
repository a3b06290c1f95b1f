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
    if node.type == "object_creation_expression":
        last = node.child(node.child_count - 1)
        return (Enter(last, scope),) if last is not None and last.type == "class_body" else ()
    return (Enter(node, scope.inside_type(name_of(node, source))),) if node.type in _TYPES else ()


# `new T(..) {..}`: from `new`, no semicolon and no closing brace comes before something that may be, or hide, a brace.
_NEW = re.compile(rb"""new(?=\s[^;"'/{}]{0,120}+[^;}])""")
_SECOND_LOOKS = (
    SecondLook(_NEW, _local_type),
    *(
        # One pattern a word, each with a literal beginning, is several times as fast as one for all.
        SecondLook(re.compile(word + rb"(?=\s+\w)"), _local_type, word=word)
        for word in (b"class", b"interface", b"enum", b"record")
    ),
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
)
