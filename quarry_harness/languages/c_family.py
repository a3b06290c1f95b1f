"""C and C++: one family, two grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from tree_sitter import Node

from quarry_harness.languages.bodies import COMMENT, DIVISION, bodies
from quarry_harness.languages.c_macros import mask_c, mask_cpp, plain_c, plain_cpp
from quarry_harness.languages.rules import (
    Bodies,
    Enter,
    Function,
    Rules,
    Scope,
    SecondLook,
    Step,
    children,
    dotted,
    first_named,
    join,
    text,
)

_CLASSES = frozenset({"class_specifier", "struct_specifier", "union_specifier"})
_THROUGH = frozenset({"parenthesized_declarator", "attributed_declarator", "init_declarator"})
_OF_A_VARIABLE = frozenset({"pointer_declarator", "reference_declarator", "array_declarator"})
# Error recovery makes functions of statements that follow a macro, and of types behind one.
_NO_NAMES = frozenset({"if", "for", "while", "switch", "return", "else", "do", "catch", "sizeof", "defined"}) | {
    *("void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "__attribute__")
}


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
            if (behind := _behind_a_macro(node)) is not None:
                return behind
        elif node.type in _OF_A_VARIABLE:
            inner = node.child_by_field_name("declarator") if node.type == "array_declarator" else None
            if inner is not None and inner.type == "function_declarator":
                return None  # no function returns an array: `int MACRO(name)[] = {..}`
            is_function = False
        elif node.type not in _THROUGH:
            break
        node = node.child_by_field_name("declarator") or _unnamed_inner(node)
    if node is None:
        return None
    last = _last_part(node)
    return node if is_function or (last is not None and last.type == "operator_cast") else None


def _behind_a_macro(node: Node) -> Node | None:
    """The name where the grammar has taken the type for it, since it takes a macro in front for the type.

    `API int f(..)` may have the name as an error behind `int`; in `API int (f)(..)` it is a parameter of `int`.
    """
    declarator = node.child_by_field_name("declarator")
    if declarator is None or declarator.type != "function_declarator":
        error = declarator.next_sibling if declarator is not None and node.has_error else None
        last = error.children[-1] if error is not None and error.type == "ERROR" and error.child_count else None
        return last if last is not None and last.type == "identifier" else None
    # No function returns a function. Without a space it is a macro's call: `API MAKE(name)(int a)`.
    inner = declarator.child_by_field_name("declarator")
    parameters = declarator.child_by_field_name("parameters")
    if inner is None or parameters is None or inner.end_byte == parameters.start_byte:
        return None
    parameter = first_named(parameters) if parameters.named_child_count == 1 else None
    named = first_named(parameter) if parameter is not None and parameter.child_count == 1 else None
    return named if named is not None and named.type == "type_identifier" else None


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
    # One spelling for `operator ()` and `operator"" _x`; other operators keep a space, as the labelling tool does.
    return "", name.replace(" ", "") if name.startswith(("operator (", 'operator""', 'operator ""')) else name


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
    body = node.child_by_field_name("body") if node.has_error else None
    yield Function(node, kind or "function", name, scope, body if body is not None and body.has_error else None)


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A function with a body; or a class or namespace behind a macro that the grammar does not know."""
    declarator = node.child_by_field_name("declarator")
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)
    named = _function_name(declarator)
    prototypes = _prototypes(node, scope, source) if node.child_count > 3 else []
    if prototypes:
        yield from prototypes
    elif named is not None:
        if kind is not None and kind.type == "qualified_identifier" and text(_last_part(kind), source) == "operator":
            # `inline X::operator bool() {`: the grammar takes what comes before the last word for the type.
            owner = scope.inside_type(_qualifier(kind, source))
            yield Function(node, "conversion_operator", f"operator {text(named, source)}", owner)
        else:
            yield from _declared(node, named, scope, source)
    body = node.child_by_field_name("body")
    if prototypes or named is not None or body is None:
        return
    name = text(declarator, source) if declarator is not None and declarator.type.endswith("identifier") else ""
    # `class API Foo {`: the macro has become the class's name, and the name a declarator.
    is_class = kind is not None and kind.type in _CLASSES
    yield Enter(body, scope.inside_type(name) if is_class else scope.inside_namespace(name))


