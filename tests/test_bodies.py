"""Bodies that are taken out before the parse: the chunks are those of the whole tree, whatever stands in the bodies."""

import math
import textwrap

import pytest
from body_sources import ANYWHERE, SOURCES
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quarry_harness import chunking
from quarry_harness.chunking import chunk_blob
from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.bodies import find_bodies, without_bodies
from quarry_harness.languages.rules import Span
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.trees import plain


def whole(source: bytes, dialect: str) -> chunking._Cut:
    """What the tree of the whole source holds."""
    places = chunking._places(source, RULES_OF_DIALECT[dialect], has_errors=False)
    return chunking._cut_whole(source, plain(source, dialect), dialect, math.inf, places)


def found_in(source: bytes, dialect: str) -> list[Span]:
    """The insides of the bodies that are taken out at first."""
    rules = RULES_OF_DIALECT[dialect]
    assert rules.bodies is not None
    return find_bodies(plain(source, dialect), rules.bodies, chunking._places(source, rules, has_errors=False).bytes)


def left(source: bytes, dialect: str) -> bytes:
    """What the parser is given at first."""
    rules = RULES_OF_DIALECT[dialect]
    assert rules.bodies is not None
    return without_bodies(plain(source, dialect), found_in(source, dialect), rules.bodies)


def members(dialect: str) -> st.SearchStrategy[list[str]]:
    parts = SOURCES[dialect]
    anywhere = [] if dialect == "python" else ANYWHERE
    statements = st.lists(st.sampled_from([*anywhere, *parts.statements]), max_size=6).map("\n".join)
    if dialect == "python":
        statements = statements.map(lambda text: text or "pass")
    functions = st.tuples(st.sampled_from(parts.heads), st.integers(0, 99), statements).map(
        lambda made: made[0].format(made[1], *(textwrap.indent(made[2], " " * n) for n in _INDENTS[dialect]))
    )
    return st.lists(functions | st.sampled_from(parts.others), max_size=6)


# How deep the statements of a body are indented, in the parts with 1 and with 2 in their place.
_INDENTS = dict.fromkeys(SOURCES, (0, 0)) | {"python": (4, 8)}


@pytest.mark.parametrize("dialect", list(SOURCES))
@given(data=st.data())
def test_the_chunks_are_those_of_the_whole_tree(dialect: str, data: st.DataObject) -> None:
    source = (SOURCES[dialect].around % "".join(data.draw(members(dialect)))).encode()
    cut = whole(source, dialect)
    assume(not cut.errors)
    assert list(chunk_blob(source, dialect).chunks) == cut.chunks


@pytest.mark.parametrize("dialect", list(SOURCES))
@example(["class C {", "void f() {", '"', "}", "}"])
@given(
    pieces=st.lists(
        st.sampled_from(
            [
                '"',
                "'",
                "/*",
                "*/",
                "//",
                "\n",
                "{",
                "}",
                "fn f() {",
                "void f() {",
                "func f() {",
                "`",
                "#",
                'r#"',
                "@",
                '$"',
                "?>",
                "<?php",
                "function f() {",
                "<<<EOT\n",
                "{$",
                "a",
            ]
        )
    )
)
def test_every_offset_and_line_is_kept_whatever_the_source(dialect: str, pieces: list[str]) -> None:
    source = "".join(pieces).encode()
    spans, given_ = found_in(source, dialect), left(source, dialect)
    assert len(given_) == len(source)
    assert [at for at, byte in enumerate(given_) if byte in b"\r\n"] == [
        at for at, byte in enumerate(source) if byte in b"\r\n"
    ]
    assert all(not given_[start:end].strip(b' \r\n/*;"') for start, end in spans)
    taken = {byte for start, end in spans for byte in range(start, end)}
    assert all(new == old for byte, (new, old) in enumerate(zip(given_, source, strict=True)) if byte not in taken)
    assert chunk_blob(source, dialect).lines == chunking._lines(source)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("java", "int = ; x x x x"),
        ("csharp", "int = ; x x x x"),
        ("rust", "let s = S { a: 1, b = };"),
        ("rust", "match { 1 => }"),
        ("php", "if $a) { foreach }"),
    ],
)
def test_an_error_in_a_body_moves_no_end(dialect: str, body: str) -> None:
    head = SOURCES[dialect].function
    source = SOURCES[dialect].around % "".join(f"{head % name} {{\n  {body}\n}}\n" for name in "ab")
    found = [(chunk.name, chunk.end_line - chunk.start_line) for chunk in chunk_blob(source.encode(), dialect).chunks]
    assert found == [("a", 2), ("b", 2)]


