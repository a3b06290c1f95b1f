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
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from operator import attrgetter, itemgetter
from typing import NamedTuple, cast

from tree_sitter import Language, Node, Parser, Tree
from tree_sitter_language_pack import SupportedLanguage, get_language

from quarry_harness import languages, readable
from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.bodies import without_bodies
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
from quarry_harness.readable import unbearable, unreadable
from quarry_harness.types import Chunk, ParsedBlob

# A parse is given up after this many progress reports of the parser. It counts work, not time, so that every machine
# gives up on the same files; a report is about 100 parser actions and at most 10 KB of tree. Real code makes 5,000 to
# 22,000 reports a megabyte, a single array of 1.5 million numbers 150,000.
PARSE_STEPS = 200_000
# And after this many seconds, whatever it did: the one limit that depends on the machine.
PARSE_LIMIT_S = 30.0

# The reports cost 2% to 4% of a parse, more in Scala; a blob as small as this takes seconds at worst without them.
SMALL_BLOB_BYTES = 8 * 1024

_LARGE_BODY_NODES = 5_000

_EDITED_BLOCK = 256


def chunk_blob(data: bytes, dialect: str) -> ParsedBlob:
    """Returns the function chunks of a blob, in source order; raises nothing, whatever the bytes.

    `dialect` is a key of `languages.LANGUAGE_OF_DIALECT`. The status is "parsed", or why there are no chunks:
    "too_large" (over `MAX_BLOB_BYTES`), "lfs_pointer", "utf16", "binary", "too_ambiguous" (see `readable.unbearable`),
    "parse_timeout" (over `PARSE_STEPS` or `PARSE_LIMIT_S`).
    """
    rules = RULES_OF_DIALECT[dialect]
    if reason := unreadable(data) or unbearable(data, rules.ambiguous):
        return ParsedBlob(reason, lines=_lines(data))
    deadline = time.monotonic() + PARSE_LIMIT_S
    try:
        cut = _cut_without_bodies(data, dialect, deadline) or _cut(data, dialect, deadline)
    except TimeoutError:
        return ParsedBlob("parse_timeout", lines=_lines(data))
    return ParsedBlob("parsed", tuple(cut.chunks), cut.errors, _lines(data, cut.root))


class _Cut(NamedTuple):
    """What was found in a tree: chunks in source order, and how many ERROR and MISSING nodes it has."""

    root: Node
    errors: int
    chunks: list[Chunk]


def _cut(data: bytes, dialect: str, deadline: float) -> _Cut:
    tree, wrong = _best_tree(data, dialect, deadline)
    places = _places(data, RULES_OF_DIALECT[dialect], has_errors=wrong > 0)
    return _Cut(tree.root_node, wrong, _Walk(tree.root_node, data, dialect, places).run())


def _cut_without_bodies(data: bytes, dialect: str, deadline: float) -> _Cut | None:
    """The chunks as the tree without the insides of functions has them; None where only the whole can tell."""
    rules = RULES_OF_DIALECT[dialect]
    if rules.bodies is None:
        return None
    places = _places(data, rules, has_errors=False)
    source, spans = without_bodies(data, rules.bodies, places.bytes)
    if not spans:
        return None
    root = _parse(source, dialect, deadline).root_node
    if root.has_error:
        return None
    walk = _Walk(root, data, dialect, places)
    chunks = walk.run()
    return _Cut(root, 0, chunks) if _was_not_walked(spans, walk) else None


def _was_not_walked(spans: Sequence[Span], walk: _Walk) -> bool:
    """Whether nothing was taken out of what the walk went through: the body of a class that looks like a function's."""
    number = reach = 0
    for start, end in spans:
        if (start - 1, end + 1) in walk.entered:
            return False
        while number < len(walk.found) and walk.found[number].start_byte < start:
            reach = max(reach, walk.found[number].end_byte)
            number += 1
        if end < reach:
            continue  # in a function
        node = walk.root.named_descendant_for_byte_range(start - 1, end + 1)
        if node is None or node.byte_range in walk.entered:
            return False
    return True


class _Places(NamedTuple):
    """Where second looks may find something: the last bytes of their matches, in order, and whose they are."""

    bytes: list[int]
    looks: list[SecondLook]


