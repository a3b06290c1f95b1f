"""C#."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Function, Rules, Scope, Step, children, name_of, text

_PARTS_OF_A_TYPE = frozenset({"parameter_list", "type_parameter_constraints_clause", "declaration_list"})


def _type(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A type's members; and its primary constructor, whose lines are those of the type's header."""
    name = name_of(node, source)
    inner = scope.inside_type(name)
    yield Enter(node, inner)
    parts = [child for child in children(node) if child.type in _PARTS_OF_A_TYPE]
    if any(part.type == "parameter_list" for part in parts):
        end = next((part for part in parts if part.type != "parameter_list"), None)
        yield Function(node, "primary_constructor", name, inner, before=end)


def _operator(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    sign = node.child_by_field_name("operator") or node.child_by_field_name("type")
    kind = "operator" if node.type == "operator_declaration" else "conversion_operator"
    yield Function(node, kind, f"operator {text(sign, source)}", scope)


def _indexer(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    yield Function(node, "indexer", "this", scope)


def _finalizer(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    yield Function(node, "finalizer", f"~{name_of(node, source)}", scope)


_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)[^\n]*", re.M)


def mask_directives(source: bytes) -> bytes:
    """The source with preprocessor lines, and what stands between `#else` or `#elif` and `#endif`, blanked.

    The result has the same length and the same line breaks, so every offset stays true.
    """
    pieces: list[bytes] = []
    kept_to = 0
    branches: list[bool] = []  # for each open #if: whether its #else or #elif has been reached
    hidden = 0  # how many of them are true
    for match in _DIRECTIVE.finditer(source):
        word = match.group(1)
        was_hidden = hidden > 0
        if word == b"if":
            branches.append(False)
        elif word in (b"else", b"elif") and branches:
            hidden += not branches[-1]
            branches[-1] = True
        elif word == b"endif" and branches:
            hidden -= branches.pop()
        if not was_hidden:
            pieces.append(source[kept_to : match.start()])
            kept_to = match.start()
        if hidden == 0:
            pieces.append(_blank(source[kept_to : match.end()]))
            kept_to = match.end()
    # What stands after an #else that nothing ends is kept: a file cut short is no reason to hide its rest.
    return b"".join([*pieces, source[kept_to:]])


def _masked(source: bytes, _root: Node) -> Iterator[bytes]:
    masked = mask_directives(source)
    if masked != source:
        yield masked


_NOT_LINE_BREAKS = re.compile(rb"[^\r\n]")


def _blank(part: bytes) -> bytes:
    return _NOT_LINE_BREAKS.sub(b" ", part)


_TYPES = ("class", "struct", "interface", "record", "record_struct")

RULES = Rules(
    language="csharp",
    grammars={"csharp": "csharp"},
    extensions={"cs": "csharp", "csx": "csharp"},
    functions={
        "method_declaration": "method",
        "constructor_declaration": "constructor",
        "property_declaration": "property",
        "event_declaration": "event",
        "delegate_declaration": "delegate",
        "local_function_statement": "local_function",
    },
    namespaces=frozenset({"namespace_declaration"}),
    clauses=frozenset({"file_scoped_namespace_declaration"}),
    wrappers=frozenset(
        {
            "ERROR",
            "declaration_list",
            "global_statement",
            "preproc_if",
            "preproc_elif",
            "preproc_else",
            "preproc_region",
        }
    ),
    hooks={
        **{f"{kind}_declaration": _type for kind in _TYPES},
        "operator_declaration": _operator,
        "conversion_operator_declaration": _operator,
        "indexer_declaration": _indexer,
        "destructor_declaration": _finalizer,
    },
    masked=_masked,
    ambiguous=b"<=",
)
