"""A blob's bytes to its function chunks.

The walk goes down through types, namespaces and wrappers only, and never into a function's body: what is inside
functions is folded into them. Where a language's rules name something inside bodies (a method of an anonymous
class), a pattern finds the few places worth a second look, and the tree says what each is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import NamedTuple

from tree_sitter import Node

from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.bodies import find_bodies, is_value, without_bodies
from quarry_harness.languages.rules import (
    Enter,
    Hook,
    Look,
    Rules,
    Scope,
    SecondLook,
    Span,
    Step,
    children,
    dotted,
    errors,
    name_of,
    place_after,
    text,
)
from quarry_harness.readable import too_deep, too_strange, unbearable, unreadable
from quarry_harness.trees import Deadline, best_tree, grammar, plain
from quarry_harness.types import Chunk, ParsedBlob

# A source whose bodies were taken out is parsed so often before the whole is.
_TRIES = 2

_LARGE_BODY_NODES = 5_000


def chunk_blob(data: bytes, dialect: str) -> ParsedBlob:
    """Returns the function chunks of a blob, in source order; raises nothing, whatever the bytes.

    `dialect` is a key of `languages.LANGUAGE_OF_DIALECT`. The status is "parsed", or why there are no chunks:
    "too_large" (over `MAX_BLOB_BYTES`), "lfs_pointer", "utf16", "binary", "too_ambiguous" (see `readable.unbearable`),
    "too_deep" (see `readable.too_deep`), "parse_timeout" (over `PARSE_STEPS` or `PARSE_LIMIT_S`).
    """
    rules = RULES_OF_DIALECT[dialect]
    reason = unreadable(data) or unbearable(data, rules.ambiguous, rules.hard)
    reason = reason or (too_strange(data) if rules.strange_runs_are_short else "")
    if reason := reason or (too_deep(data) if rules.levels_are_few else ""):
        return unparsed(data, reason)
    try:
        cut = _cut(data, dialect)
    except TimeoutError:
        return unparsed(data, "parse_timeout")
    return ParsedBlob("parsed", tuple(cut.chunks), cut.errors, _lines(data, cut.root))


def unparsed(data: bytes, status: str) -> ParsedBlob:
    """Returns what is known of a source without its chunks: why it has none, and its lines."""
    return ParsedBlob(status, lines=_lines(data))


def parsed_root(data: bytes, dialect: str) -> Node:
    """Returns the root of the tree that a blob's chunks are taken from; all offsets are the blob's.

    Raises TimeoutError where the parse takes too long.
    """
    return _cut(data, dialect).root


class _Cut(NamedTuple):
    """What was found in a tree: chunks in source order, and how many ERROR and MISSING nodes it has."""

    root: Node
    errors: int
    chunks: list[Chunk]


def _cut(data: bytes, dialect: str) -> _Cut:
    deadline = Deadline()
    places = _places(data, RULES_OF_DIALECT[dialect], has_errors=False)
    given = plain(data, dialect)
    return _cut_without_bodies(data, given, dialect, deadline, places) or _cut_whole(
        data, given, dialect, deadline, places
    )


def _cut_without_bodies(data: bytes, given: bytes, dialect: str, deadline: Deadline, places: _Places) -> _Cut | None:
    """The chunks as the tree without the insides of functions has them; None where only the whole can tell."""
    rules = RULES_OF_DIALECT[dialect]
    if rules.bodies is None:
        return None
    spans = find_bodies(given, rules.bodies, places.bytes)
    for _ in range(_TRIES):
        if not spans:
            return None
        source = without_bodies(given, spans, rules.bodies)
        tree, wrong = best_tree(source, dialect, deadline)
        if wrong and (not rules.bodies.despite_errors or _errors_hold(tree.root_node, spans)):
            return None
        if wrong:
            places = _places_with_errors(data, rules, places)
        walk = _Walk(tree.root_node, data, dialect, places, deadline)
        chunks = walk.run()
        needed = _needed(spans, walk, given, despite_errors=wrong > 0)
        if not needed:
            return _Cut(tree.root_node, wrong, chunks)
        spans = [span for span in spans if span not in needed]
    return None


def _cut_whole(data: bytes, given: bytes, dialect: str, deadline: Deadline, places: _Places) -> _Cut:
    tree, wrong = best_tree(given, dialect, deadline)
    if wrong:
        places = _places_with_errors(data, RULES_OF_DIALECT[dialect], places)
    return _Cut(tree.root_node, wrong, _Walk(tree.root_node, data, dialect, places, deadline).run())


def _errors_hold(root: Node, spans: Sequence[Span]) -> bool:
    """Whether one of these parts, in ascending order, is in an ERROR node: what is around it was not understood."""
    starts = [start for start, _ in spans]
    return any(bisect_left(starts, node.start_byte) < bisect_left(starts, node.end_byte) for node in errors(root))


def _needed(spans: Sequence[Span], walk: _Walk, source: bytes, *, despite_errors: bool) -> set[Span]:
    """Which of these parts, in ascending order, should not have been taken out.

    The walk went through them: the body of a class that looks like a function's. Or, where the tree has errors, they
    are neither a function's whole body nor a value: the function may have been lost for them, or its end.
    """
    needed: set[Span] = set()
    ends = {chunk.end_byte for chunk in walk.found}
    number = reach = 0
    for start, end in spans:
        while number < len(walk.found) and walk.found[number].start_byte < start:
            reach = max(reach, walk.found[number].end_byte)
            number += 1
        if (start - 1, end + 1) in walk.entered or (
            despite_errors and end + 1 not in ends and (end < reach or not is_value(source, start))
        ):
            needed.add((start, end))
        elif end > reach:  # in no function
            node = walk.root.named_descendant_for_byte_range(start - 1, end + 1)
            if node is None or node.byte_range in walk.entered:
                needed.add((start, end))
    return needed


class _Places(NamedTuple):
    """Where second looks may find something: the last bytes of their matches, in order, and whose they are."""

    bytes: list[int]
    looks: list[SecondLook]


_NO_PLACES = _Places([], [])


def _places_with_errors(source: bytes, rules: Rules, places: _Places) -> _Places:
    return _places(source, rules, has_errors=True) if any(look.in_errors for look in rules.second_looks) else places


def _places(source: bytes, rules: Rules, *, has_errors: bool) -> _Places:
    places: list[tuple[int, SecondLook]] = []
    for look in rules.second_looks:
        if look.word in source and (not look.in_errors or has_errors):
            places += [(match.end() - 1, look) for match in look.pattern.finditer(source)]
    if not places:
        return _NO_PLACES
    places.sort(key=itemgetter(0))
    return _Places([place for place, _ in places], [look for _, look in places])


def _lines(data: bytes, root: Node | None = None) -> int:
    # The parser has counted the breaks already, up to where its tree ends.
    breaks = root.end_point.row if root is not None and root.end_byte == len(data) else data.count(b"\n")
    return breaks + (not data.endswith(b"\n") and bool(data))


def source_text(data: bytes, chunk: Chunk) -> str:
    """Returns the chunk's source from the beginning of its first line, with LF line endings.

    Bytes that are not UTF-8 become U+FFFD, and a byte order mark is dropped.
    """
    start = data.rfind(b"\n", 0, chunk.start_byte) + 1
    text = data[start : chunk.end_byte].decode("utf-8", "replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def source_texts(data: bytes, chunks: Sequence[Chunk]) -> list[bytes]:
    """Returns the UTF-8 of `source_text` of each chunk of a blob."""
    if not (data.isascii() or _are_utf8(data, chunks)):
        return [source_text(data, chunk).encode() for chunk in chunks]
    # Nothing to decode only to encode it again.
    texts = [data[data.rfind(b"\n", 0, chunk.start_byte) + 1 : chunk.end_byte] for chunk in chunks]
    if b"\r" not in data:
        return texts
    return [text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for text in texts]


def _are_utf8(data: bytes, chunks: Sequence[Chunk]) -> bool:
    """Whether a blob and its chunks are UTF-8 as they are, without a byte order mark or a part of a character."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    ends = (data[chunk.end_byte : chunk.end_byte + 1] for chunk in chunks)
    return b"\xef\xbb\xbf" not in data and not any(b"\x80" <= behind < b"\xc0" for behind in ends)


