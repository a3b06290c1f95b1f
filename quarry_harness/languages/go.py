"""Go."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.bodies import COMMENT, DIVISION, LINE_COMMENT, bodies
from quarry_harness.languages.rules import Bodies, Enter, Function, Rules, Scope, Step, dotted, first_named, name_of


def _receiver_type(node: Node, source: bytes) -> str:
    """The receiver's type name, without `*`, parentheses, type arguments."""
    receiver = node.child_by_field_name("receiver")
    parameter = first_named(receiver) if receiver is not None else None
    kind = parameter.child_by_field_name("type") if parameter is not None else None
    while kind is not None and kind.type in ("pointer_type", "parenthesized_type", "generic_type"):
        kind = kind.child_by_field_name("type") or first_named(kind)
    return dotted(kind, source)


def _method(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    inner = scope.inside_type(_receiver_type(node, source))
    yield Function(node, "method", name_of(node, source), inner)


def _type_spec(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    # Only an interface that has a name: the methods of one inside a struct field or a signature are not chunks.
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type == "interface_type":
        yield Enter(kind, scope.inside_type(name_of(node, source)))


_PLAIN = rb"""[^(){};"'`/]{0,200}+(?:\{\}[^(){};"'`/]{0,200}+){0,9}+"""
_LINE = rb"""[^(){};"'`/\n]{0,200}+(?:\{\}[^(){};"'`/\n]{0,200}+){0,9}+"""
# The brace stands in the line in which the last parenthesis is closed.
_FINDER = bodies(
    (COMMENT, LINE_COMMENT, DIVISION, rb'"(?:[^"\\\n]++|\\[^\n])*+"', rb"`[^`]*+`", rb"'(?:[^'\\\n]++|\\[^\n])++'"),
    (rb"f(?<!\wf)unc\b%b(?:\(%b(?:\(%b(?:\(%b\)%b){0,9}+\)%b){0,9}+\)%b){1,3}+" % (_LINE, *(_PLAIN,) * 5, _LINE),),
)

RULES = Rules(
    language="go",
    grammars={"go": "go"},
    extensions={"go": "go"},
    functions={"function_declaration": "function", "method_elem": "method"},
    clauses=frozenset({"package_clause"}),
    wrappers=frozenset({"ERROR", "type_declaration"}),
    hooks={"method_declaration": _method, "type_spec": _type_spec, "type_alias": _type_spec},
    bodies=Bodies(_FINDER),
)
