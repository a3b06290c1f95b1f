"""Python."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import (
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
    second_looks=(SecondLook(re.compile(rb"\n[ \t]+class\b"), _local_class),),
)