def _enter(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    return (Enter(node, scope),)


def _name(node: Node, source: bytes) -> str:
    return text(node.child_by_field_name("name"), source)


def _search(node: Node, scope: Scope, _source: bytes) -> Iterable[Step]:
    return (Look(node, scope),)


def _enter_type(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    return (Enter(node, scope.inside_type(name_of(node, source))),)


def _enter_namespace(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    return (Enter(node, scope.inside_namespace(name_of(node, source))),)


def _enter_clause(node: Node, scope: Scope, source: bytes) -> Iterable[Step]:
    """A clause with a body is a namespace; `_Walk` takes the others itself."""
    return _enter_namespace(node, scope, source)


@cache
def _actions(dialect: str) -> dict[int, str | Hook]:
    """The whole description as one table: node type -> the kind of function it is, or what to do with such a node.

    Node types are the grammar's numbers, which cost less to ask for than names; those it does not have are left out.
    """
    rules = RULES_OF_DIALECT[dialect]
    table: dict[str, str | Hook] = dict.fromkeys(rules.wrappers, _enter)
    table |= dict.fromkeys(rules.searched, _search)
    table |= dict.fromkeys(rules.namespaces, _enter_namespace)
    table |= dict.fromkeys(rules.clauses, _enter_clause)
    table |= dict.fromkeys(rules.types, _enter_type)
    table |= dict(rules.functions) | dict(rules.hooks)
    number_of = grammar(dialect).id_for_node_kind
    return {number: action for name, action in table.items() if (number := number_of(name, True)) is not None}


class _Walk:
    """One walk over one tree: what is found, and what is still to be walked through."""

    def __init__(self, root: Node, source: bytes, dialect: str, places: _Places, deadline: Deadline) -> None:
        self.root = root
        self.deadline = deadline
        self.rules = RULES_OF_DIALECT[dialect]
        self.actions = _actions(dialect)
        self.source = source
        self.found: list[Chunk] = []
        self.pending: list[Enter | Look] = [Enter(root, Scope())]
        self.entered: set[Span] = set()  # the bytes of the nodes that were walked through
        self.places, self.looks = places

    def run(self) -> list[Chunk]:
        """The chunks, in source order; raises TimeoutError past the deadline."""
        while self.pending:
            if self.deadline.passed():
                raise TimeoutError
            step = self.pending.pop()
            if isinstance(step, Enter):
                self._through(step.node, step.scope)
            else:
                self._look_inside(step.node, step.scope)
        self.found.sort(key=attrgetter("start_byte", "end_byte", "name"))
        return self.found

    def _through(self, parent: Node, outer: Scope) -> None:
        scope, source, actions = outer, self.source, self.actions
        naming = self.rules.name or _name
        self.entered.add(parent.byte_range)
        following = place_after(self.places, parent.start_byte)
        for node in children(parent):
            action = actions.get(node.kind_id)
            if action is None:
                continue
            if isinstance(action, str):
                kind = "method" if action == "function" and scope.container else action
                taken = self._add(node, kind, naming(node, source), scope)
                # Most functions hold no place: told by one comparison, and the others are not asked for their body.
                if following < (end := node.end_byte) and taken:
                    self._look_at(node.child_by_field_name("body"), scope)
                    following = place_after(self.places, end)
            elif action is _search:
                if following < node.end_byte:
                    self._look_at(node, scope)
            elif action is _enter_clause and node.child_by_field_name("body") is None:
                clause = self._clause_name(node)
                scope = (scope if self.rules.clauses_stack else outer).inside_namespace(clause)
            else:
                for step in action(node, scope, source):
                    self._take(step)

    def _take(self, step: Step) -> None:
        if isinstance(step, Enter):
            self.pending.append(step)
        elif isinstance(step, Look):
            self._look_at(step.node, step.scope)
        else:
            node, kind, name, scope, body, last = step
            if self._add(node, kind, name, scope, last):
                self._look_at(body, scope)

    def _add(self, node: Node, kind: str, name: str, scope: Scope, last: Node | None = None) -> bool:
        """Keeps a function, and returns whether it is one."""
        if not name or name in self.rules.drop_names:
            return False
        last = last or node
        container, chain = scope
        self.found.append(
            Chunk(
                self.rules.language,
                kind,
                name,
                container,
                f"{chain}.{name}" if chain else name,
                node.start_point.row + 1,
                last.end_point.row + 1,
                node.start_byte,
                last.end_byte,
            )
        )
        return True

    def _look_at(self, node: Node | None, scope: Scope) -> None:
        """Remembers a node for a second look, where there is a place in it."""
        if node is not None and place_after(self.places, node.start_byte) < node.end_byte:
            self.pending.append(Look(node, scope))

    def _look_inside(self, node: Node, scope: Scope) -> None:
        places = self.places
        finders: dict[frozenset[str], _Finder] = {}
        found: list[Node] = []  # what has been found and is not passed yet, the next one last
        for at in range(bisect_left(places, node.start_byte), bisect_left(places, node.end_byte)):
            place, look = places[at], self.looks[at]
            while found and found[-1].end_byte <= place:
                found.pop()
            if found and found[-1].start_byte <= place:
                continue  # inside something found, which has its own walk
            finder = finders.get(look.not_inside)
            if finder is None:
                finder = finders[look.not_inside] = _Finder(node, look.not_inside)
            inner = finder.innermost(place)
            steps = tuple(look.hook(inner, scope, self.source)) if inner is not None else ()
            for step in steps:
                self._take(step)
            found.extend(step.node for step in reversed(steps))

    def _clause_name(self, node: Node) -> str:
        named = node.child_by_field_name("name")
        return dotted(named if named is not None else node.named_child(node.named_child_count - 1), self.source)


class _Finder:
    """Finds the smallest named nodes that hold given bytes of one body, asked in ascending order.

    Asked of the library, each costs a way down from the body, along all the children on the left of it; in a large
    body, a cursor that only ever moves forward keeps the whole from growing with its square.
    """

    def __init__(self, body: Node, not_inside: frozenset[str]) -> None:
        self.body = body
        self.not_inside = not_inside
        self.cursor = body.walk() if not_inside or body.descendant_count > _LARGE_BODY_NODES else None

    def innermost(self, byte: int) -> Node | None:
        """The node, or None where there is none, or only inside a node of `not_inside`."""
        cursor = self.cursor
        if cursor is None:
            return self.body.named_descendant_for_byte_range(byte, byte + 1)
        node = cursor.node
        while node is not None and node.end_byte <= byte:
            if not cursor.goto_next_sibling() and not cursor.goto_parent():
                return None
            node = cursor.node
        while node is not None and node.start_byte <= byte:
            if node.type in self.not_inside:
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
