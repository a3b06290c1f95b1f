"""JavaScript and TypeScript: one family, three grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from quarry_harness.languages.bodies import COMMENT
from quarry_harness.languages.ecmascript_bodies import BODIES, STATEMENTS, TO_THE_LINES_END, code_before
from quarry_harness.languages.rules import (
    Enter,
    Function,
    Look,
    Rules,
    Scope,
    SecondLook,
    Step,
    children,
    dotted,
    first_named,
    name_of,
    text,
)

_FUNCTION_VALUES = {"arrow_function": "function", "function_expression": "function", "generator_function": "generator"}
_AROUND_A_VALUE = frozenset({"parenthesized_expression", "as_expression", "satisfies_expression", "type_assertion"})
_BESIDE_A_VALUE = frozenset({"type_arguments", "comment"})
# What a name is assigned to that stands outside all functions, wherever the assignment is.
_GLOBALS = frozenset({"exports", "module", "window", "global", "globalThis", "self", "console", "process"})


def _value(node: Node | None) -> Node | None:
    """An expression without the parentheses and type assertions around it."""
    if node is not None and node.type == "member_expression":
        node = _asserted(node)
    while node is not None and node.type in _AROUND_A_VALUE:
        node = next((child for child in children(node) if child.is_named and child.type not in _BESIDE_A_VALUE), None)
    return node


def _asserted(node: Node) -> Node:
    """`f as A.B`, which the grammar may read as the member `B` of `f as A`."""
    inner: Node | None = node
    while inner is not None and inner.type == "member_expression":
        inner = inner.child_by_field_name("object")
    return inner if inner is not None and inner.type in ("as_expression", "satisfies_expression") else node


def _key(node: Node | None, source: bytes) -> str:
    """A property's name, a quoted one without its quotes."""
    name = text(node, source)
    return name[1:-1] if node is not None and node.type == "string" else name


def _body(node: Node) -> Node | None:
    return node.child_by_field_name("body")


