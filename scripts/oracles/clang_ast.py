"""libclang: the functions of the C or C++ files named on standard input, as JSON lines.

clang_ast.py FOLDER_OF_THE_BINDINGS c|cpp [FLAG...]

Which functions: definitions and prototypes of a file's own text, in namespaces and classes; not conversion operators,
deduction guides, lambdas, functions of local classes, and what a macro or a template makes. Their lines begin after
`template <..>`. A function whose name is not in the text is reported with a note: a macro has made it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, c_uint
from importlib import import_module
from pathlib import Path
from typing import Any

# The kinds of cursor; without CONVERSION_FUNCTION.
KINDS = {"FUNCTION_DECL", "CXX_METHOD", "CONSTRUCTOR", "DESTRUCTOR", "FUNCTION_TEMPLATE"}
THROUGH = {
    *("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL", "FRIEND_DECL", "STRUCT_DECL", "UNION_DECL", "CLASS_DECL"),
    *("CLASS_TEMPLATE", "CLASS_TEMPLATE_PARTIAL_SPECIALIZATION"),
}
OPTIONS = 0x200 | 0x01  # keep going after what is missing; the record that the skipped ranges come from
ERROR = 3
FATAL = 4


def declarations(cursor: Any, path: str) -> Iterator[Any]:
    """Yields the cursors of the functions outside all functions."""
    for child in cursor.get_children():
        where = child.location.file
        if where is None or where.name != path:
            continue
        if child.kind.name in KINDS:
            # A template of conversion operators has no kind of its own.
            if not (child.spelling.startswith("operator ") and child.kind.name == "FUNCTION_TEMPLATE"):
                yield child
        elif child.kind.name in THROUGH:
            yield from declarations(child, path)
        elif child.kind.name in ("TYPEDEF_DECL", "VAR_DECL", "FIELD_DECL"):
            # A type may be declared inside another declaration.
            yield from declarations(child, path)


def first_line(cursor: Any) -> int:
    """The first line after `template <..>`, several of them where a member of a template is a template."""
    depth = 0
    tokens = iter(cursor.get_tokens())
    for token in tokens:
        if token.spelling != "template":
            return int(token.location.line)
        for part in tokens:
            depth += part.spelling.count("<") if part.spelling in ("<", "<<") else 0
            depth -= part.spelling.count(">") if part.spelling in (">", ">>") else 0
            if depth <= 0:
                break
    return int(cursor.extent.start.line)


def has_body(cursor: Any) -> bool:
    # For libclang, `= default` inside a class is none.
    return bool(cursor.is_definition())


def in_the_text(cursor: Any, source: bytes) -> bool:
    """Whether the name stands where the function is declared."""
    name = cursor.spelling.partition("<")[0].strip().encode()
    return source.startswith((name, b"operator", b"~"), cursor.location.offset)


def row(cursor: Any, path: str, source: bytes) -> dict[str, object]:
    template = cursor.kind.name == "FUNCTION_TEMPLATE" or source.startswith(b"template", cursor.extent.start.offset)
    name = cursor.spelling
    if not name.startswith("operator"):
        name = name.partition("<")[0]
    found: dict[str, object] = {"path": path, "name": name}
    found["start_line"] = first_line(cursor) if template else cursor.extent.start.line
    found["end_line"] = cursor.extent.end.line
    found["body"] = has_body(cursor)
    if not in_the_text(cursor, source):
        found["note"] = "macro"
    return found


def skipped(cindex: Any, unit: Any, path: str) -> Iterator[tuple[int, int]]:
    """The lines that the preprocessor has left out."""

    class Ranges(Structure):
        _fields_ = (("count", c_uint), ("ranges", POINTER(cindex.SourceRange)))

    function = cindex.conf.lib.clang_getSkippedRanges
    function.argtypes = [cindex.TranslationUnit, cindex.File]
    function.restype = POINTER(Ranges)
    answer = function(unit, unit.get_file(path)).contents
    for index in range(answer.count):
        yield answer.ranges[index].start.line, answer.ranges[index].end.line


def _missing(diagnostic: Any) -> bool:
    return diagnostic.severity >= ERROR and "file not found" in diagnostic.spelling


def main() -> None:
    bindings, language, *flags = sys.argv[1:]
    sys.path.insert(0, bindings)
    cindex = import_module("clang.cindex")

    index = cindex.Index.create()
    standard = ["-xc++", "-std=c++20"] if language == "cpp" else ["-xc", "-std=gnu17"]
    for path in sys.stdin.read().splitlines():
        options = [*standard, *flags, f"-I{Path(path).parent}", "-w", "-ferror-limit=0"]
        unit = index.parse(path, options, options=OPTIONS)
        source = Path(path).read_bytes()
        # What follows a header that is not there is guesswork.
        problem = next((one for one in unit.diagnostics if one.severity >= FATAL or _missing(one)), None)
        if problem is not None:
            print(json.dumps({"path": path, "failed": problem.spelling}))
            continue
        print(json.dumps({"path": path, "parsed": True}))
        for first, last in skipped(cindex, unit, path):
            print(json.dumps({"path": path, "hidden": [first, last]}))
        seen = set()  # what a struct declares is a child of the struct, and of a variable declared with it
        for cursor in declarations(unit.cursor, path):
            if (place := (cursor.get_usr(), cursor.location.offset)) in seen:
                continue
            seen.add(place)
            print(json.dumps(row(cursor, path, source)))


if __name__ == "__main__":
    main()
