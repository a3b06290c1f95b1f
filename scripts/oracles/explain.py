"""Differences that are no fault of the chunker's own rules, told apart by the text itself.

Each reason is a rule that looks at the lines in question, so that a new difference of the same kind is explained and
one of another kind is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

COMMENTS = "a comment at the end of the body belongs to the grammar's node"
NEXT_LINE = "an indented body ends where the grammar's next token begins"
MACRO_LINE = "a line of macros or attributes in front belongs to the grammar's node"
CONDITIONAL = "an #if inside or around the function: the compiler sees one branch, the grammar both"
MACRO_END = "the end is in the arguments of a macro: libclang says where the macro is, and not the line of the `;`"
TAIL = "libclang's range of a function without a body ends before a line of `= default`, `= delete` or `-> type`"
MACRO_CALL = "a macro's call that reads like a declaration is a chunk, as it is for the labelling tool"
GRAMMAR = "the grammar reads these lines, or what it takes them for a part of, with errors"

_MACROS = re.compile(r"[\w\s(),:\[\]]*")  # words and their arguments: no statement, no comment, no #
_OLD_PROTOTYPE = re.compile(r"[A-Z_]\w*\s*\(\(.*\)\s*\)[^()]*;\s*(//.*|/\*.*)?", re.DOTALL)
_TAIL = re.compile(r"\s*(=\s*(default|delete)|->[^{};]*);.*", re.DOTALL)
_C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CALL = re.compile(r"\s*[A-Z][A-Z0-9_]{2,}\(")
_COMMENT = {
    "python": re.compile(r"#[^\n]*"),
    "scala": re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL),
}


@dataclass(frozen=True, slots=True)
class File:
    """What the rules look at beside the rows."""

    language: str
    lines: tuple[str, ...]
    tree: Node  # the root of our tree
    conditional: tuple[tuple[int, int], ...]  # first and last lines of #if groups, or of what is off


def reason(file: File, theirs: tuple[int, int] | None, ours: tuple[int, int] | None) -> str:
    """Why a function's two ranges differ, or why one side has none; "" where no rule says."""
    if theirs and ours and (why := _by_its_lines(file, theirs, ours)):
        return why
    if ours and not theirs and file.language in ("c", "cpp") and _CALL.match(file.lines[ours[0] - 1]):
        return MACRO_CALL
    spans = [span for span in (theirs, ours) if span]
    if any(first <= span[1] and span[0] <= last for first, last in file.conditional for span in spans):
        return CONDITIONAL
    return GRAMMAR if any(_misread(file.tree, *span) for span in spans) else ""


# What holds functions: an error elsewhere in one of these says nothing of a function in it.
_CONTAINERS = frozenset(
    {"translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "template_declaration"}
    | {"class_specifier", "struct_specifier", "field_declaration_list", "preproc_if", "preproc_ifdef", "preproc_else"}
    | {"compilation_unit", "program", "module", "class_definition", "object_definition", "template_body"}
)

# Outside all functions C and C++ have none: what stands in one there has lost what was around it.
_NO_STATEMENTS = frozenset({"labeled_statement"})


def _misread(root: Node, first: int, last: int) -> bool:
    """Whether an error meets these lines, or what they stand in and should not, such as the function before."""
    node = root
    while node.has_error or node.type in _NO_STATEMENTS:
        if node.type not in _CONTAINERS:
            return True
        met = [one for one in node.children if one.start_point.row < last and first <= one.end_point.row + 1]
        if len(met) != 1:
            return any(one.has_error for one in met)
        node = met[0]
    return False


def _by_its_lines(file: File, theirs: tuple[int, int], ours: tuple[int, int]) -> str:
    if file.language in ("c", "cpp"):
        return _of_c(file.lines, theirs, ours)
    if theirs[0] != ours[0]:
        return ""
    after = file.lines[theirs[1] : ours[1]]
    if file.language == "python" and after and _is_comment(file.language, after):
        return COMMENTS
    if file.language == "scala" and after and _is_comment(file.language, after[:-1]):
        return NEXT_LINE
    return ""


def _of_c(lines: tuple[str, ...], theirs: tuple[int, int], ours: tuple[int, int]) -> str:
    # Where several lines of macros are in front, the grammar may begin at the last.
    first, last = sorted((ours[0], theirs[0]))
    before = _C_COMMENT.sub("", "\n".join(lines[first - 1 : last - 1]))
    if theirs[1] == ours[1] and before and _MACROS.fullmatch(before):
        return MACRO_LINE
    if theirs[0] == ours[0] and theirs[1] < ours[1]:
        if _OLD_PROTOTYPE.search("\n".join(lines[theirs[1] - 1 : ours[1]])):
            return MACRO_END
        if _TAIL.fullmatch("\n".join(lines[theirs[1] : ours[1]])):
            return TAIL
    return ""


def _is_comment(language: str, lines: tuple[str, ...]) -> bool:
    return not _COMMENT[language].sub("", "\n".join(lines)).strip()