def _places(source: bytes, rules: Rules, *, has_errors: bool) -> _Places:
    places: list[tuple[int, SecondLook]] = []
    for look in rules.second_looks:
        if look.word in source and (not look.in_errors or has_errors):
            places += [(match.end() - 1, look) for match in look.pattern.finditer(source)]
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
    if not data.isascii():
        return [source_text(data, chunk).encode() for chunk in chunks]
    # ASCII is its own UTF-8: nothing to decode only to encode it again.
    texts = [data[data.rfind(b"\n", 0, chunk.start_byte) + 1 : chunk.end_byte] for chunk in chunks]
    if b"\r" not in data:
        return texts
    return [text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") for text in texts]


@cache
def fingerprint(dialect: str) -> str:
    """Returns a hash of all that decides this dialect's chunks: grammar, parser, the description and the rules here.

    The description and the rules count by their source, comments included: what is parsed once too often costs
    seconds, what is stale costs the result.
    """
    rules = RULES_OF_DIALECT[dialect]
    parts = [dialect, rules.grammars[dialect], str(grammar(dialect).abi_version)]
    grammar_from = rules.package or "tree-sitter-language-pack"
    parts += [f"{package} {version(package)}" for package in ("tree-sitter", grammar_from)]
    parts += [inspect.getsource(sys.modules[name]) for name in (*_described_in(rules), readable.__name__, __name__)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _described_in(rules: Rules) -> list[str]:
    """The modules of `languages` that hold this description and what it is made of."""
    for module in filter(inspect.ismodule, vars(languages).values()):
        if any(value is rules for value in vars(module).values()):
            # What a partial is of says where it is from, not the partial.
            parts = (getattr(value, "func", value) for value in vars(module).values())
            used = {str(getattr(part, "__module__", "")) for part in parts}
            names = {module.__name__, languages.rules.__name__, *used}
            return sorted(name for name in names if name.startswith(f"{languages.__name__}."))
    raise KeyError(rules.language)


@cache
def grammar(dialect: str) -> Language:
    """Returns the grammar that this dialect is parsed with: the pack's, or that of the description's own package."""
    rules = RULES_OF_DIALECT[dialect]
    if rules.package:
        return Language(import_module(rules.package.replace("-", "_")).language())
    return get_language(cast(SupportedLanguage, rules.grammars[dialect]))


def _parse(data: bytes, dialect: str, deadline: float, old: Tree | None = None) -> Tree:
    """A tree, or TimeoutError; `deadline` is a time of `time.monotonic`, `old` an edited tree to take parts of."""
    parser = Parser(grammar(dialect))
    if len(data) <= SMALL_BLOB_BYTES:
        return parser.parse(data) if old is None else parser.parse(data, old)
    steps = 0

    def give_up(_offset: int, _has_error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > PARSE_STEPS or (steps % 8 == 0 and time.monotonic() > deadline)

    view = memoryview(data)
    try:
        if old is not None:
            return parser.parse(lambda offset, _: view[offset:] if offset else data, old, progress_callback=give_up)
        return parser.parse(lambda offset, _point: view[offset:] if offset else data, progress_callback=give_up)
    except ValueError as error:  # all the binding says of a parse that was stopped
        raise TimeoutError from error


def parsed_tree(data: bytes, dialect: str) -> Tree:
    """Returns the tree that a blob's chunks are taken from: of what may be parsed in its place, the one with the fewest
    ERROR and MISSING nodes. All offsets are the blob's.

    Raises TimeoutError where the first parse takes too long; a further one that does is left out.
    """
    return _best_tree(data, dialect, time.monotonic() + PARSE_LIMIT_S)[0]


def _best_tree(data: bytes, dialect: str, deadline: float) -> tuple[Tree, int]:
    """What `parsed_tree` returns, and how many ERROR and MISSING nodes it has."""
    rules = RULES_OF_DIALECT[dialect]
    given = rules.plain(data) if rules.plain is not None else data
    first = best = _parse(given, dialect, deadline)
    fewest = sum(1 for _ in errors(first.root_node))
    if rules.masked is None or not fewest:
        return first, fewest
    for source in rules.masked(given, first.root_node):
        try:
            old = _edited(first, given, source) if rules.masks_are_few else None
            tree = _parse(source, dialect, deadline, old)
        except TimeoutError:
            break
        if (count := sum(1 for _ in errors(tree.root_node))) < fewest:
            best, fewest = tree, count
        if not fewest:
            break
    return best, fewest


def _edited(tree: Tree, before: bytes, after: bytes) -> Tree:
    """A copy of a tree that knows which blocks of its source are others in a second source of the same length."""
    tree, row = tree.copy(), 0
    for start in range(0, len(before), _EDITED_BLOCK):
        end = min(start + _EDITED_BLOCK, len(before))
        rows = before.count(b"\n", start, end)
        if before[start:end] != after[start:end]:
            first = (row, start - before.rfind(b"\n", 0, start) - 1)
            last = (row + rows, end - before.rfind(b"\n", 0, end) - 1)
            tree.edit(start, end, end, first, last, last)
        row += rows
    return tree


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

    def __init__(self, root: Node, source: bytes, dialect: str, places: _Places) -> None:
        self.root = root
        self.rules = RULES_OF_DIALECT[dialect]
        self.actions = _actions(dialect)
        self.source = source
        self.found: list[Chunk] = []
        self.pending: list[Enter | Look] = [Enter(root, Scope())]
        self.entered: set[Span] = set()  # the bytes of the nodes that were walked through
        self.places, self.looks = places

    def run(self) -> list[Chunk]:
        """The chunks, in source order."""
        while self.pending:
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
