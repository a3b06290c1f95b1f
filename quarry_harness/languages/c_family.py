"""C and C++: one family, two grammars."""

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
    join,
    text,
)

_CLASSES = frozenset({"class_specifier", "struct_specifier", "union_specifier"})
_THROUGH = frozenset({"parenthesized_declarator", "attributed_declarator", "init_declarator"})
_OF_A_VARIABLE = frozenset({"pointer_declarator", "reference_declarator", "array_declarator"})
# Error recovery makes functions of statements that follow a macro.
_STATEMENTS = frozenset({"if", "for", "while", "switch", "return", "else", "do", "catch", "sizeof", "defined"})


def _function_name(declarator: Node | None) -> Node | None:
    """The node that names the function which a declarator declares; None where it declares something else.

    Going inwards, a function_declarator makes a function, and a pointer to that makes a variable again:
    `int (*f)(int)` is a variable, `int *f(int)` a function, and so is `void (*signal(int))(int)`.
    """
    node = declarator
    is_function = False
    while node is not None:
        if node.type == "function_declarator":
            is_function = True
        elif node.type in _OF_A_VARIABLE:
            is_function = False
        elif node.type not in _THROUGH:
            break
        node = node.child_by_field_name("declarator") or _unnamed_inner(node)
    if node is None:
        return None
    last = _last_part(node)
    return node if is_function or (last is not None and last.type == "operator_cast") else None


def _unnamed_inner(node: Node) -> Node | None:
    """What a declarator is around, where the grammar has no field for it: in parentheses, behind `&`."""
    if node.type not in _THROUGH and node.type != "reference_declarator":
        return None
    inner = (
        child for child in children(node) if child.is_named and child.type not in ("attribute_declaration", "ERROR")
    )
    return next(inner, None)


def _last_part(node: Node) -> Node | None:
    last: Node | None = node
    while last is not None and last.type == "qualified_identifier":
        last = last.child_by_field_name("name")
    return last


def _qualifier(node: Node, source: bytes) -> str:
    """The dotted qualifier of an out-of-line name, without template arguments."""
    qualifier = ""
    part: Node | None = node
    while part is not None and part.type == "qualified_identifier":
        scope = part.child_by_field_name("scope")
        if scope is not None and scope.type == "template_type":
            scope = scope.child_by_field_name("name")
        qualifier = join(qualifier, dotted(scope, source))
        part = part.child_by_field_name("name")
    return qualifier


def _kind_and_name(node: Node, source: bytes) -> tuple[str, str]:
    """The kind as far as the name tells it, "" for most, and the name without template arguments."""
    if node.type == "operator_cast":
        parameters = node.child_by_field_name("declarator")
        end = node.end_byte if parameters is None else parameters.start_byte
        return "conversion_operator", " ".join(source[node.start_byte : end].decode("utf-8", "replace").split())
    if node.type in ("template_function", "template_method"):
        return "", text(node.child_by_field_name("name"), source)
    name = " ".join(text(node, source).split())
    if node.type == "destructor_name":
        return "destructor", name.replace(" ", "")
    return "", name


