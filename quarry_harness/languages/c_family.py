"""C and C++: one family, two grammars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TypeAlias

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
    body = node.child_by_field_name("body")
    yield Function(node, kind or "function", name, scope, body if body is not None and body.has_error else None)


def _definition(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A function with a body; or a class or namespace behind a macro that the grammar does not know."""
    declarator = node.child_by_field_name("declarator")
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type in _CLASSES:
        yield from _class(kind, scope, source)
    named = _function_name(declarator)
    # Below a macro's call, prototypes are to the grammar the parameters of an old-style function.
    between = [child for child in children(node) if child.type == "declaration"] if node.child_count > 3 else ()
    prototypes = [step for child in between for step in _declaration(child, scope, source)]
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


# Searched for in every file: each begins with a rare sign, or with a line break (a file's first line is left as it is).
_COMMENT_IN_A_MACRO = re.compile(rb"/\*[^*\n]{0,200}+(?:\*(?!/)[^*\n]{0,200}+){0,9}+\*/(?=[ \t]*\\\r?\n)")
_DOUBLY_IN_PARENTHESES = re.compile(rb"\(\([^()]*+(?:\([^()]*+\)[^()]*+)*+\)\s*+\)(?=\s*;)")
_NAME_AND_MACRO = re.compile(rb"\b(?!(?:return|else|do|throw|co_return)\b)\w+[ \t]+([A-Z_]\w*[ \t]*)\Z")
_MACRO = rb"(?:[A-Z][A-Z0-9_]{2,}+\b|[A-Z]\w*_(?:API|EXPORT)\b)"
_CALL = _MACRO + rb"(?:\([^(){};\n]*+\)|[ \t]\([\d, ]++\))?"
_AFTER_SMALL_WORDS = re.compile(
    rb"\n(?:template[ \t]*<[^\n;{}]*>)?([a-z0-9_ \t*]*+)(%b(?:[ \t]+%b)*+)(?=\s+[\w~:{/*&])" % (_CALL, _CALL)
)
_BEFORE_A_BODY = re.compile(rb"\)(?: const)? ([A-Z][A-Z0-9_]{2,}+)(?=\s*\{|[ \t]*=[ \t]*default\b)")
# Before a name, these words are no type: the macro is the type, or there is none.
_NO_TYPES = frozenset(
    b"case class const constexpr delete else enum explicit extern friend goto inline local namespace new register "
    b"return static struct template throw typedef typename union using virtual volatile".split()
)
_NO_HEADS = frozenset({b"return", b"else", b"case", b"new", b"throw", b"enum", b"using"})
_TEMPLATE = rb"<[^<>(){};\n]*+(?:<[^<>(){};\n]*+>[^<>(){};\n]*+)*+>"
_WORD = rb"(?!(?:return|else|case|goto|new|delete|throw|const|volatile)\b)[A-Za-z_]\w*+"
_TYPE = rb"%b(?:%b)?(?:::\w++(?:%b)?)*+(?:[ \t]+%b){0,2}?(?:[ \t]+const)?" % (_WORD, _TEMPLATE, _TEMPLATE, _WORD)
_SCOPE = rb"(?:\w++(?:%b)?::)*+" % _TEMPLATE
# A function's head, of which the macros before it are no part: a type and a name, a constructor outside its class, a
# destructor, a conversion; and a pointer to a function.
_HEAD = re.compile(
    rb"(?:[ \t]+|(?<=\n))(?:(?:const|constexpr|inline|static|virtual|explicit|friend)[ \t]+)*+(?:%b|%b|%b)"
    % (
        _TYPE
        + rb"(?:[ \t]*[*&][*&\s]*|\s+)(?:\(\*\s*\w++\)|%b(?:operator[ \t]*[^\s\w(]+|\w++))[ \t]*\((?!\()" % _SCOPE,
        rb"(?:\w+::)*(\w++)(?:%b)?::\1[ \t]*\(" % _TEMPLATE,
        _SCOPE + rb"(?:~\w+[ \t]*\(|operator\b)",
    )
)
_NAME = re.compile(rb"\s+(?:explicit[ \t]+)?[*& \t]*([A-Za-z_]\w*+)[ \t]*(?:[A-Z_]\w*[ \t]*\()?\(")
_COMMENTS = rb"(?:\s|//[^\n]*+|/\*[^*]{0,2000}+(?:\*(?!/)[^*]{0,2000}+){0,99}+\*/)*+"
_CLASS_BODY = re.compile(rb"\s*(?:final\b)?%b[:{]" % _COMMENTS)
_CLASSES_NAMED = [
    re.compile(rb"%b[ \t]+(?:%b[ \t]+)*+([A-Za-z_]\w*+)" % (word, _CALL)) for word in (b"class", b"struct", b"union")
]
# Clang's annotations for its analysis of thread safety, under the names that its manual gives them.
_LOCKS = {
    word: re.compile(word + rb"[ \t]*\([^(){};]*+(?:\([^(){};]*+\)[^(){};]*+)*+\)")
    for word in (b"GUARDED_BY", b"LOCKS_REQUIRED", b"LOCKS_EXCLUDED", b"LOCK_FUNCTION", b"E_LOCK", b"D_LOCK")
}
_BEFORE_A_LOCK = re.compile(rb"(?<!\w)(?:ABSL_)?(?:PT_|EXCLUSIVE_|SHARED_|UN|ASSERT_EXCLUSIV|ASSERT_SHARE)?\Z")

