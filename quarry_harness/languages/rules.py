"""What a language description is made of, and the few small helpers the descriptions share."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

from tree_sitter import Node

from quarry_harness.types import NOTHING


class Scope(NamedTuple):
    """Where a node stands: the nearest enclosing type, and the dotted chain of what encloses it."""

    container: str = ""
    chain: str = ""

    def inside_type(self, name: str) -> Scope:
        """The scope of a type's members. A type without a name leaves the scope as it is."""
        return Scope(name.rpartition(".")[2], join(self.chain, name)) if name else self

    def inside_namespace(self, name: str) -> Scope:
        """The scope of a namespace's members: the chain grows, the container stays."""
        return Scope(self.container, join(self.chain, name)) if name else self


class Function(NamedTuple):
    """A function: the node whose lines it has, and the node whose inside a second look may search."""

    node: Node
    kind: str
    name: str
    scope: Scope
    body: Node | None = None
    last: Node | None = None  # the node whose end is the function's, where that is not its own node's


class Enter(NamedTuple):
    """A node to walk through."""

    node: Node
    scope: Scope


class Look(NamedTuple):
    """A node not to walk through, only to search for what the second look finds."""

    node: Node
    scope: Scope


Step: TypeAlias = Function | Enter | Look
Span: TypeAlias = tuple[int, int]  # the first byte, and the one behind the last
Hook: TypeAlias = Callable[[Node, Scope, bytes], Iterable[Step]]


@cache
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """A pattern, compiled when it is first used: a worker needs few of all, and the long ones take long."""
    return re.compile(pattern, re.S)


class SecondLook(NamedTuple):
    """How to find, without walking them, the places inside function bodies that hold chunks by rule.

    `pattern` may match too much and never too little; `hook` is asked about the smallest named node that holds the
    match's last byte, and answers nothing for a false match.
    """

    pattern: re.Pattern[bytes]
    hook: Hook
    in_errors: bool = False  # only a tree with errors can hold such a place
    word: bytes = b""  # what every match holds: a blob without it is not searched
    not_inside: frozenset[str] = frozenset()  # nodes between the body and the place that make it none


class Bodies(NamedTuple):
    """How to find the bodies of functions in a source without a tree; `bodies.bodies` makes the pattern."""

    finder: bytes
    sign: bytes = b"{"  # what every source with a body has
    first: Callable[[bytes], int] | None = None  # where the source begins to be code
    # What must stand in comments and strings, or else nothing of the source is certain: its places, in ascending order.
    doubts: Callable[[bytes], Sequence[int]] | None = None
    # Where that ends which begins at a sign, and which the pattern does not explain; 0 where that cannot be told.
    explain: Callable[[bytes, int], int] | None = None
    # The line up to the head of what looks like a body and is a block that is walked through.
    blocks: bytes = b""
    stays_behind_a_place: bool = False  # the first body behind a place for a second look is a class's
    go_inside: bool = True  # in a body that has to stay, those inside it are taken out
    stays: Callable[[bytes, int, int], bool] | None = None  # whether a body with these insides has to stay
    opening: bytes = b"/*"  # what is put in place of what is taken out
    closing: bytes = b"*/"
    filler: bytes = b""  # at the beginning of a body that was taken out, where an empty one could be something else
    despite_errors: bool = False  # the tree of what is left may be used though it has errors

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """What matches a body, and what may look like one."""
        return compiled(self.finder)

    @property
    def block(self) -> re.Pattern[bytes] | None:
        """What matches the line before a block that only looks like a body."""
        return compiled(self.blocks) if self.blocks else None


