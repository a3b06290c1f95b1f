"""Scala."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Function, Rules, Scope, SecondLook, Step, children, name_of, text

_BODIES = frozenset({"template_body", "with_template_body"})

# What may stand in a template and hold an anonymous class.
_EXPRESSIONS = frozenset(
    {"block", "instance_expression", "lambda_expression", "parenthesized_expression", "tuple_expression"}
    | {"call_expression", "field_expression", "generic_function", "method_value", "macro_body"}
    | {"infix_expression", "prefix_expression", "postfix_expression", "ascription_expression", "assignment_expression"}
    | {"if_expression", "match_expression", "for_expression", "while_expression", "do_while_expression"}
    | {"try_expression", "throw_expression", "return_expression", "interpolated_string_expression"}
)


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A def, backquotes and all; `this` is a constructor and bears its class's name. Default values are searched."""
    name = text(node.child_by_field_name("name"), source)
    kind = "method" if scope.container else "function"
    if name == "this":
        kind, name = "constructor", scope.container or name
    yield Function(node, kind, name, scope, body=node, last=_block_below(node, source))


_BRACE_BELOW = re.compile(rb"[ \t]*\r?\n[ \t]*\{")


def _block_below(node: Node, source: bytes) -> Node | None:
    """The body of a procedure, `def f()` without a type, whose brace is on the next line: to the grammar a sibling."""
    if node.type != "function_declaration" or node.child_by_field_name("return_type") is not None:
        return None
    below = node.next_sibling if _BRACE_BELOW.match(source, node.end_byte) else None
    return below if below is not None and below.type == "block" else None


def _anonymous_class(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    """The members of `new T {..}`; of `new {..} with T {..}`, whose last braces are an argument to the grammar."""
    if node.type == "instance_expression":
        yield from (Enter(child, scope) for child in children(node) if child.type in _BODIES)
        if node.parent is not None and any(child.type == "early_defs" for child in children(node)):
            yield from (Enter(child, scope) for child in children(node.parent) if child.type == "block")


def _given(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = name_of(node, source)
    yield Enter(node, scope.inside_type(name))


_SCALA_3_WORD = re.compile(rb"\b(?:enum|given|inline)\b(?!\s+[\w`\[(])")


def mask_names(source: bytes, _root: Node) -> Iterator[bytes]:
    """The source with what are names in Scala 2 and keywords in Scala 3 in capitals, where no declaration follows."""
    masked = _SCALA_3_WORD.sub(lambda match: match.group().upper(), source)
    if masked != source:
        yield masked


RULES = Rules(
    language="scala",
    grammars={"scala": "scala"},
    package="tree-sitter-scala",
    extensions={"scala": "scala", "sc": "scala"},
    types=frozenset({"class_definition", "object_definition", "trait_definition", "enum_definition", "package_object"}),
    clauses=frozenset({"package_clause"}),
    clauses_stack=True,
    wrappers=frozenset({"ERROR", "template_body", "with_template_body", "enum_body", "extension_definition"}),
    searched=_EXPRESSIONS | {"val_definition", "var_definition", "class_parameters", "extends_clause"},
    second_looks=(SecondLook(re.compile(rb"new\b"), _anonymous_class),),
    hooks={"function_definition": _definition, "function_declaration": _definition, "given_definition": _given},
    masked=mask_names,
)
