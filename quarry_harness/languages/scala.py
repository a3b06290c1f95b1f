"""Scala."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from quarry_harness.languages.bodies import DIVISION, LINE_COMMENT, bodies
from quarry_harness.languages.rules import (
    Bodies,
    Enter,
    Function,
    Rules,
    Scope,
    SecondLook,
    Step,
    children,
    name_of,
    text,
)

_TEMPLATES = frozenset({"template_body", "with_template_body"})

# What may stand in a template and hold an anonymous class.
_EXPRESSIONS = frozenset(
    {"block", "instance_expression", "lambda_expression", "parenthesized_expression", "tuple_expression"}
    | {"call_expression", "field_expression", "generic_function", "method_value", "macro_body"}
    | {"infix_expression", "prefix_expression", "postfix_expression", "ascription_expression", "assignment_expression"}
    | {"if_expression", "match_expression", "for_expression", "while_expression", "do_while_expression"}
    | {"try_expression", "throw_expression", "return_expression", "interpolated_string_expression"}
)


def _definition(node: Node, scope: Scope, source: bytes, last: Node | None = None) -> Iterable[Step]:
    """A def, backquotes and all; `this` is a constructor and bears its class's name. Default values are searched."""
    name = text(node.child_by_field_name("name"), source)
    kind = "method" if scope.container else "function"
    if name == "this":
        kind, name = "constructor", scope.container or name
    return (Function(node, kind, name, scope, node, last),)


def _declaration(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    return _definition(node, scope, source, _block_below(node, source))


_BRACE_BELOW = re.compile(rb"[ \t]*\r?\n[ \t]*\{")


def _block_below(node: Node, source: bytes) -> Node | None:
    """The body of a procedure, `def f()` without a type, whose brace is on the next line: to the grammar a sibling."""
    if node.child_by_field_name("return_type") is not None:
        return None
    below = node.next_sibling if _BRACE_BELOW.match(source, node.end_byte) else None
    return below if below is not None and below.type == "block" else None


def _anonymous_class(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    """The members of `new T {..}`; of `new {..} with T {..}`, whose last braces are an argument to the grammar."""
    if node.type == "instance_expression":
        yield from (Enter(child, scope) for child in children(node) if child.type in _TEMPLATES)
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


# `new T(..) {..}`: not where a plain type's name, its arguments and its constructor's are followed by what ends the
# expression. What is nested deeply, or long, stays; the limits bound the cost of hostile text.
_NAME = rb"\s++[\w$\x80-\xff]++(?:\s*+\.\s*+[\w$\x80-\xff]++)*+\s*+"
_PLAIN = rb"""[^\[\]"'`/{};]{0,80}+"""
_TYPES = rb"\[%b(?:\[%b(?:\[%b\]%b){0,5}+\]%b){0,5}+\]\s*+" % ((_PLAIN,) * 5)
_PLAIN = rb"""[^()"'`/{};]{0,80}+(?:"[^"\\\n$]{0,80}+"(?!")[^()"'`/{};]{0,80}+){0,5}+"""
_ARGUMENTS = rb"\(%b(?:\(%b(?:\(%b\)%b){0,5}+\)%b){0,5}+\)\s*+" % ((_PLAIN,) * 5)
_NEW = re.compile(
    rb"new\b(?!%b(?:%b)?+(?:(?:%b){1,3}+\.|(?:%b){0,3}+(?:[),;}\]]|(?!with\b)\w)))"
    % (_NAME, _TYPES, _ARGUMENTS, _ARGUMENTS)
)

_COMMENT = rb"/\*(?:[^*/]++|\*(?!/)|/(?!\*)|/\*(?:[^*/]++|\*(?!/)|/(?!\*))*+\*/)*+\*/"  # comments nest
_CHARACTER = rb"'(?:[^'\\\n]|[\xc2-\xdf].|[\xe0-\xef]..|[\xf0-\xf4]...|\\(?:u++[\da-fA-F]{4}|[^xu\n]))'"
_HOLE = rb"""\$[\w$]|\$\{[^{}"'`/<]*+\}"""
_IN_HOLE = rb"""[^{}"'`/<]++|"(?!"")(?:[^"\\\n$]++|\\[^\n$]|%b)*+"|/(?![*/])|<[\s=:%%-]|%b""" % (_HOLE, _CHARACTER)
_LARGE_HOLE = rb"""\$[\w$]|\$\{(?:%b|\{[^{}"'`/<]*+\})*+\}""" % _IN_HOLE
_OPERATOR = rb"!#%&*+\-/:<=>?@\\^|~"


def _string(quotes: bytes, part: bytes, simple: bytes) -> bytes:
    """What follows the quotes of a string, up to those that end it.

    It is an interpolated one, with holes that are code, where a name stands right before it. A name may end in `_` and
    operators, and a word of the language is none: what may be the one or the other is read as both, or not at all.
    """
    no_name = rb"(?<![\w$`\x80-\xff]%b)(?<![_%b][%b]%b)" % (quotes, _OPERATOR, _OPERATOR, quotes)
    name = rb"(?<=[^\w'][a-z]%b)" % quotes
    return rb"%b(?:%b)*+|%b(?:%b|%b)*+|(?:%b|%b)*+" % (no_name, simple, name, part, _LARGE_HOLE, part, _HOLE)


_STRING = rb'"(?:""(?:%b)"{3,}+|(?!"")(?:%b)")' % (
    _string(b'"""', rb'[^"$]++|"(?!"")', rb'[^"]++|"(?!"")'),
    _string(b'"', rb'[^"\\\n$]++|\\[^\n$]', rb'[^"\\\n]++|\\[^\n]'),
)

# After a string and a word, it is an argument: `"it" should {`.
_BRACE = rb"\{(?:%b)" % b"|".join(
    rb"(?<=%b\{)" % before for before in (rb"=", rb"=\s", rb"\Wmatch ", rb'" \w\w ', rb'" \w{4} ', rb'" \w{6} ')
)
_FINDER = bodies(
    (
        _COMMENT,
        LINE_COMMENT,
        DIVISION,
        _STRING,
        rb"'(?:%b|(?![\\']))" % _CHARACTER[1:],  # or of a symbol, or of quoted code
        rb"`[^`\n]++`",
        rb"<(?:(?![A-Za-z_\x80-\xff!?/])|(?<=[\w)\]]<)(?![!?/]))",  # others begin XML, where signs are text
        rb"#(?!!)",  # nor is a script's header read
    ),
    heads=(b"",),
    brace=_BRACE,
)

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
    second_looks=(SecondLook(_NEW, _anonymous_class),),
    hooks={"function_definition": _definition, "function_declaration": _declaration, "given_definition": _given},
    masked=mask_names,
    bodies=Bodies(_FINDER, stays_behind_a_place=True),
    hard=(b"'", 1_000, re.compile(rb"(?<!')'{1000}")),
    strange_runs_are_short=True,
)
