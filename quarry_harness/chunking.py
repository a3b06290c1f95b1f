"""A blob's bytes to its function chunks.

The walk goes down through types, namespaces and wrappers only, and never into a function's body: what is inside
functions is folded into them. Where a language's rules name something inside bodies (a method of an anonymous
class), a pattern finds the few places worth a second look, and the tree says what each is.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import time
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import version
from typing import cast

from tree_sitter import Language, Node, Parser, Tree, TreeCursor
from tree_sitter_language_pack import SupportedLanguage, get_language

from quarry_harness import languages
from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.rules import Enter, Function, Hook, Look, Rules, Scope, Step
from quarry_harness.languages.rules import children, dotted, join, name_of
from quarry_harness.types import Chunk, ParsedBlob

MAX_BLOB_BYTES = 8 * 1024 * 1024

# A parse is given up after this many progress reports of the parser. It counts work, not time, so that every machine
# gives up on the same files; a report is about 100 parser actions.
PARSE_STEPS = 500_000
# And after this many seconds, whatever it did: the one limit that depends on the machine.
PARSE_LIMIT_S = 60.0

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_LFS = b"version https://git-lfs.github.com/spec/"
_LOOKED_AT = 8192
_CONTROL = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"


def chunk_blob(data: bytes, dialect: str) -> ParsedBlob:
    """Returns the function chunks of a blob, in source order; raises nothing, whatever the bytes.

    `dialect` is a key of `languages.LANGUAGE_OF_DIALECT`. The status is "parsed", or why there are no chunks:
    "too_large" (over `MAX_BLOB_BYTES`), "lfs_pointer", "utf16", "binary", "parse_timeout".
    """
    if reason := _unreadable(data):
        return ParsedBlob(reason)
    rules = RULES_OF_DIALECT[dialect]
    try:
        tree = _parse(data, dialect)
        errors = _count_errors(tree.root_node)
        if errors and rules.mask is not None and (masked := rules.mask(data)) != data:
            other = _parse(masked, dialect)
            if (fewer := _count_errors(other.root_node)) < errors:
                tree, errors = other, fewer
    except TimeoutError:
        return ParsedBlob("parse_timeout")
    chunks = sorted(_Walk(tree.root_node, data, dialect).run(), key=lambda c: (c.start_byte, -c.end_byte, c.name))
    return ParsedBlob("parsed", tuple(chunks), errors)


def source_text(data: bytes, chunk: Chunk) -> str:
    """Returns the chunk's source from the beginning of its first line, with LF line endings.

    Bytes that are not UTF-8 become U+FFFD, and a byte order mark is dropped.
    """
    start = data.rfind(b"\n", 0, chunk.start_byte) + 1
    text = data[start : chunk.end_byte].decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=None)
def fingerprint(dialect: str) -> str:
    """Returns a hash of all that decides this dialect's chunks: grammar, parser, the description and the rules here.

    The description and the rules count by their source, comments included: what is parsed once too often costs
    seconds, what is stale costs the result.
    """
    rules = RULES_OF_DIALECT[dialect]
    described_in = sys.modules[_module_of(rules)]
    parts = [dialect, rules.grammars[dialect], str(_language(dialect).abi_version)]
    parts += [f"{package} {version(package)}" for package in ("tree-sitter", "tree-sitter-language-pack")]
    if dialect == "csharp":  # the pack takes this grammar from a package of its own
        parts.append(f"tree-sitter-c-sharp {version('tree-sitter-c-sharp')}")
    parts += [inspect.getsource(module) for module in (described_in, languages.rules, sys.modules[__name__])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _module_of(rules: Rules) -> str:
    """The module of `languages` that holds this description."""
    for name in vars(languages).values():
        if inspect.ismodule(name) and any(value is rules for value in vars(name).values()):
            return name.__name__
    raise KeyError(rules.language)


def _unreadable(data: bytes) -> str:
    """Why a blob is not parsed, "" when it is."""
    if len(data) > MAX_BLOB_BYTES:
        return "too_large"
    if data.startswith(_LFS) and len(data) < 1024:
        return "lfs_pointer"
    head = data[:_LOOKED_AT]
    zeros = head.count(0)
    if data.startswith(_UTF16_MARKS) or _looks_like_utf16(head, zeros):
        return "utf16"
    # A few control characters stand in real sources (a NUL in a test's string); a compiled file has many.
    if (zeros or b"\x01" in head) and len(head) - len(head.translate(None, _CONTROL)) > len(head) // 100 + 8:
        return "binary"
    return ""


def _looks_like_utf16(head: bytes, zeros: int) -> bool:
    """Text without a mark in two-byte units: nearly all zeros are on one side of the pairs."""
    return zeros > len(head) // 4 and max(head[::2].count(0), head[1::2].count(0)) > zeros * 9 // 10


@lru_cache(maxsize=None)
def _language(dialect: str) -> Language:
    return get_language(cast(SupportedLanguage, RULES_OF_DIALECT[dialect].grammars[dialect]))


def _parse(data: bytes, dialect: str) -> Tree:
    """A tree, or TimeoutError."""
    steps = 0
    deadline = time.monotonic() + PARSE_LIMIT_S

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > PARSE_STEPS or (steps % 64 == 0 and time.monotonic() > deadline)

    view = memoryview(data)
    parser = Parser(_language(dialect))
    try:
        return parser.parse(lambda offset, _point: view[offset:] if offset else data, progress_callback=give_up)
    except ValueError as error:  # all the binding says of a parse that was stopped
        raise TimeoutError from error


def _count_errors(root: Node) -> int:
    """How many ERROR and MISSING nodes a tree has; only the parts that have any are visited."""
    if not root.has_error:
        return 0
    count = 0
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        count += node.is_error or node.is_missing
        if node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return count


def _wrapper(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    return (Enter(node, scope),)


def _searched(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    return (Look(node, scope),)


@lru_cache(maxsize=None)
def _hooks(dialect: str) -> dict[str, Hook]:
    """The whole description as one table: node type -> what to do with such a node."""
    rules = RULES_OF_DIALECT[dialect]
    naming = rules.name or name_of

    def container(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
        return (Enter(node, scope.inside_type(naming(node, source))),)

    def namespace(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
        return (Enter(node, scope.inside_namespace(naming(node, source))),)

    def function(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
        kind = rules.functions[node.type]
        kind = "method" if kind == "function" and scope.container else kind
        return (Function(node, kind, naming(node, source), scope, node.child_by_field_name("body")),)

    table: dict[str, Hook] = dict.fromkeys(rules.wrappers, _wrapper)
    table |= dict.fromkeys(rules.searched, _searched)
    table |= dict.fromkeys(rules.namespaces | rules.clauses, namespace)
    table |= dict.fromkeys(rules.types, container)
    table |= dict.fromkeys(rules.functions, function)
    return table | dict(rules.hooks)


class _Walk:
    """One walk over one tree: what is found, and what is still to be walked through."""

    def __init__(self, root: Node, source: bytes, dialect: str) -> None:
        self.rules = RULES_OF_DIALECT[dialect]
        self.hooks = _hooks(dialect)
        self.source = source
        # For each second look, where it may find something: the last byte of every match, in order.
        self.looks = [(look, [m.end() - 1 for m in look.pattern.finditer(source)]) for look in self.rules.second_looks]
        self.found: list[Chunk] = []
        self.pending: list[Enter | Look] = [Enter(root, Scope())]

    def run(self) -> list[Chunk]:
        while self.pending:
            step = self.pending.pop()
            if isinstance(step, Enter):
                self._through(step.node, step.scope)
            else:
                self._look_inside(step.node, step.scope)
        return self.found

    def _through(self, parent: Node, outer: Scope) -> None:
        scope = outer
        clauses = self.rules.clauses
        for node in children(parent):
            kind = node.type
            hook = self.hooks.get(kind)
            if hook is None:
                continue
            if kind in clauses and node.child_by_field_name("body") is None:
                name = self._clause_name(node)
                scope = (scope if self.rules.clauses_stack else outer).inside_namespace(name)
                continue
            for step in hook(node, scope, self.source):
                self._take(step)

    def _take(self, step: Step) -> None:
        if not isinstance(step, Function):
            self.pending.append(step)
        elif step.name and step.name not in self.rules.drop_names:
            self.found.append(self._chunk(step))
            if step.body is not None:
                self.pending.append(Look(step.body, step.scope))

    def _look_inside(self, node: Node, scope: Scope) -> None:
        for look, places in self.looks:
            at = bisect_left(places, node.start_byte)
            if at == len(places) or places[at] >= node.end_byte:
                continue
            cursor = node.walk()
            while at < len(places) and places[at] < node.end_byte:
                inner = _innermost(cursor, places[at], look.not_inside)
                at += 1
                if inner is None:
                    continue
                for step in look.hook(inner, scope, self.source):
                    self._take(step)
                    # What is inside that will be found by its own walk.
                    at = max(at, bisect_left(places, step.node.end_byte))

    def _clause_name(self, node: Node) -> str:
        named = node.child_by_field_name("name")
        return dotted(named if named is not None else node.named_child(node.named_child_count - 1), self.source)

    def _chunk(self, step: Function) -> Chunk:
        node = step.node
        last = node if step.end is None else (step.end.prev_sibling or node)
        return Chunk(
            language=self.rules.language,
            kind=step.kind,
            name=step.name,
            container=step.scope.container,
            qualified_name=join(step.scope.chain, step.name),
            start_line=node.start_point.row + 1,
            end_line=last.end_point.row + 1,
            start_byte=node.start_byte,
            end_byte=last.end_byte,
        )


def _innermost(cursor: TreeCursor, byte: int, not_inside: frozenset[str]) -> Node | None:
    """The smallest named node that holds a byte; None where there is none, or only inside a node of `not_inside`.

    The cursor only ever moves forward in the tree, so that all the calls for one body cost no more than one walk
    through it, however deep or wide it is.
    """
    node = cursor.node
    while node is not None and node.end_byte <= byte:
        if not cursor.goto_next_sibling() and not cursor.goto_parent():
            return None
        node = cursor.node
    while node is not None and node.start_byte <= byte:
        if node.type in not_inside:
            return None
        if not cursor.goto_first_child():
            while node is not None and not node.is_named and cursor.goto_parent():
                node = cursor.node
            return node
        node = cursor.node
        while node is not None and node.end_byte <= byte:
            if not cursor.goto_next_sibling():
                return None
            node = cursor.node
    return None