def test_a_lone_cr_ends_a_comment_of_csharp() -> None:
    source = (
        "class C {\n void f() { // x\r }\n void g() { h(1, 2, 3, 4); }\n void k() // x\r {\n h(1, 2, 3, 4);\n }\n}\n"
    )
    found = [(chunk.name, chunk.start_line, chunk.end_line) for chunk in chunk_blob(source.encode(), "csharp").chunks]
    assert found == [("f", 2, 2), ("g", 3, 3), ("k", 4, 6)]


def test_a_number_sign_before_a_string_of_rust_makes_it_no_raw_one() -> None:
    source = 'fn a() { m!(#"{"); h(1, 2, 3, 4) }\nfn b() { x(r#"}"#); h(1, 2, 3, 4) }\nfn c() { h(1, 2, 3, 4) }\n'
    found = [(chunk.name, chunk.end_line) for chunk in chunk_blob(source.encode(), "rust").chunks]
    assert found == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    "text",
    ["it's ", "#!/usr/bin/env php\n", '<p title="', "/* ", "<script>function f() { ", "\ufeff", "`", "<<<EOT\n"],
)
def test_quotes_before_the_first_tag_of_php_are_text(text: str) -> None:
    source = f"{text}<?php\nfunction a() {{ h('}}', 1, 2, 3); }}\n?> it's }} <?php\nfunction b() {{ h(1, 2, 3, 4); }}\n"
    first = text.count("\n") + 2
    found = [(chunk.name, chunk.end_line) for chunk in chunk_blob(source.encode(), "php").chunks]
    assert found == [("a", first), ("b", first + 2)]


def test_a_quote_before_the_first_tag_of_php_hides_no_function() -> None:
    source = "it's <?php\n$a = 'function f() {';\nfunction own() { h(1, 2, 3, 4); }\n$b = '}'; // '\n"
    assert [chunk.name for chunk in chunk_blob(source.encode(), "php").chunks] == ["own"]


@pytest.mark.parametrize(
    "body",
    [
        *("$a = <<<EOT\n it's {\n  EOT;\n", "$a = <<<'HTML'\n{$\nHTML;\n", "?> it's { <?php"),
        *("// it's ?>\n it's { <?php", "# it's ?>\n it's { <?php", "$a = `\\` it's`;", "#[A('\n{')] fn() => 1;"),
        *("$a = \"it's {$b['c']}\";", "# it's {\n", '$a = <<<EOT\n{$b["\nEOT;\n"]}\nEOT;\n'),
    ],
)
def test_the_insides_of_php_functions_are_left_out(body: str) -> None:
    head = "function f(?A $a = null, $b = ['x' => ')'], #[C(1)] /* ( */ $c = \"\\t\"): ?D\n{"
    source = f"<?php\n{head} {body} \nif ($a) {{ h(1, 2); }} }}\n"
    given_ = left(source.encode(), "php").decode()
    assert given_.startswith(f"<?php\n{head}")
    assert "".join(given_[len(head) :].split()).endswith("{/**/}")


@pytest.mark.parametrize(
    "sign",
    [
        "$a = <<<XYZ\n it's {\nXYZ;\n",
        "$a = <<<EOT\n  EOTS\n  EOT . b;\n",
        '$a = "{$b->c(fn() => { 1 })}";',
        '$a = "{$b["{"]}";',
        "/* it's",
    ],
)
def test_a_file_of_php_with_a_sign_that_is_not_read_stays_whole(sign: str) -> None:
    source = f"<?php\nfunction a() {{ h(1, 2, 3, 4); }}\nfunction b() {{ {sign} }}\n"
    assert not found_in(source.encode(), "php")