def _method(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    name = _key(node.child_by_field_name("name"), source)
    if name in STATEMENTS and node.has_error:
        return  # error recovery has made a method of a statement; `return(value) {..}` is one
    kind = "constructor" if name == "constructor" and scope.container else "method"
    yield Function(node, kind, name, scope, _body(node))


def _field(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A class field that holds a function."""
    value = _value(node.child_by_field_name("value"))
    if value is not None and value.type in _FUNCTION_VALUES:
        name = node.child_by_field_name("property") or node.child_by_field_name("name")
        yield Function(node, "field_function", _key(name, source), scope, _body(value))


def _may_hold_functions(node: Node, source: bytes) -> bool:
    """False for most statements (`const a = require("a")`), which then cost no look at their nodes."""
    statement = source[node.start_byte : node.end_byte]
    return b"{" in statement or b"=>" in statement


def _variables(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`const f = () => ..` has the lines of its whole declaration; an object may hold functions."""
    if not _may_hold_functions(node, source):
        return
    for child in children(node):
        value = _value(child.child_by_field_name("value")) if child.type == "variable_declarator" else None
        if value is not None and value.type in _FUNCTION_VALUES:
            name = text(child.child_by_field_name("name"), source)
            yield Function(node, _FUNCTION_VALUES[value.type], name, scope, _body(value))
        elif value is not None:
            yield from _no_function(value, scope, source)


def _no_function(value: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """An object holds functions; what a call is given is searched only."""
    if value.type == "object":
        yield from _object(value, scope, source)
    elif value.type in ("call_expression", "new_expression"):
        yield Look(value, scope)


def _object(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    for child in children(node):
        if child.type == "method_definition":
            yield from _method(child, scope, source)
        elif child.type == "pair":
            value = _value(child.child_by_field_name("value"))
            if value is not None and value.type in _FUNCTION_VALUES:
                kind = "method" if _FUNCTION_VALUES[value.type] == "function" else "generator"
                yield Function(child, kind, _key(child.child_by_field_name("key"), source), scope, _body(value))


def _expression(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """An assignment; a namespace stands in a statement of its own, too; a call is searched."""
    if not _may_hold_functions(node, source):
        return
    inner = first_named(node)
    while inner is not None and inner.type == "assignment_expression":
        yield from _assignment(inner, scope, source)
        inner = inner.child_by_field_name("right")
    if inner is not None and inner.type in ("internal_module", "module"):
        yield Enter(inner, scope.inside_namespace(name_of(inner, source)))
    elif inner is not None:
        yield Look(inner, scope)


def _assignment(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`X.prototype.y = function ..`, `exports.y = ..`, `module.exports = {..}`."""
    left = node.child_by_field_name("left")
    value = _value(node.child_by_field_name("right"))
    if left is None or value is None or left.type != "member_expression":
        return
    if value.type == "object":
        yield from _object(value, scope, source)
    if value.type not in _FUNCTION_VALUES:
        return
    owner = dotted(left.child_by_field_name("object"), source)
    name = text(left.child_by_field_name("property"), source)
    kind = _FUNCTION_VALUES[value.type]
    if owner.endswith(".prototype"):
        scope = scope.inside_type(owner.removesuffix(".prototype"))
        kind = "method" if kind == "function" else kind
    elif (owner, name) == ("module", "exports"):
        kind, name = "default_export", name_of(value, source) or name
    yield Function(node, kind, name, scope, _body(value))


def _export(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`export` is in the lines of what it exports; a default export may be without a name."""
    value = _value(node.child_by_field_name("value"))
    if value is None:
        yield Enter(node, scope)
    elif value.type in _FUNCTION_VALUES:
        yield Function(node, "default_export", name_of(value, source) or "default", scope, _body(value))
    elif value.type == "class":
        yield Enter(value, scope.inside_type(name_of(value, source) or "default"))
    else:
        yield from _no_function(value, scope, source)


def _returned(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """The object that a function returns holds functions."""
    if node.type == "object":
        yield from _object(node, scope, source)


def _assigned(node: Node, _scope: Scope, source: bytes) -> Iterable[Step]:
    """`X.prototype.y = ..` and `global.y = ..`, at any depth."""
    if node.type == "assignment_expression":
        owner = dotted((node.child_by_field_name("left") or node).child_by_field_name("object"), source)
        if owner.endswith(".prototype") or owner.partition(".")[0] in _GLOBALS:
            yield from (step for step in _assignment(node, Scope(), source) if isinstance(step, Function))


_INNER_FUNCTIONS = frozenset(
    {
        *_FUNCTION_VALUES,
        "function_declaration",
        "generator_function_declaration",
        "method_definition",
        "class_declaration",
        "class",
    }
)
_BETWEEN = rb"(?:\s|%b|%b)*+" % (COMMENT, TO_THE_LINES_END)
_SECOND_LOOKS = (
    SecondLook(re.compile(rb"return\s*\{"), _returned, not_inside=_INNER_FUNCTIONS),
    SecondLook(
        re.compile(
            rb"\.%b[^\s=(){}\[\];,./]++%b=(?=\s*(?:async\b\s*)?(?:function\b|\(|[\w$]+\s*=>))" % (_BETWEEN, _BETWEEN)
        ),
        _assigned,
    ),
)
_FUNCTIONS = {"function_declaration": "function", "generator_function_declaration": "generator"}
_WRAPPERS = frozenset(
    {
        "ERROR",
        "class_body",
        # a function that is declared only under a condition is still one
        "statement_block",
        "if_statement",
        "else_clause",
        "try_statement",
        "catch_clause",
        "finally_clause",
    }
)
_HOOKS = {
    "method_definition": _method,
    "lexical_declaration": _variables,
    "variable_declaration": _variables,
    "expression_statement": _expression,
    "export_statement": _export,
    "field_definition": _field,
}

_TYPE_IMPORT = re.compile(rb"\bimport\([^()\n]*\)(?=\s*\.)")
_VARIANCE = re.compile(
    rb"(?<=[<,])(\s*(?:/\*+[^*\n]*\*/\s*)?)(in[ \t]+out|in|out)(?=\s+(?!(?:in|instanceof|as|satisfies)\b)[A-Za-z_$])"
)
_CALL_SIGNATURE = re.compile(rb"\n[ \t]*[ \t](?=<[\w\s])")
_ENDS_NO_MEMBER = (*(bytes([sign]) for sign in b"{([,;=|&:?<"), b"=>")


def mask_types(source: bytes, _root: Node) -> Iterator[bytes]:
    """The source without what the grammar does not know of types, every offset and line break kept.

    It reads `a: B` and, on the next line, `<T>(..): C` as the one type `B<T>`, so a `;` comes between them; it knows
    no `import('..').T<U>`, no `<in T, out U>` and no escape in a template's type.
    """
    known = _TYPE_IMPORT.sub(lambda match: b"_" * len(match[0]), source.replace(b"\\`", b"__"))
    masked = bytearray(_VARIANCE.sub(lambda match: match[1] + b" " * len(match[2]), known))
    for match in _CALL_SIGNATURE.finditer(source):
        before = code_before(source, match.start())
        if before and not before.endswith(_ENDS_NO_MEMBER):
            masked[match.end() - 1] = ord(";")
    if masked != source:
        yield bytes(masked)


JAVASCRIPT = Rules(
    language="javascript",
    grammars={"javascript": "javascript"},
    extensions=dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    functions=_FUNCTIONS,
    types=frozenset({"class_declaration"}),
    wrappers=_WRAPPERS,
    hooks=_HOOKS,
    second_looks=_SECOND_LOOKS,
    bodies=BODIES,
)
TYPESCRIPT = Rules(
    language="typescript",
    grammars={"typescript": "typescript", "tsx": "tsx"},
    extensions={"ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx"},
    functions={**_FUNCTIONS, "function_signature": "function"},
    types=frozenset({"class_declaration", "abstract_class_declaration", "interface_declaration"}),
    namespaces=frozenset({"internal_module", "module"}),
    wrappers=_WRAPPERS | {"ambient_declaration", "interface_body"},
    hooks={
        **_HOOKS,
        "method_signature": _method,
        "abstract_method_signature": _method,
        "public_field_definition": _field,
    },
    second_looks=_SECOND_LOOKS,
    bodies=BODIES,
    masked=mask_types,
)
