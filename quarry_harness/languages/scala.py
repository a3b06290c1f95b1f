"""Scala."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Function, Rules, Scope, SecondLook, Step, children, name_of, text

_BODIES = frozenset({"template_body", "with_template_body"})


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A def; `this` is a constructor and bears its class's name."""
    name = text(node.child_by_field_name("name"), source).strip("`")
    if name == "this":
        yield Function(node, "constructor", scope.container or name, scope, node.child_by_field_name("body"))
    else:
        yield Function(node, "method" if scope.container else "function", name, scope, node.child_by_field_name("body"))


def _anonymous_class(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    """The members of `new T {..}`."""
    if node.type == "instance_expression":
        yield from (Enter(child, scope) for child in children(node) if child.type in _BODIES)


def _given(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = name_of(node, source)
    yield Enter(node, scope.inside_type(name))


RULES = Rules(
    language="scala",
    grammars={"scala": "scala"},
    extensions={"scala": "scala", "sc": "scala"},
    types=frozenset({"class_definition", "object_definition", "trait_definition", "enum_definition", "package_object"}),
    clauses=frozenset({"package_clause"}),
    clauses_stack=True,
    wrappers=frozenset({"ERROR", "template_body", "with_template_body", "enum_body", "extension_definition"}),
    searched=frozenset({"val_definition", "var_definition", "call_expression", "instance_expression"}),
    second_looks=(SecondLook(re.compile(rb"new\b"), _anonymous_class),),
    hooks={"function_definition": _definition, "function_declaration": _definition, "given_definition": _given},
)
