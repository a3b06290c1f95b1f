"""C#."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from quarry_harness.languages.bodies import COMMENT, DIVISION, bodies
from quarry_harness.languages.rules import (
    Bodies,
    Enter,
    Function,
    Rules,
    Scope,
    Step,
    blank,
    children,
    errors,
    name_of,
    text,
)

_PARTS_OF_A_TYPE = frozenset({"parameter_list", "type_parameter_constraints_clause", "declaration_list"})


def _type(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A type's members; and its primary constructor, whose lines are those of the type's header."""
    name = name_of(node, source)
    inner = scope.inside_type(name)
    yield Enter(node, inner)
    parts = [child for child in children(node) if child.type in _PARTS_OF_A_TYPE]
    if any(part.type == "parameter_list" for part in parts):
        end = next((part for part in parts if part.type != "parameter_list"), None)
        yield Function(node, "primary_constructor", name, inner, last=end and end.prev_sibling)


def _operator(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    sign = node.child_by_field_name("operator") or node.child_by_field_name("type")
    kind = "operator" if node.type == "operator_declaration" else "conversion_operator"
    yield Function(node, kind, f"operator {text(sign, source)}", scope)


def _indexer(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    yield Function(node, "indexer", "this", scope)


def _finalizer(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    yield Function(node, "finalizer", f"~{name_of(node, source)}", scope)


_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)[^\n]*", re.M)
_MANY = 1_000_000


def _masked(source: bytes, root: Node) -> Iterator[bytes]:
    """First the #if groups that an error touches are masked, then all: an open brace is an error far from its place."""
    groups = _groups(source)
    if not groups:
        return
    # An error around others is most of the file, and no sign of where it breaks.
    smallest = (node for node in errors(root) if not any(child.has_error for child in children(node)))
    broken = [(node.start_byte, node.end_byte) for node in smallest]
    if len(groups) * len(broken) <= _MANY:
        yield mask_directives(source, _touched(groups, broken))
    yield mask_directives(source)


def _groups(source: bytes) -> list[tuple[int, int]]:
    """Where each #if begins and its #endif ends, in order of the beginnings."""
    groups: list[tuple[int, int]] = []
    opened: list[int] = []
    for match in _DIRECTIVE.finditer(source):
        if match[1] == b"if":
            opened.append(match.start())
        elif match[1] == b"endif" and opened:
            groups.append((opened.pop(), match.end()))
    return sorted(groups)


def _touched(groups: list[tuple[int, int]], broken: list[tuple[int, int]]) -> frozenset[int]:
    """The beginnings of the groups that meet an error; of those around one, the innermost."""
    touched: set[int] = set()
    for first, last in broken:
        met = [(start, end) for start, end in groups if start <= last and first <= end]
        around = [start for start, end in met if start <= first and last <= end]
        touched |= {start for start, _ in met} - set(around[:-1])
    return frozenset(touched)


def mask_directives(source: bytes, only: frozenset[int] | None = None) -> bytes:
    """The source with preprocessor lines, and what stands between `#else` or `#elif` and `#endif`, blanked.

    `only` are the beginnings of the #if lines whose groups are masked, None for all groups and all other directives.
    The result has the same length and the same line breaks, so every offset stays true.
    """
    pieces: list[bytes] = []
    kept_to = 0
    opened: list[bool] = []  # for each open #if: whether it is masked
    branches: list[bool] = []  # and whether its #else or #elif has been reached
    hidden = 0  # how many of them are masked and have been
    for match in _DIRECTIVE.finditer(source):
        word = match.group(1)
        was_hidden = hidden > 0
        if word == b"if":
            opened.append(only is None or match.start() in only)
            branches.append(False)
        masked = opened[-1] if opened and word in _OF_A_GROUP else only is None
        if word in (b"else", b"elif") and branches and masked:
            hidden += not branches[-1]
            branches[-1] = True
        elif word == b"endif" and branches:
            opened.pop()
            hidden -= branches.pop()
        if not (masked or was_hidden):
            continue
        if not was_hidden:
            pieces.append(source[kept_to : match.start()])
            kept_to = match.start()
        if hidden == 0:
            pieces.append(blank(source[kept_to : match.end()]))
            kept_to = match.end()
    # What stands after an #else that nothing ends is kept: a file cut short is no reason to hide its rest.
    return b"".join([*pieces, source[kept_to:]])


_OF_A_GROUP = frozenset({b"if", b"elif", b"else", b"endif"})


_TYPES = ("class", "struct", "interface", "record", "record_struct")

_FINDER = bodies(
    (
        COMMENT,
        DIVISION,
        rb"//[^\n\r]*+",  # to the grammar a lone CR ends it
        rb'"(?:[^"\\\n]++|\\[^\n])*+"(?!")',
        rb'@"(?:[^"]++|"")*+"',
        rb'@(?!["$])',
        # With a string in one of its holes it is not read; nor is one that begins with three quotes.
        rb'\$"(?:[^"\\{}\n]++|\\[^\n]|\{\{|\}\}|\{[^{}"\n]*+\})*+"(?!")',
        rb'\$@"(?:[^"{}]++|""|\{\{|\}\}|\{[^{}"]*+\})*+"',
        rb'@\$"(?:[^"{}]++|""|\{\{|\}\}|\{[^{}"]*+\})*+"',
        rb"'(?:[^'\\\n]++|\\[^\n])++'",
        # Others choose what is compiled.
        rb"#[ \t]*(?:region|endregion|pragma|nullable)\b[^\n\r]*+",
    ),
    (rb"""\)\s*+(?:where\b[^{};()"'/@$#]*+)?""",),
)

RULES = Rules(
    language="csharp",
    grammars={"csharp": "csharp"},
    package="tree-sitter-c-sharp",
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
    bodies=Bodies(_FINDER),
)