Span: TypeAlias = tuple[int, int]


def plain_c(source: bytes) -> bytes:
    """The source without what the grammar cannot read, every offset and line break kept.

    A comment inside a macro ends it there; `OF` in `int f OF((int a));`, `CALL` in `int CALL f(int a)` and `API` in
    `API type f(int a)` are taken for types or names.
    """
    return _without(source, _macros(source, frozenset))


def plain_cpp(source: bytes) -> bytes:
    """As in C; and without the macros in `class API Foo {`, behind which the grammar sees a function's statements, in
    `API X::X() {` and, inside a class of the file, `API X() {`, in `f() NOEXCEPT {`, and in `int x GUARDED_BY(m);`,
    which it takes for a function.
    """
    spans = _macros(source, lambda: frozenset(name for one in _CLASSES_NAMED for name in one.findall(source)))
    spans += [match.span(1) for match in _BEFORE_A_BODY.finditer(source)]
    if b"LOCK" in source or b"GUARDED_BY" in source:
        spans += [span for word, pattern in _LOCKS.items() if word in source for span in _locks(pattern, source)]
    return _without(source, spans)


def _macros(source: bytes, find_classes: Callable[[], frozenset[bytes]]) -> list[Span]:
    classes = cache(find_classes)
    spans = [match.span() for match in _COMMENT_IN_A_MACRO.finditer(source)]
    spans += [_in_front(match, classes) for match in _AFTER_SMALL_WORDS.finditer(source)]
    for match in _DOUBLY_IN_PARENTHESES.finditer(source):
        before = max(0, match.start() - 200)
        if macro := _NAME_AND_MACRO.search(source[before : match.start()]):
            spans += [(before + macro.start(1), match.start() + 1), (match.end() - 1, match.end())]
    return spans


def _in_front(match: re.Match[bytes], classes: Callable[[], frozenset[bytes]]) -> Span:
    """Which words in capitals, with nothing but small words before them in their line, are neither type nor name."""
    before, source, (start, end) = match[1], match.string, match.span(2)
    words = before.replace(b"*", b" ").split()
    if (before and not before.endswith((b" ", b"\t", b"*"))) or (words and words[-1] in _NO_HEADS):
        return end, end
    last = start + [one.start() for one in re.finditer(_CALL, match[2])][-1]
    if words and words[-1] in (b"class", b"struct", b"union"):
        name = re.compile(rb"\s+[A-Za-z_]\w*+").match(source, end)
        named = name is not None and _CLASS_BODY.match(source, name.end()) is not None
        return start, (end if named else last if _CLASS_BODY.match(source, end) is not None else start)
    if _HEAD.match(source, end) is not None:
        return start, end
    name = _NAME.match(source, end)
    if name is None:
        return end, end
    untyped = _NO_TYPES.issuperset(words)
    whole = name[1] in classes() if untyped else not before[:1].isspace()
    return start, (end if whole else last)


def _locks(pattern: re.Pattern[bytes], source: bytes) -> Iterator[Span]:
    for match in pattern.finditer(source):
        first = max(0, match.start() - 40)
        start = _BEFORE_A_LOCK.search(source, first, match.start())
        if start is not None and not source.endswith(b"define", 0, start.start() - 1):
            yield start.start(), match.end()


# Searched for where the tree has errors.
_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*(if|el|endif|)(?:[^\n\\/]++|\\.|/(?!\*)|/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z))*+", re.S
)
_NO_CODE = re.compile(
    rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)|//[^\n]*+|\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'",
    re.S,
)
_BEGINS_WITHIN = re.compile(rb"\s*[:,?|.=)\]]")
_ENDS_WITHIN = re.compile(rb"(?:[,?|=&(+<]|\belse)\s*\Z")
_ALONE = re.compile(
    rb"\n([ \t]*+)(%b([ \t]?\([^{};\n]*\))?)[ \t]*(?:/[*/][^\n]*)?\r?(?=\n|\Z)(?=(%b))" % (_MACRO, _COMMENTS)
)
_NO_FUNCTION = re.compile(rb"(?:(?:template|class|struct|union|enum|namespace|using|typedef|extern)\b|#|\Z)")
_TOP_CALL = re.compile(rb"\n([A-Z]\w*\([^(){};\"]{0,300}(?:\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"\s*)++\);)")
_ANY_BEHIND = re.compile(rb"\)[a-z \t]*\s%b[^;{}]*[;{]" % _MACRO)
_BEHIND, _BEHIND_IN_C = (
    re.compile(
        rb"\n[ \t]*(?:(?!(?:return|else|case)\b)[A-Za-z_][\w:<>,*& \t]{0,200}[ \t*&])?"
        rb"(?!(?:if|for|while|switch|return|sizeof)\b)(?:~?\w++|\(\*\w+\))[ \t]*"
        rb"\([^(){};]{0,1000}+(?:\([^(){};]{0,1000}+\)[^(){};]{0,1000}+){0,100}+\)%b(?=\s*[;{])" % macro
    )
    for macro in (
        rb"(?:[ \t]+(?:const|noexcept|override|final)\b)*+[ \t]+(%b)" % _MACRO,
        rb"\s+(%b(?:\s+%b)*+)" % (_CALL, _CALL),
    )
)