class Rules(NamedTuple):
    """One language: which nodes are functions, what encloses them, what is walked through."""

    language: str
    grammars: Mapping[str, str]  # dialect -> grammar of the pack, or of the package
    extensions: Mapping[str, str]  # file name extension, lower case -> dialect
    functions: Mapping[str, str] = NOTHING  # node type -> kind; "function" in a type is a "method"
    types: frozenset[str] = frozenset()  # what they hold has their name as container
    namespaces: frozenset[str] = frozenset()  # what they hold has their name in its qualified name only
    clauses: frozenset[str] = frozenset()  # like namespaces, for the siblings that follow
    clauses_stack: bool = False  # a clause adds to the one before it, and does not replace it
    wrappers: frozenset[str] = frozenset()  # walked through, and add nothing
    searched: frozenset[str] = frozenset()  # not walked through, but the second look searches them
    hooks: Mapping[str, Hook] = NOTHING  # what cannot be said as data
    second_looks: tuple[SecondLook, ...] = ()
    drop_names: frozenset[str] = frozenset()  # "functions" that error recovery makes of statements
    name: Callable[[Node, bytes], str] | None = None  # instead of the text of the field `name`
    ambiguous: bytes = b""  # signs of which the grammar's error recovery cannot bear thousands in one statement
    # What its error recovery cannot bear at all: a sign, how many of it there must be, and the pattern.
    hard: tuple[bytes, int, re.Pattern[bytes]] | None = None
    strange_runs_are_short: bool = False  # a long run of signs that are none of the language takes minutes
    levels_are_few: bool = False  # more indentation than real code has crashes the grammar
    package: str = ""  # what to take the grammar from, where that is not the pack: a distribution of one grammar
    bodies: Bodies | None = None  # finds function bodies that need no parse
    # What the parser is given in place of the source: parts of it blanked, every offset and line break kept.
    plain: Callable[[bytes], bytes] | None = None
    # What else to parse of a file with errors: the source with parts of it masked, every offset and line break kept.
    masked: Callable[[bytes, Node], Iterable[bytes]] | None = None
    masks_are_few: bool = False  # so few that the masked source's tree is best made from the first one


def join(left: str, right: str) -> str:
    """Two parts of a dotted name; either may be empty."""
    return f"{left}.{right}" if left and right else left or right


def text(node: Node | None, source: bytes) -> str:
    """The node's source text, "" without a node."""
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace") if node is not None else ""


_SEPARATORS = re.compile(r"\s*(?:::|\\|\.)\s*")


def dotted(node: Node | None, source: bytes) -> str:
    """A qualified name with dots, whatever its language separates with."""
    name = text(node, source)
    return name if name.isidentifier() else _SEPARATORS.sub(".", name.strip()).strip(".")


def name_of(node: Node, source: bytes) -> str:
    """The text of the field `name`, with dots."""
    return dotted(node.child_by_field_name("name"), source)


_BLANK = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))


def blank(part: bytes) -> bytes:
    """Spaces in place of a part of a source, its line breaks kept."""
    return part.translate(_BLANK)


def without(source: bytes, spans: Iterable[Span]) -> bytes:
    """The source with these parts blanked, every offset and line break kept; they may overlap."""
    pieces: list[bytes] = []
    kept_to = 0
    for start, end in sorted(spans):
        if start < end and end > kept_to:
            first = max(start, kept_to)
            pieces += (source[kept_to:first], blank(source[first:end]))
            kept_to = end
    return b"".join((*pieces, source[kept_to:])) if pieces else source


def place_after(places: Sequence[int], byte: int) -> int:
    """The first of the places, which are in ascending order, from a byte on; past all bytes where there is none."""
    at = bisect_left(places, byte)
    return places[at] if at < len(places) else sys.maxsize


def children(node: Node) -> Iterable[Node]:
    """The node's children; one at a time where there are many, since a list of millions is large."""
    return node.children if node.child_count < 10_000 else _many_children(node)


def first_named(node: Node) -> Node | None:
    """The first named child; None without one, where the library's own call raises IndexError."""
    return node.named_child(0) if node.named_child_count else None


def errors(root: Node) -> Iterator[Node]:
    """Yields the ERROR and MISSING nodes below a node; only the parts that have any are visited."""
    if not root.has_error:
        return
    cursor = root.walk()
    while (node := cursor.node) is not None:
        if node.is_error or node.is_missing:
            yield node
        if node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _many_children(node: Node) -> Iterator[Node]:
    cursor = node.walk()
    more = cursor.goto_first_child()
    while more:
        if cursor.node is not None:
            yield cursor.node
        more = cursor.goto_next_sibling()