def test_the_line_comment_of_php_ends_with_the_code() -> None:
    source = "<?php\nfunction a() { // it's ?> } <?php\n h(1, 2, 3, 4); }\nfunction b() { #?> ' <?php\n h(1, 2, 3); }\n"
    found = [(chunk.name, chunk.start_line, chunk.end_line) for chunk in chunk_blob(source.encode(), "php").chunks]
    assert found == [("a", 2, 3), ("b", 4, 5)]


def test_a_match_of_php_behind_an_argument_named_function_is_no_body() -> None:
    source = "<?php\nf(function: match(true) { default => h(1, 2, 3) });\nfunction b() { h(1, 2, 3, 4); }\n"
    assert [chunk.name for chunk in chunk_blob(source.encode(), "php").chunks] == ["b"]


@pytest.mark.parametrize("dialect", list(SOURCES))
def test_where_an_error_is_outside_the_bodies_the_whole_is_parsed(dialect: str) -> None:
    parts = SOURCES[dialect]
    source = (parts.around % f"{parts.function % 'f'} {{\n  = = = (\n}}\n)\n").encode()
    cut, parsed = whole(source, dialect), chunk_blob(source, dialect)
    assert (list(parsed.chunks), parsed.error_count) == (cut.chunks, cut.errors)
    assert cut.errors


def test_bodies_nested_deeper_than_the_pattern_goes_are_taken_out_piece_by_piece() -> None:
    deep = "if (a) {" * 60 + "h(1, 2, 3, 4);" + "}" * 60
    source = (SOURCES["java"].around % f"void f() {{ {deep} }}\nvoid g() {{ h(1, 2, 3, 4); }}\n").encode()
    assert b"h(1" not in left(source, "java")
    assert len(found_in(source, "java")) == 2
    assert [chunk.name for chunk in chunk_blob(source, "java").chunks] == ["f", "g"]