def _declared(node: Node, named: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """The function that `named` names, with the lines of `node`."""
    last = _last_part(named)
    if last is None:
        return
    # The last part of an out-of-line qualifier is taken as the class: a namespace there looks the same.
    scope = scope.inside_type(_qualifier(named, source))
    kind, name = _kind_and_name(last, source)
    if not kind and scope.container:
        kind = "constructor" if name == scope.container else "method"
    # No function holds another, except where an `#if` has left a brace open.
    body = node.child_by_field_name("body")
    yield Function(node, kind or "function", name, scope, body if body is not None and body.has_error else None)


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A function with a body; or a class or namespace behind a macro that the grammar does not know."""
    declarator = node.child_by_field_name("declarator")
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)
    named = _constructor_behind_macro(declarator) or _function_name(declarator)
    if named is not None:
        yield from _declared(node, named, scope, source)
        yield from _wreckage(declarator, scope)
        return
    body = node.child_by_field_name("body")
    if body is None:
        return
    name = text(declarator, source) if declarator is not None and declarator.type.endswith("identifier") else ""
    if kind is not None and kind.type in _CLASSES:
        # `class API Foo {`: the macro has become the class's name, and the name a declarator.
        yield Enter(body, scope.inside_type(name))
    else:
        yield Enter(body, scope.inside_namespace(name))


def _constructor_behind_macro(declarator: Node | None) -> Node | None:
    """The name in `MACRO Foo(int a) : a_(a) {..}`, which has become an error before the declarator `a_(a)`."""
    before = None if declarator is None else declarator.prev_sibling
    if before is None or before.type != "ERROR" or before.child_count == 0:
        return None
    first = before.child(0)
    if first is None or first.type != "function_declarator":
        return None
    return _function_name(first) if any(child.type == ":" for child in children(before)) else None


def _wreckage(declarator: Node | None, scope: Scope) -> Iterable[Step]:
    """Parameters that are an error may have swallowed what follows a macro: whole classes and functions."""
    parameters = None if declarator is None else declarator.child_by_field_name("parameters")
    if parameters is not None and parameters.has_error and parameters.start_point.row != parameters.end_point.row:
        yield Enter(parameters, scope)


def _declaration(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A prototype is a function; a declaration of a class's type holds the class's members."""
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)
    for declarator in node.children_by_field_name("declarator"):
        named = _function_name(declarator)
        if named is not None:
            yield from _declared(node, named, scope, source)
            if node.type == "field_declaration" and any(child.type == "bitfield_clause" for child in children(node)):
                # `MACRO Foo(int a) : a_(a), b_(0) {..}` looks like a bit field: what follows are no functions.
                return


def _swallowed(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A function that starts in the first column, inside the broken body of another; `node` is its parameters."""
    above: Node | None = node
    for _ in range(8):  # a longer way up is no function's head, and a node's parent is costly to find
        if above is None or above.type not in _INSIDE_A_HEAD:
            break
        above = above.parent
    if above is not None and above.type == "function_definition" and above.start_point.column == 0:
        yield from _definition(above, Scope("", scope.chain if not scope.container else ""), source)


_INSIDE_A_HEAD = frozenset({"parameter_list", "function_declarator", "pointer_declarator", "reference_declarator"})
_SECOND_LOOKS = (SecondLook(re.compile(rb"\n[A-Za-z_][\w \t*&:<>,]*\("), _swallowed, in_errors=True),)


def _class(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    body = node.child_by_field_name("body")
    name = node.child_by_field_name("name")
    if name is not None and name.type == "template_type":
        name = name.child_by_field_name("name")
    if body is not None:
        yield Enter(body, scope.inside_type(dotted(name, source)))


def _type_definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`typedef struct {..} Name;` may hold methods in C++."""
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)


_WRAPPERS = frozenset(
    {
        "ERROR",
        "declaration_list",
        # where error recovery leaves the members of a class as statements
        "compound_statement",
        "labeled_statement",
        "linkage_specification",
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "preproc_elifdef",
    }
)

C = Rules(
    language="c",
    grammars={"c": "c"},
    extensions={"c": "c", "h": "c"},
    wrappers=_WRAPPERS,
    hooks={"function_definition": _definition, "declaration": _declaration},
    second_looks=_SECOND_LOOKS,
    drop_names=_STATEMENTS,
    ambiguous=b"<=",
)

CPP = Rules(
    language="cpp",
    grammars={"cpp": "cpp"},
    extensions=dict.fromkeys(
        (*("cc", "cpp", "cxx", "c++", "cppm", "ixx"), *("hh", "hpp", "hxx", "h++", "inl", "ipp", "tpp", "tcc", "txx")),
        "cpp",
    ),
    namespaces=frozenset({"namespace_definition"}),
    wrappers=_WRAPPERS | {"template_declaration", "friend_declaration", "export_declaration", "field_declaration_list"},
    hooks={
        "function_definition": _definition,
        "inline_method_definition": _definition,
        "declaration": _declaration,
        "field_declaration": _declaration,
        **dict.fromkeys(_CLASSES, _class),
        "type_definition": _type_definition,
    },
    second_looks=_SECOND_LOOKS,
    drop_names=_STATEMENTS,
    ambiguous=b"<=",
)