def _masked(plain: Callable[[bytes], bytes], behind: re.Pattern[bytes], data: bytes, _root: Node) -> Iterator[bytes]:
    """The plain source without branches of an `#if` that splits a statement, lines that are one macro, calls of macros
    with a string in the first column, and macros behind a function's parameters."""
    source = plain(data)
    spans, alone = [*_split_conditionals(source)], [*_lone_macros(source)]
    searched = (_TOP_CALL, behind) if _ANY_BEHIND.search(source) is not None else (_TOP_CALL,)
    spans += [match.span(1) for pattern in searched for match in pattern.finditer(source)]
    if spans or alone:
        masked = bytearray(_without(source, [*spans, *(span for span, _ in alone)]))
        for (start, _), head in alone:
            masked[start : start + len(head)] = head
        yield bytes(masked)


def _split_conditionals(source: bytes) -> Iterator[Span]:
    """All but the first branch of each `#if` that splits a statement, and the lines of its directives: of those inside
    parentheses, and those in a body with a branch that leaves a bracket open, or begins or ends within an expression.
    """
    now, end, begins = (0, 0), 0, False
    groups: list[_Group] = []
    for match in _DIRECTIVE.finditer(source):
        code = _NO_CODE.sub(b" ", source[end : match.start()])
        now, end, word = _open(code, now), match.end(), match[1]
        if groups and begins:
            groups[-1].splits |= _BEGINS_WITHIN.match(code) is not None
        begins = word in (b"if", b"el")
        if word == b"if":
            groups.append(_Group(now))
        if not word or not groups:
            continue
        group = groups[-1]
        group.directives.append(match.span())
        if word != b"if":
            group.splits |= now != group.outside or _ENDS_WITHIN.search(code, len(code) - 100) is not None
            group.after = group.after or now
            now = group.outside
        if word == b"endif":
            groups.pop()
            now = group.after or now
            braces, parentheses = group.outside
            if parentheses or (braces and group.splits):
                yield group.directives[0]
                yield group.directives[1][0], group.directives[-1][1]


def _open(code: bytes, before: tuple[int, int]) -> tuple[int, int]:
    """How many braces are open after this code, and how many parentheses since the last brace or statement."""
    since = max(code.rfind(b";"), code.rfind(b"{"), code.rfind(b"}")) + 1
    parentheses = code.count(b"(", since) - code.count(b")", since) + (0 if since else before[1])
    return before[0] + code.count(b"{") - code.count(b"}"), max(0, parentheses)


@dataclass(slots=True)
class _Group:
    """An `#if` up to its `#endif`."""

    outside: tuple[int, int]
    directives: list[Span] = field(default_factory=list)
    after: tuple[int, int] | None = None  # behind the first branch
    splits: bool = False


def _lone_macros(source: bytes) -> Iterator[tuple[Span, bytes]]:
    """Lines that are one macro, and what to put there: in front of a function's head, whose first line they are, a word
    that may stand there.
    """
    words: dict[int, bytes] = {}  # by where the macro starts
    for match in reversed([*_ALONE.finditer(source)]):
        indent, (start, end), arguments, at = match[1], match.span(2), match[3], match.end(4)
        if source[max(0, match.start() - 200) : match.start()].rstrip()[-1:] in b"|,=(+&?<-*!%^\\":
            continue
        head = _HEAD.match(source, at - 1) or _HEAD.match(source, at)
        alone = (source.startswith(b"}", at) and not arguments) or (
            indent and re.match(rb"[ \t][A-Za-z_~]", source[at - 1 : at + 1])
        )
        if head and not arguments and end - start >= len(b"inline"):
            words[start] = b"inline"
        elif _NO_FUNCTION.match(source, at) or (alone and not head and at not in words):
            words[start] = b""
        elif at in words and not (words[at] and arguments):
            words[start] = words[at]
        else:
            continue
        yield (start, end), words[start]


def _without(source: bytes, spans: list[Span]) -> bytes:
    pieces: list[bytes] = []
    kept_to = 0
    for start, end in sorted(spans):
        if start < end and end > kept_to:
            first = max(start, kept_to)
            pieces += [source[kept_to:first], re.sub(rb"[^\r\n]", b" ", source[first:end])]
            kept_to = end
    return b"".join([*pieces, source[kept_to:]]) if pieces else source


_WRAPPERS = frozenset(
    {"ERROR", "declaration_list", "linkage_specification", "compound_statement", "labeled_statement"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"}
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
    masked=partial(_masked, plain_c, _BEHIND_IN_C),
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
    masked=partial(_masked, plain_cpp, _BEHIND),
)
