"""C and C++."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from quarry_harness.languages.rules import Enter, Function, Rules, Scope, Step, children, dotted, join, text

_AROUND_A_DECLARATOR = frozenset(
    {
        "pointer_declarator",
        "reference_declarator",
        "attributed_declarator",
        "init_declarator",
        "array_declarator",
    }
)
_CLASSES = frozenset({"class_specifier", "struct_specifier", "union_specifier"})
# Error recovery makes functions of statements that follow a macro.
_STATEMENTS = frozenset({"if", "for", "while", "switch", "return", "else", "do", "catch", "sizeof", "defined"})


def _inner_declarator(node: Node) -> Node | None:
    """The declarator below pointers, references and initial values; None where there is none."""
    found = node.child_by_field_name("declarator")
    # A reference has its declarator without a field name.
    return found or next((child for child in node.named_children if child.type.endswith("declarator")), None)


def _callable(node: Node | None) -> Node | None:
    """The function_declarator or operator_cast that a declarator is about, None where it declares something else."""
    while node is not None and node.type in _AROUND_A_DECLARATOR:
        node = _inner_declarator(node)
    if node is None:
        return None
    if node.type == "function_declarator":
        inner = node.child_by_field_name("declarator")
        while inner is not None and inner.type in ("parenthesized_declarator", "function_declarator"):
            # `int (f)(int)` is a function, `int (*f)(int)` a variable; a function that returns a pointer to a function
            # has its own declarator inside: `void (*signal(int))(int)`.
            within = _inner_declarator(inner)
            if inner.type == "parenthesized_declarator" and within is not None and within.type in _AROUND_A_DECLARATOR:
                return _callable(within)
            inner = within
        return node if inner is not None else None
    if node.type == "operator_cast":
        return node
    if node.type == "qualified_identifier":
        last = _last_part(node)
        return node if last is not None and last.type == "operator_cast" else None
    return None


def _last_part(node: Node) -> Node | None:
    last: Node | None = node
    while last is not None and last.type == "qualified_identifier":
        last = last.child_by_field_name("name")
    return last


def _name_node(declarator: Node) -> Node | None:
    """What names the function: an identifier, a qualified one, an operator, a destructor."""
    node: Node | None = declarator
    while node is not None and node.type in ("function_declarator", "parenthesized_declarator", *_AROUND_A_DECLARATOR):
        node = _inner_declarator(node) or (node.named_child(0) if node.type == "parenthesized_declarator" else None)
    return node


def _qualifier(node: Node, source: bytes) -> tuple[str, Node | None]:
    """The dotted qualifier of an out-of-line name, without template arguments, and the node of the last part."""
    qualifier = ""
    current: Node | None = node
    while current is not None and current.type == "qualified_identifier":
        scope = current.child_by_field_name("scope")
        if scope is not None and scope.type == "template_type":
            scope = scope.child_by_field_name("name")
        qualifier = join(qualifier, dotted(scope, source))
        current = current.child_by_field_name("name")
    return qualifier, current


def _simple_name(node: Node, source: bytes) -> tuple[str, str]:
    """The kind that the name itself tells, and the name: `operator_cast` ends before its parameters."""
    if node.type == "operator_cast":
        parameters = node.child_by_field_name("declarator")
        while parameters is not None and parameters.type != "abstract_function_declarator":
            parameters = parameters.child_by_field_name("declarator")
        end = node.end_byte
        if parameters is not None:
            inner = parameters.child_by_field_name("parameters")
            end = inner.start_byte if inner is not None else end
        return "conversion", " ".join(source[node.start_byte : end].decode("utf-8", "replace").split())
    if node.type == "template_function":
        return "function", text(node.child_by_field_name("name"), source)
    if node.type == "template_method":
        return "function", text(node.child_by_field_name("name"), source)
    if node.type == "destructor_name":
        return "method", "".join(text(node, source).split())
    return "function", " ".join(text(node, source).split())


def _declared(node: Node, declarator: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """The function that a declarator declares, `node` being the whole declaration."""
    named = _name_node(declarator)
    if named is None:
        return
    qualifier, last = _qualifier(named, source)
    if last is None:
        return
    if qualifier:
        scope = Scope(qualifier.rpartition(".")[2], join(scope.chain, qualifier))
    kind, name = _simple_name(last, source)
    if kind == "function" and scope.container:
        kind = "constructor" if name == scope.container else "method"
    yield Function(node, kind, name, scope)


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A function with a body; or a class or namespace behind a macro that the grammar does not know."""
    declarator = node.child_by_field_name("declarator")
    found = _callable(declarator)
    if found is not None:
        yield from _declared(node, found, scope, source)
        return
    body = node.child_by_field_name("body")
    kind = node.child_by_field_name("type")
    if body is None or declarator is None:
        return
    name = text(declarator, source) if declarator.type in ("identifier", "type_identifier") else ""
    if kind is not None and kind.type in _CLASSES:
        # `class API Foo {`: the macro has become the class's name, and the name a declarator.
        yield Enter(body, scope.inside_type(name))
    elif name:
        yield Enter(body, scope.inside_namespace(name if name not in ("namespace", "class") else ""))


def _declaration(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A prototype is a function; a declaration of a class's type has the class's members."""
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES and kind.child_by_field_name("body") is not None:
        yield from _class(kind, scope, source)
    for declarator in node.children_by_field_name("declarator"):
        found = _callable(declarator)
        if found is not None:
            yield from _declared(node, found, scope, source)


def _class(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    body = node.child_by_field_name("body")
    if body is None:
        return
    name = node.child_by_field_name("name")
    if name is not None and name.type == "template_type":
        name = name.child_by_field_name("name")
    yield Enter(body, scope.inside_type(dotted(name, source)))


def _namespace(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    body = node.child_by_field_name("body")
    if body is not None:
        yield Enter(body, scope.inside_namespace(dotted(node.child_by_field_name("name"), source)))


def _type_definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """`typedef struct { .. } name;` may hold methods in C++."""
    for child in children(node):
        if child.type in _CLASSES:
            yield from _class(child, scope, source)


_WRAPPERS = frozenset(
    {
        "ERROR",
        "declaration_list",
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
    drop_names=_STATEMENTS,
)

CPP = Rules(
    language="cpp",
    grammars={"cpp": "cpp"},
    extensions={
        ext: "cpp" for ext in ("cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "inl", "tpp", "tcc", "cppm", "ixx")
    },
    wrappers=_WRAPPERS | {"template_declaration", "friend_declaration", "field_declaration_list", "labeled_statement"},
    hooks={
        "function_definition": _definition,
        "inline_method_definition": _definition,
        "constructor_or_destructor_definition": _definition,
        "operator_cast_definition": _definition,
        "declaration": _declaration,
        "field_declaration": _declaration,
        "constructor_or_destructor_declaration": _declaration,
        "operator_cast_declaration": _declaration,
        "class_specifier": _class,
        "struct_specifier": _class,
        "union_specifier": _class,
        "namespace_definition": _namespace,
        "type_definition": _type_definition,
    },
    drop_names=_STATEMENTS,
)
