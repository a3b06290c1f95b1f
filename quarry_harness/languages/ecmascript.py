"""JavaScript and TypeScript."""

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
    dotted,
    name_of,
    text,
)

_FUNCTION_VALUES = frozenset({"arrow_function", "function_expression"})
_GENERATORS = frozenset({"generator_function", "generator_function_declaration"})
_DECLARATIONS = {
    "function_declaration": "function",
    "function_signature": "function",
    "generator_function_declaration": "generator",
}
_CLASSES = frozenset({"class_declaration", "abstract_class_declaration", "interface_declaration"})


def _outermost(node: Node) -> Node:
    """The node with the words around it that belong to it: `export`, `declare`."""
    while node.parent is not None and node.parent.type in ("export_statement", "ambient_declaration"):
        node = node.parent
    return node


def _declaration(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = name_of(node, source) or "default"
    yield Function(_outermost(node), _DECLARATIONS[node.type], name, scope, node.child_by_field_name("body"))


def _variables(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A variable that is a function has its whole declaration; one that is an object may have methods."""
    for declarator in children(node):
        if declarator.type != "variable_declarator":
            continue
        value = declarator.child_by_field_name("value")
        if value is None:
            continue
        if value.type in _FUNCTION_VALUES:
            name = text(declarator.child_by_field_name("name"), source)
            yield Function(_outermost(node), "function", name, scope, value.child_by_field_name("body"))
        else:
            yield from _value(value, scope, source)


def _value(value: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A value in which something may be found: an object's methods; what it calls or builds is only searched."""
    if value.type == "object":
        yield Enter(value, scope)
    elif value.type == "class":
        yield Enter(value, scope.inside_type(name_of(value, source) or _assigned_name(value, source)))
    elif value.type in ("parenthesized_expression", "as_expression", "satisfies_expression"):
        inner = value.named_child(0)
        if inner is not None:
            yield from _value(inner, scope, source)


def _assigned_name(value: Node, source: bytes) -> str:
    parent = value.parent
    return text(parent.child_by_field_name("name"), source) if parent is not None else ""


def _expression(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    inner = node.named_child(0)
    if inner is None:
        return
    if inner.type == "assignment_expression":
        yield from _assignment(inner, scope, source)
    elif inner.type == "internal_module":
        yield from _module(inner, scope, source)


def _assignment(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`X.prototype.y = function`, `exports.y = () =>`; `module.exports = {..}` holds methods."""
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    if left is None or right is None:
        return
    if right.type == "assignment_expression":
        yield from _assignment(right, scope, source)
    if left.type == "member_expression" and right.type in _FUNCTION_VALUES:
        owner = dotted(left.child_by_field_name("object"), source)
        name = text(left.child_by_field_name("property"), source)
        if owner.endswith(".prototype"):
            scope = scope.inside_type(owner.removesuffix(".prototype"))
        yield Function(node, "method" if scope.container else "function", name, scope, right.child_by_field_name("body"))
    else:
        yield from _value(right, scope, source)


def _method(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = text(node.child_by_field_name("name"), source)
    kind = "constructor" if name == "constructor" and scope.container else "method"
    for child in children(node):
        if child.type in ("get", "set"):
            kind = "method"
        if child.type == "property_identifier":
            break
    yield Function(node, kind, name, scope, node.child_by_field_name("body"))


def _field(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    value = node.child_by_field_name("value")
    if value is not None and value.type in _FUNCTION_VALUES:
        name = text(node.child_by_field_name("name") or node.child_by_field_name("property"), source)
        yield Function(node, "field_function", name, scope, value.child_by_field_name("body"))


def _export(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    value = node.child_by_field_name("value")
    if value is None:
        yield Enter(node, scope)
    elif value.type in _FUNCTION_VALUES:
        name = name_of(value, source) or "default"
        yield Function(node, "function", name, scope, value.child_by_field_name("body"))
    else:
        yield from _value(value, scope, source)


def _module(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    body = node.child_by_field_name("body")
    if body is not None:
        name = text(node.child_by_field_name("name"), source).strip("\"'")
        yield Enter(body, scope.inside_namespace(name))


def _returned(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """The object that a function returns."""
    if node.type == "object" and node.parent is not None and node.parent.type == "return_statement":
        yield Enter(node, scope)


_HOOKS = {
    **dict.fromkeys(_DECLARATIONS, _declaration),
    "lexical_declaration": _variables,
    "variable_declaration": _variables,
    "expression_statement": _expression,
    "method_definition": _method,
    "field_definition": _field,
    "export_statement": _export,
}
_WRAPPERS = frozenset({"ERROR", "class_body", "statement_block", "if_statement", "else_clause"})
_SECOND_LOOK = SecondLook(re.compile(rb"\breturn\s*\{"), _returned)

JAVASCRIPT = Rules(
    language="javascript",
    grammars={"javascript": "javascript"},
    extensions=dict.fromkeys(("js", "jsx", "mjs", "cjs", "es6"), "javascript"),
    types=_CLASSES,
    wrappers=_WRAPPERS,
    hooks=_HOOKS,
    second_look=_SECOND_LOOK,
)

TYPESCRIPT = Rules(
    language="typescript",
    grammars={"typescript": "typescript", "tsx": "tsx"},
    extensions={**dict.fromkeys(("ts", "mts", "cts"), "typescript"), "tsx": "tsx"},
    functions={"method_signature": "method", "abstract_method_signature": "method"},
    types=_CLASSES,
    wrappers=_WRAPPERS | {"interface_body", "ambient_declaration"},
    hooks={
        **_HOOKS,
        "public_field_definition": _field,
        "internal_module": _module,
        "module": _module,
    },
    second_look=_SECOND_LOOK,
)