def _prototypes(node: Node, scope: Scope, source: bytes) -> list[Step]:
    """What stands below a macro's call: to the grammar it declares the parameters of an old-style function, but a call
    does not name them all."""
    between = [child for child in children(node) if child.type == "declaration"]
    steps = [step for child in between for step in _declaration(child, scope, source)]
    head = node.child_by_field_name("declarator") if steps else None
    while head is not None and head.type != "function_declarator":
        head = head.child_by_field_name("declarator") or _unnamed_inner(head)
    parameters = head.child_by_field_name("parameters") if head is not None else None
    names = {text(child, source) for child in parameters.named_children} if parameters is not None else set()
    return [] if all(isinstance(step, Function) and step.name in names for step in steps) else steps


def _declaration(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A prototype is a function; a declaration of a class's type holds the class's members."""
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)
    for declarator in node.children_by_field_name("declarator"):
        named = _function_name(declarator)
        if named is not None:
            yield from _declared(node, named, scope, source)


def _defaulted(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`X::~X() = default;` outside its class is an assignment to the grammar."""
    assignment = first_named(node)
    if assignment is None or assignment.type != "assignment_expression":
        return
    called, value = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    named = called.child_by_field_name("function") if called is not None else None
    if named is not None and named.type == "qualified_identifier" and text(value, source) in ("default", "delete"):
        yield from _declared(node, named, scope, source)


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
    {"ERROR", "declaration_list", "linkage_specification", "compound_statement", "labeled_statement"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"}
)

_CONTINUED = rb"(?:[^\n\\/]++|\\(?:\r\n|.)|/(?!\*)|%b)*+" % COMMENT
_DIRECTIVES = (rb"#[ \t]*if" + _CONTINUED, rb"#[ \t]*el" + _CONTINUED, rb"#[ \t]*endif" + _CONTINUED)
_STRING = rb'(?:[^"\\\n]++|\\(?:\r\n|.))*+"'
_HEADS = (
    rb"\)\s*+(?:#[^\n]*+\s*+)?(?:(?:const|noexcept|override|final|mutable|volatile|&&?)\s*+|->[^{}()\"'#/;]*+)*+",
    rb"=\s*+",
)
_OPAQUE = (
    COMMENT,
    rb"//(?:[^\n\\]++|\\(?:\r\n|.))*+",
    DIVISION,
    rb"'(?:(?<=\b\d')|(?<=x[\da-fA-F]')|(?<=\d\d')|(?<=[\dA-F]{2}'))(?<!\bu8')(?=[\da-fA-F])",  # in a number
    rb"'(?:[^'\\\n]++|\\.)++'",
    rb"#(?![ \t]*(?:if|el|endif))" + _CONTINUED,
)
# One with a delimiter is not read.
_RAW_STRING = rb'"(?:(?<=\WR")|(?<=\W[LuU]R")|(?<=\Wu8R"))\((?:[^)]++|\)(?!"))*+\)"'
_NO_RAW_STRING = rb'"(?<!\WR")(?<!\W[LuU]R")(?<!\Wu8R")' + _STRING
_bodies = partial(
    Bodies,
    # A macro's call with a string or a single name: to the grammar it may be none of the block that follows.
    blocks=rb"[ \t]*+[A-Z]\w*+[ \t]*+\(\w++\)|[^\n]*\"",
    go_inside=False,
    filler=b";",  # `int f() {};` is a variable with a value, too
    despite_errors=True,
)

C = Rules(
    language="c",
    grammars={"c": "c"},
    extensions={"c": "c", "h": "c"},
    wrappers=_WRAPPERS,
    hooks={"function_definition": _definition, "declaration": _declaration},
    second_looks=_SECOND_LOOKS,
    drop_names=_NO_NAMES,
    ambiguous=b"<=",
    plain=plain_c,
    masked=mask_c,
    masks_are_few=True,
    bodies=_bodies(bodies((*_OPAQUE, b'"' + _STRING), _HEADS, directives=_DIRECTIVES)),
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
        "expression_statement": _defaulted,
    },
    second_looks=_SECOND_LOOKS,
    drop_names=_NO_NAMES,
    ambiguous=b"<=",
    plain=plain_cpp,
    masked=mask_cpp,
    masks_are_few=True,
    bodies=_bodies(bodies((*_OPAQUE, _RAW_STRING, _NO_RAW_STRING), _HEADS, directives=_DIRECTIVES)),
)
