"""Rust."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.bodies import DIVISION, LINE_COMMENT, bodies
from quarry_harness.languages.rules import Bodies, Enter, Rules, Scope, Step, dotted, first_named, text

_AROUND_A_TYPE = frozenset({"reference_type", "pointer_type", "generic_type", "dynamic_type", "array_type"})


def _name(node: Node, source: bytes) -> str:
    """The name without the mark of a raw identifier."""
    return text(node.child_by_field_name("name"), source).removeprefix("r#")


def _impl(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """Members of an `impl` belong to the type it is for, named without path, reference and arguments."""
    kind = node.child_by_field_name("type")
    while kind is not None and kind.type in _AROUND_A_TYPE:
        inner = kind.child_by_field_name("type") or kind.child_by_field_name("trait")
        kind = inner or kind.child_by_field_name("element") or first_named(kind)
    if kind is not None and kind.type == "scoped_type_identifier":
        kind = kind.child_by_field_name("name")
    yield Enter(node, scope.inside_type(dotted(kind, source).removeprefix("r#")))


_FINDER = bodies(
    (
        rb"/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/",  # comments nest; one with another inside is not read
        LINE_COMMENT,
        DIVISION,
        rb'"(?<=r")[^"]*+"',
        rb'"(?:[^"\\]++|\\.)*+"',
        rb'#"(?<=r#")(?:[^"]++|"(?!#))*+"#(?!#)',
        rb'##"(?<=r##")(?:[^"]++|"(?!##))*+"##',
        rb'#(?!#{0,40}")',  # more of them than any string has: searched no further
        rb"'(?:[^'\\\n]|[\x80-\xff]{2,4}|\\(?:u\{[^{}\n]*\}|x..|[^\n]))'",
        rb"'(?=\w)",  # a lifetime
    ),
    (rb"""f(?<!\wf)n\s++\w[^{};"/]{0,1000}+""",),
)

RULES = Rules(
    language="rust",
    grammars={"rust": "rust"},
    extensions={"rs": "rust"},
    functions={"function_item": "function", "function_signature_item": "function"},
    types=frozenset({"trait_item"}),
    namespaces=frozenset({"mod_item"}),
    wrappers=frozenset({"ERROR", "declaration_list", "foreign_mod_item"}),
    hooks={"impl_item": _impl},
    name=_name,
    bodies=Bodies(_FINDER),
)
