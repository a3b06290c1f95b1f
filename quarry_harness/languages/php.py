"""PHP."""

from __future__ import annotations

from itertools import chain

from quarry_harness.languages.bodies import COMMENT, DIVISION, bodies
from quarry_harness.languages.rules import Bodies, Rules

# The hole of a string; one with other signs or braces in it is not read.
_HOLE = rb"""(?:\{\$|\$\{)(?:[^{}"'`/#?<]++|\?(?!>)|'[^'\\{}]*+'|"[^"\\{}$]*+")*+\}"""


def _string(sign: bytes) -> bytes:
    """Text with holes between two of these signs."""
    return rb"%b(?:[^%b\\{$]++|\\.|\{(?!\$)|\$(?!\{)|%b)*+%b" % (sign, sign, _HOLE, sign)


def _heredocs(label: bytes) -> tuple[bytes, bytes]:
    """A heredoc and a nowdoc in which the label stands at the end only."""
    begins, goes_on = label[:1], label[1:]
    end = rb"[ \t]*+%b(?=[;,)\r\n])" % label
    content = rb"[^%b\\{$\n]++|%b(?!%b)|\\[^\n]|\{(?!\$)|\$(?!\{)|%b" % (begins, begins, goes_on, _HOLE)
    raw = rb"[^%b\n]++|%b(?!%b)" % (begins, begins, goes_on)
    return (
        rb'<<<(?:%b|"%b")\r?\n(?:(?:%b)*+\n)*+%b' % (label, label, content, end),
        rb"<<<'%b'\r?\n(?:(?:%b)*+\n)*+%b" % (label, raw, end),
    )


_LABELS = (b"EOF", b"EOT", b"EOD", b"HTML")  # each makes the pattern longer
_TO_THE_END_OF_LINE = rb"(?:[^?\r\n]++|\?[^>\r\n])*+"  # or to where the code ends

# What stands between the parentheses before a body. Without angles there is no `?>` and no `<<<` in it, behind which a
# parenthesis may be none; the limits bound the cost of hostile text.
_PLAIN = rb"""[^(){};"'`/#<>]{0,1000}+"""
_OTHER = b"|".join(
    (
        rb"'(?:[^'\\]|\\.){0,200}+'",
        rb'"(?:[^"\\{$]|\\.){0,200}+"',
        rb">(?<==>)",
        rb"#\[",
        rb"/\*[^*]{0,200}+\*/",
        rb"//[^?\r\n]{0,200}+(?=[\r\n])",
    )
)
_PART = rb"%b(?:(?:%b)%b){0,30}+" % (_PLAIN, _OTHER, _PLAIN)
_PARAMETERS = rb"\(%b(?:\(%b(?:\(%b\)%b){0,3}+\)%b){0,30}+\)" % ((_PART,) * 5)


def _first_code(source: bytes) -> int:
    """Where the first tag is: quotes in the text before it are none. Files that only hold data are many, and long."""
    tag = source.find(b"<?") if b"function" in source else -1
    return tag if tag >= 0 else len(source)


_FINDER = bodies(
    (
        COMMENT,
        DIVISION,
        rb"//%b" % _TO_THE_END_OF_LINE,
        rb"#(?:[^?\[\r\n]%b)?+" % _TO_THE_END_OF_LINE,
        rb"'(?:[^'\\]++|\\.)*+'",
        _string(b'"'),
        _string(b"`"),
        rb"\?>(?:[^<]++|<(?!\?))*+(?:<\?|\Z)",
        rb"\?(?!>)",
        *chain.from_iterable(map(_heredocs, _LABELS)),
        rb"<(?!<<)",
    ),
    (rb"f(?<![\w$>:\x80-\xff]f)unction\b[\s&\w\x80-\xff]{0,200}+%b%b(?:\(%b\)%b)?+" % (_PARAMETERS, *(_PLAIN,) * 3),),
)

RULES = Rules(
    language="php",
    grammars={"php": "php"},
    extensions=dict.fromkeys(("php", "phtml", "php3", "php4", "php5", "phps"), "php"),
    functions={"function_definition": "function", "method_declaration": "method"},
    types=frozenset({"class_declaration", "interface_declaration", "trait_declaration", "enum_declaration"}),
    clauses=frozenset({"namespace_definition"}),
    wrappers=frozenset(
        {
            "ERROR",
            "declaration_list",
            "enum_declaration_list",
            # a function that is declared only under a condition is still one
            "compound_statement",
            "if_statement",
            "else_clause",
            "else_if_clause",
            "colon_block",
        }
    ),
    bodies=Bodies(_FINDER, first=_first_code),
)
