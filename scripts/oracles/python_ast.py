"""Python's own parser: the functions of the files named on standard input, as JSON lines.

Which functions: those outside all functions, and the methods of every class, wherever it stands; not the getters,
setters and deleters of properties. Their lines begin with the first decorator.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_PROPERTIES = ("property", "cached_property", "abstractproperty")
_ACCESSORS = ("setter", "getter", "deleter")


def functions(node: ast.AST, in_function: bool = False, in_class: bool = False) -> Iterator[tuple[str, int, int]]:
    """Yields name, first and last line of the functions below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            if not in_function and not (in_class and any(map(_makes_a_property, child.decorator_list))):
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                yield child.name, first, child.end_lineno or child.lineno
            yield from functions(child, in_function=True)
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, in_class=True)
        else:
            yield from functions(child, in_function, in_class)


def _makes_a_property(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Attribute) and decorator.attr in _ACCESSORS:
        return True
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) in _PROPERTIES


def main() -> None:
    warnings.simplefilter("ignore")  # a file's own invalid escapes
    for path in sys.stdin.read().splitlines():
        try:
            tree = ast.parse(Path(path).read_bytes())
        except (SyntaxError, ValueError) as error:
            print(json.dumps({"path": path, "failed": str(error)}))
            continue
        print(json.dumps({"path": path, "parsed": True}))
        for name, first, last in functions(tree):
            print(json.dumps({"path": path, "name": name, "start_line": first, "end_line": last, "body": True}))


if __name__ == "__main__":
    main()