@pytest.mark.parametrize(
    "unit",
    [
        *("fn a<", "func a(", "func a{}", "`", "#", "fn a(x: ", "){", "'", "(){", "(){}", '){"a"'),
        *(
            "function f(",
            "function f()",
            "function f(){?>",
            "function f(function f()",
            "function f('a',",
            "function a ",
        ),
        *('"{$', "<<<EOT\n", "<<<EOT\nEOT;\n", "?>", "?><?", "function f(" + "a()" * 30),
    ],
)
@pytest.mark.parametrize("dialect", list(SOURCES))
def test_the_search_for_bodies_grows_no_faster_than_the_source(dialect: str, unit: str) -> None:
    # What grows with the square takes hours.
    source = unit.encode() * (MAX_BLOB_BYTES // 4 // len(unit))
    assert len(left(source, dialect)) == len(source)


@pytest.mark.parametrize(
    "line",
    [
        'val a = s"${b("{")}{"',
        'val a = s"$b$${"',
        'val a = raw"\\${b}{"',
        'val a = raw"\\${b("{")}"',
        'val a = s"""${b}{"""""',
        'val a = """{""""',
        'val a = b_+"${c("{")}"',
        'val a = if (b) c else"${"',
        "val a = `{`",
        "val a = ('{', '\\'', '\"', '\\u007b', 'b, '√')",
        "val a = '{ b }",
        "/* { /* { */ { */",
        "/* /* /* { */ */ { */",
        "// { /*",
        "val a = <b c='{'>{d} it's {{</b>",
        "val a = b.map(<c/>)",
        "type A = { def none: Int }",
        "type A[B] = { type C[D] = E[D, B] }",
        "val a: A { def none: Int } = b",
        "val a = b == { c(1, 2, 3, 4) }",
        "val a = { case B(c) => d(1, 2, 3, 4) }",
        "val a = { (b: C) => d(1, 2, 3, 4) }.e match { case 1 => f(1, 2, 3, 4) }",
        "val a = b match {\n    case 1 => c(1, 2, 3, 4)\n  } match { case 2 => d(1, 2, 3, 4) }",
    ],
)
def test_what_looks_like_a_brace_of_scala_moves_no_end(line: str) -> None:
    before, after = (f"  def {name}(a: Int): Int = {{\n    h(1, 2, 3, 4)\n  }}\n" for name in ("before", "after"))
    inside = f"  def inside = {{\n    {line}\n    h(1, 2, 3, 4)\n  }}\n"
    for source in (f"object O {{\n{before}  {line}\n{after}}}\n", f"object O {{\n{before}{inside}{after}}}\n"):
        cut = whole(source.encode(), "scala")
        assert not cut.errors
        assert list(chunk_blob(source.encode(), "scala").chunks) == cut.chunks


@pytest.mark.parametrize(
    "new",
    [
        "new A { M }",
        "new A() { M }",
        'new a.B[C, D[E[F]]](g(h(1)), ")") { M }',
        'new A(""""),""") { M }',
        "new A\n  with B { M }",
        "new A(b) // c\n  with B { M }",
        "new A /* b */ { M }",
        "new { val b = 1 } with A { M }",
        "new `A`[B] { M }",
        "new A({ b }) { M }",
        "new A @b { M }",
        "new A(b = '}') { M }",
        "new A:\n      M\n",
        "new A(b):\n      M\n",
    ],
)
def test_the_members_of_an_anonymous_class_of_scala_are_found(new: str) -> None:
    member = "def own = { h(1, 2, 3, 4) }"
    source = f"object O {{\n  def f = {{\n    val x = new B(1, 2); g(x)\n    {new.replace('M', member)}\n  }}\n}}\n"
    assert [chunk.name for chunk in chunk_blob(source.encode(), "scala").chunks] == ["f", "own"]


@pytest.mark.parametrize(
    "new", ["new A(b, c)", "new A", "new A[B](c)(d).e", 'new a.B(c(d), "{"), e', "new A(b) f { c }", "new A[B]\n    c"]
)
def test_a_body_of_scala_with_no_anonymous_class_is_taken_out(new: str) -> None:
    source = f"object O {{\n  def f = {{\n    g({new})\n  }}\n}}\n".encode()
    assert b"new" not in left(source, "scala")


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        (
            "java",
            "class C { void f() { g(new A(1) { void own() { h(1, 2, 3, 4); } }); } }",
        ),
        ("java", "class C { Object o = new A(1) { void own() { h(1, 2, 3, 4); } }; }"),
        ("scala", "object C { def f = { g(new A(1) { def own = { h(1, 2, 3, 4) } }) } }"),
    ],
)
def test_bodies_inside_of_one_that_stays_are_taken_out(dialect: str, source: str) -> None:
    data = source.encode()
    given_ = left(data, dialect)
    assert b"new A(1) {" in given_
    assert b"own" in given_
    assert b"h(1" not in given_
    rules = RULES_OF_DIALECT[dialect]
    places = chunking._places(data, rules, has_errors=False)
    found = chunking._cut_without_bodies(data, data, dialect, math.inf, places)
    assert found is not None
    assert found.chunks == whole(data, dialect).chunks


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (b"\r\n  int a = 1;\r\n", b"\r\n/*        */\r\n"),
        (b"\n\ta = 1;\n\n\n\n\n", b"\n/*   */\n\n\n\n\n"),
        (b"\n\na\n\nb\n\nc\n\nd\n\n", b"\n\n \n\n \n\n \n\n \n\n"),
        (b"f(1, \n2, 3\n);\n", b"/*   \n    \n*/\n"),
    ],
)
def test_a_body_becomes_a_comment_where_there_is_room(body: bytes, becomes: bytes) -> None:
    assert left(b"void f() {" + body + b"}", "java") == b"void f() {" + becomes + b"}"
