"""Scala."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Function, Rules, Scope, Step, name_of, text


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A def; `this` is a constructor and bears its class's name."""
    name = text(node.child_by_field_name("name"), source).strip("`")
    if name == "this":
        yield Function(node, "constructor", scope.container or name, scope)
    else:
        yield Function(node, "method" if scope.container else "function", name, scope)


def _given(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = name_of(node, source)
    yield Enter(node, scope.inside_type(name))


RULES = Rules(
    language="scala",
    grammars={"scala": "scala"},
    extensions={"scala": "scala", "sc": "scala"},
    types=frozenset(
        {"class_definition", "object_definition", "trait_definition", "enum_definition", "package_object"}
    ),
    clauses=frozenset({"package_clause"}),
    clauses_stack=True,
    wrappers=frozenset({"ERROR", "template_body", "with_template_body", "enum_body", "extension_definition"}),
    hooks={"function_definition": _definition, "function_declaration": _definition, "given_definition": _given},
)
