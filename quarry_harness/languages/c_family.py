"""C and C++: one family, two grammars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
    first_named,
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
            if (behind := _behind_a_macro(node)) is not None:
                return behind
        elif node.type in _OF_A_VARIABLE:
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
        if kind is not None and kind.type == "qualified_identifier" and text(_last_part(kind), source) == "operator":
            # `inline X::operator bool() {`: the grammar takes what comes before the last word for the type.
            owner = scope.inside_type(_qualifier(kind, source))
            yield Function(node, "conversion_operator", f"operator {text(named, source)}", owner)
            return
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


# Searched for in every file: each begins with a sign that is rare, or with a line break (what stands in a file's first
# line is left as it is).
_COMMENT_IN_A_MACRO = re.compile(rb"\*/[ \t]*\\\r?\n")
_DOUBLY_IN_PARENTHESES = re.compile(rb"\(\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)\s*+\)(?=\s*;)")
_NAME_AND_MACRO = re.compile(rb"\b(?!(?:return|else|do|throw|co_return)\b)\w+[ \t]+([A-Z_]\w*[ \t]*)\Z")
_AFTER_SMALL_WORDS = re.compile(rb"\n([a-z0-9_ \t*]*+)([A-Z][A-Z0-9_]{2,}+(?:\([^(){};\n]*+\))?)(?=\s+[A-Za-z_])")
_BEFORE_A_BODY = re.compile(rb"\) ([A-Z][A-Z0-9_]{2,}+)(?=[ \t]*(?:\{|=[ \t]*default\b))")
# Before a name, these words are no type: the macro is the type, or there is none.
_NO_TYPES = frozenset(
    b"case class const constexpr delete else enum explicit extern friend goto inline local namespace new register "
    b"return static struct template throw typedef typename union using virtual volatile".split()
)
_NAME = re.compile(rb"[ \t]+[A-Za-z_]\w*[ \t]*\(")
_TYPE_AND_NAME = re.compile(rb"[ \t]+(?:const[ \t]+)?[A-Za-z_]\w*+(?:[ \t]+|[ \t]*\*[ \t*]*)[A-Za-z_]\w*+[ \t]*\(")
_CONSTRUCTOR = re.compile(rb"[ \t]+(\w+)::~?\1[ \t]*\(")
_CLASS_AND_BODY = re.compile(rb"\s+[A-Za-z_]\w*\s*(?:final\s*)?[:{]")
# Clang's annotations for its analysis of thread safety, under the names that its manual gives them.
_LOCKS = {
    word: re.compile(word + rb"[ \t]*\([^(){};]*+(?:\([^(){};]*+\)[^(){};]*+)*+\)")
    for word in (b"GUARDED_BY", b"LOCKS_REQUIRED", b"LOCKS_EXCLUDED", b"LOCK_FUNCTION", b"E_LOCK", b"D_LOCK")
}
_BEFORE_A_LOCK = re.compile(rb"(?<!\w)(?:ABSL_)?(?:PT_|EXCLUSIVE_|SHARED_|UN|ASSERT_EXCLUSIV|ASSERT_SHARE)?\Z")


def plain_c(source: bytes) -> bytes:
    """The source without what the grammar cannot read, every offset and line break kept.

    A comment inside a macro ends it there; `OF` in `int f OF((int a));`, `CALL` in `int CALL f(int a)` and `API` in
    `API type f(int a)` are taken for types or names.
    """
    return _without(source, _macros(source))


def plain_cpp(source: bytes) -> bytes:
    """As in C; and without the macros in `class API Foo {`, behind which the grammar sees a function's statements, in
    `API X::X() {`, `f() NOEXCEPT {`, and in `int x GUARDED_BY(m);`, which it takes for a function.
    """
    spans = _macros(source) + [match.span(1) for match in _BEFORE_A_BODY.finditer(source)]
    if b"LOCK" in source or b"GUARDED_BY" in source:
        spans += [span for word, pattern in _LOCKS.items() if word in source for span in _locks(pattern, source)]
    return _without(source, spans)


def _macros(source: bytes) -> list[tuple[int, int]]:
    spans = [_comment(source, match.start()) for match in _COMMENT_IN_A_MACRO.finditer(source)]
    spans += [match.span(2) for match in _AFTER_SMALL_WORDS.finditer(source) if _is_macro(match)]
    for match in _DOUBLY_IN_PARENTHESES.finditer(source):
        before = max(0, match.start() - 200)
        if macro := _NAME_AND_MACRO.search(source[before : match.start()]):
            spans += [(before + macro.start(1), match.start() + 1), (match.end() - 1, match.end())]
    return spans


def _comment(source: bytes, end: int) -> tuple[int, int]:
    """From the `/*` in the line of a comment's end to that end, or nothing."""
    line = source.rfind(b"\n", 0, end) + 1
    start = source.rfind(b"/*", line, end)
    return (start, end + 2) if start >= 0 else (end, end)


def _is_macro(match: re.Match[bytes]) -> bool:
    """Whether a word in capitals, with nothing but small words before it in its line, is neither type nor name."""
    before, end, source = match[1], match.end(), match.string
    words = before.replace(b"*", b" ").split()
    if before and not before.endswith((b" ", b"\t", b"*")):
        return False
    if words and words[-1] in (b"class", b"struct"):
        return _CLASS_AND_BODY.match(source, end) is not None
    if match[2].endswith(b")"):
        return False
    if words:
        named = not before[:1].isspace() and not _NO_TYPES.issuperset(words)
        return named and _NAME.match(source, end) is not None
    if _CONSTRUCTOR.match(source, end) is not None:
        return True
    return not before and _TYPE_AND_NAME.match(source, end) is not None


def _locks(pattern: re.Pattern[bytes], source: bytes) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(source):
        first = max(0, match.start() - 40)
        start = _BEFORE_A_LOCK.search(source, first, match.start())
        if start is not None and not source.endswith(b"define", 0, start.start() - 1):
            yield start.start(), match.end()


def _without(source: bytes, spans: list[tuple[int, int]]) -> bytes:
    pieces: list[bytes] = []
    kept_to = 0
    for start, end in sorted(spans):
        if start >= kept_to:
            pieces += [source[kept_to:start], b" " * (end - start)]
            kept_to = end
    return b"".join([*pieces, source[kept_to:]]) if pieces else source


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
    plain=plain_c,
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
    drop_names=_STATEMENTS,
    ambiguous=b"<=",
    plain=plain_cpp,
)
