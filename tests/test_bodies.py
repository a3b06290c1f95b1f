"""Bodies that are taken out before the parse: the chunks are those of the whole tree, whatever stands in the bodies."""

import textwrap

import pytest
from body_sources import ANYWHERE, SOURCES
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quarry_harness import chunking, trees
from quarry_harness.chunking import chunk_blob
from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.bodies import find_bodies, without_bodies
from quarry_harness.languages.rules import Span
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.trees import plain


def whole(source: bytes, dialect: str) -> chunking._Cut:
    """What the tree of the whole source holds."""
    places = chunking._places(source, RULES_OF_DIALECT[dialect], has_errors=False)
    return chunking._cut_whole(source, plain(source, dialect), dialect, trees.Deadline(), places)


def without_insides(source: bytes, dialect: str) -> chunking._Cut | None:
    """What the tree without the insides of functions holds."""
    places = chunking._places(source, RULES_OF_DIALECT[dialect], has_errors=False)
    return chunking._cut_without_bodies(source, plain(source, dialect), dialect, trees.Deadline(), places)


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


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("dialect", list(SOURCES))
@given(data=st.data())
def test_the_chunks_are_those_of_the_whole_tree(dialect: str, line_break: str, data: st.DataObject) -> None:
    source = (SOURCES[dialect].around % "".join(data.draw(members(dialect)))).replace("\n", line_break).encode()
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
        *(
            "`${",
            "`${`",
            "`${a}",
            "`${{",
            "){`${`${",
            "a(\n\t/",
            "a)/",
            "(a)/{",
            "(a)/'b'.c,",
            "*/ /",
            "`${(a)/",
            f"(\n{' ' * 20}/'/",
            ") { '<!--'; }",
            ") { a('<!--') }",
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
    found = without_insides(data, dialect)
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


def named(source: str, dialect: str) -> list[tuple[str, int, int]]:
    """Name, first and last line of each chunk."""
    return [(chunk.name, chunk.start_line, chunk.end_line) for chunk in chunk_blob(source.encode(), dialect).chunks]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
def test_an_error_in_a_body_of_c_hides_no_function_behind_it(dialect: str) -> None:
    broken = "int f(int a) {\n  FOR_EACH(a, b)\n    case 1 { h(a); }\n  LAST\n  if (a) else ( {}\n  else { h(b); }\n}\n"
    source = f"{broken}{broken.replace('f(', 'g(')}\nint k(void) {{\n  return h(1);\n}}\n"
    assert named(source, dialect) == [("f", 1, 7), ("g", 8, 14), ("k", 16, 18)]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
def test_a_comment_that_nothing_ends_is_not_ended_by_what_is_put_in_place_of_a_body(dialect: str) -> None:
    source = "int f(int a) {\n  return a /*b;\n}\nint g(int a) {\n  return h(1, 2, 3);\n}\n"
    assert not found_in(source.encode(), dialect)
    assert named(source, dialect) == [("f", 1, 3), ("g", 4, 6)]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
def test_a_body_with_an_if_that_leaves_a_brace_open_ends_where_it_did(dialect: str) -> None:
    body = "\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n    if (c) {\n      h(1, 2, 3, 4);\n    }\n  }\n"
    source = f"int f(int a)\n{{{body}}}\n\nint g(int a)\n{{\n  return h(1, 2, 3);\n}}\n"
    assert named(source, dialect) == [("f", 1, 12), ("g", 14, 17)]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
def test_a_body_with_branches_that_are_whole_is_taken_out(dialect: str) -> None:
    body = "\n#if A\n  if (a) { h(1); }\n#elif B\n  h(2);\n#else\n  while (b) { h(3); }\n#endif\n"
    source = f"int f(int a)\n{{{body}}}\n#if E\nint g(int a) {{ return h(1, 2, 3); }}\n#endif\n"
    assert b"h(" not in left(source.encode(), dialect)
    assert named(source, dialect) == [("f", 1, 10), ("g", 12, 12)]


def test_a_semicolon_behind_an_empty_looking_body_is_no_part_of_the_function() -> None:
    source = b"struct S { int f() const { return h(1, 2); }; };\nint g() { return h(1, 2); };\n"
    found = [source[chunk.start_byte : chunk.end_byte] for chunk in chunk_blob(source, "cpp").chunks]
    assert found == [b"int f() const { return h(1, 2); }", b"int g() { return h(1, 2); }"]


def test_the_body_behind_a_test_macro_with_a_string_is_walked_as_before() -> None:
    source = '\nTEST_CASE("a {") {\n  h(1, 2, 3, 4);\n}\nint f() {\n  return h(1, 2, 3);\n}\n'
    assert b"h(1, 2, 3, 4)" in left(source.encode(), "cpp")
    assert ("f", 5, 7) in named(source, "cpp")


def test_a_table_of_c_is_taken_out() -> None:
    source = b"static const int t[] = { 1, 2, 3, 4, 5, 6, 7, 8 };\nint f(void) { return h(t, 1); }\n"
    assert b"1, 2" not in left(source, "c")
    assert [chunk.name for chunk in chunk_blob(source, "c").chunks] == ["f"]


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        ("java", "class C {\n  record R(int a) {\n    void own() { h(1, 2, 3, 4); }\n  }\n%s}\n"),
        ("csharp", "class R(int a) {\n  void own() { h(1, 2, 3, 4); }\n}\nclass C {\n%s}\n"),
        ("javascript", "if (a &&\n    b\n) {\n  function own() { h(1, 2, 3, 4); }\n}\n%s"),
    ],
)
def test_what_was_taken_out_of_what_is_walked_is_put_back(dialect: str, source: str) -> None:
    function = SOURCES[dialect].function
    data = (source % "".join(f"{function % name} {{ h(1, 2, 3, 4); }}\n" for name in "fg")).encode()
    found = without_insides(data, dialect)
    assert found is not None
    assert {chunk.name for chunk in found.chunks} >= {"own", "f", "g"}
    assert found.chunks == whole(data, dialect).chunks


@pytest.mark.parametrize(
    "line",
    [
        *("a = /[/'\"{]/.test(b);", "a = b / c + '{';", "return /'{/;", "a = b ? /'/ : /{/;", "h(\n\t\t/'{/,\n);"),
        *(
            "a = `'${b('`{')}{`;",
            "a = `${`${b}'`}{`;",
            "a = { b: /'/, c: /{/ };",
            "a = (b) => /'{/;",
            "a = b[0] / 2; // '{",
            f"h(\n{' ' * 40}/[0-9]+(x)?$/,\n);",
            "h((b) =>\n/\\bx/.test(b));",
            "// c\n/[a-z]+/.test(b);",
        ),
    ],
)
@pytest.mark.parametrize("dialect", ["javascript", "typescript"])
def test_signs_of_javascript_that_look_like_others_are_read(dialect: str, line: str) -> None:
    assert b"h(" not in left_of_f_and_g(line, dialect)


def left_of_f_and_g(line: str, dialect: str) -> bytes:
    """What the parser is given of f, with this line and `h(1, 2)`, and of g, with `h(3, 4, 5, 6)`: both are found."""
    source = f"function f(a) {{\n{line}\nh(1, 2);\n}}\nfunction g() {{ h(3, 4, 5, 6); }}\n"
    last = source[: source.index("h(1, 2)")].count("\n") + 2
    assert named(source, dialect) == [("f", 1, last), ("g", last + 1, last + 1)]
    return left(source.encode(), dialect)


@pytest.mark.parametrize(
    "line",
    [
        "a = `${b.map((c) => { if (c) { return `'${d('{')}` + d(/`/); } })}{`;",
        "a = `${`${`${b}'`}{`}{`;",
        f"h(\n{' ' * 40}/'{{/,\n);",
        "h((b) => // c\n\t/'{/.test(b));",
        "a = `<!-- it's {\n-->`;",
        "/** `<!-- it's {`\n--> */",
        "a = /<!--/; // '{",
        "a = `${b.map((c) => { if (c) { return `<!--${d}`; } })}`;",
        "a = (b)/(c-1/2)||'{'+f((2))/3; // '{",
        "a = b.c((d)/2,'e')/3+'{'; // /",
        "a = `${(b)/f(c)/2}'{${(b)/2}`;",
        "a = f(b / 2) / 2 + '{' + /'{/.source;",
        "if (b) return!/'{/.test(c);",
        "switch (a) { case'{':return\"}\"; }",
        "if (a) b = 1; else throw'}';",
    ],
)
@pytest.mark.parametrize("dialect", ["javascript", "typescript"])
def test_what_is_hard_to_read_keeps_only_its_own_function_whole(dialect: str, line: str) -> None:
    assert b"h(3" not in left_of_f_and_g(line, dialect)


@pytest.mark.parametrize(
    "line",
    [
        "if (a) /'{/.test(b);",
        "a = <b c='{'>it's</b>;",
        "a = <b/>;",
        "a = {}\n/ '{' / 2;",
        "a = `${b",
        "<!-- '",
        "a = '<!--'\n--> '",
        "if (a) /'{'b/.test(c);",
        "if /* c */ (a) /'{'b/.test(c);",
        f"if({'a' * 297}) /'{{'b/.test(c);",
        "if (/[)(]/.test(a) ) /'{'b/.test(c);",
        "if (/\\(/.test(a) ) /'{'b/.test(c);",
        "if (a /* ( */) /'{'b/.test(c);",
        "if (a, '(') /'{'b/.test(c);",
        "a++\n/ '{' / 2;",
        "a--\n/ '{' / 2;",
        "a!\n/ '{' / 2;",
        "a('= // ')\n/ '{' / 2;",
        "a(`\n= // `)\n/ '{' / 2;",
        "a = {}\n/ b; c = /[{]/;",
        "a = <b><c>d</c></b>;",
        "a = <b c={d}/><e/>;",
    ],
)
def test_a_file_of_javascript_with_a_sign_that_is_not_read_stays_whole(line: str) -> None:
    assert not found_in(
        f"function f(a) {{ {line} h(1, 2); }}\nfunction g() {{ h(3, 4, 5, 6); }}\n".encode(), "javascript"
    )


@pytest.mark.parametrize(
    "assignment",
    [
        *("exports.own = ", "module.exports.own = ", "A.prototype.own = ", "A.prototype /* c */\n  . own // c\n  = "),
        *("global.a.own=", "window\n.own = async ", "globalThis.own ="),
    ],
)
def test_functions_assigned_to_globals_inside_functions_are_found(assignment: str) -> None:
    source = f"function f() {{\n  h(1, 2);\n  {assignment}function () {{ h(1, 2, 3); }};\n}}\n"
    assert {name for name, *_ in named(source, "javascript")} == {"f", "own"}


def test_a_line_of_python_indented_less_than_its_body_ends_it() -> None:
    source = "def f():\n        h(1, 2, 3)\n    g(1, 2)\n\ndef k():\n    return h(1, 2)\n"
    assert named(source, "python") == [
        (c.name, c.start_line, c.end_line) for c in whole(source.encode(), "python").chunks
    ]


@pytest.mark.parametrize(
    ("body", "last"),
    [
        ("    '''\nlow\n    '''\n    return h(1)\n", 5),
        ("    return h(\n        1)\n    # at the end\n", 4),  # as the grammar has it
        ("    return h(1)  # it's\n\n\n", 2),
        ("    a = 1234567;\n", 2),
        ("    a = b \\\n        + c\n# low\n    x\n", 5),
        ("    if a:\n        h(1, 2)\n    # between\n    else:\n        x\n", 6),
        ("    class L:\n        def own(self):\n            return h(1, 2)\n    return L\n", 5),
        ("\treturn h(1, 2)\n", 2),
    ],
)
def test_a_function_of_python_ends_with_its_last_statement(body: str, last: int) -> None:
    source = f"def f():\n{body}\ndef g():\n    return h(1, 2, 3)\n"
    found = named(source, "python")
    assert (found[0], found[-1][0]) == (("f", 1, last), "g")
    assert found == [(c.name, c.start_line, c.end_line) for c in whole(source.encode(), "python").chunks]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
@pytest.mark.parametrize(
    "line",
    [
        "#define SWAP(a, b) do { \\\n  int t = a; \\\n  } while (0)",
        "#define CHECK(a) if (!(a)) { \\\n  h(a);",
        "// it's \\\n  } int none(void) {",
        'h("it\\\n} int none(void) {");',
    ],
)
def test_a_line_of_c_goes_on_behind_a_backslash_before_cr_and_lf(dialect: str, line: str) -> None:
    source = f"int f(int a)\n{{\n{line}\n  h(1, 2, 3, 4);\n}}\nint g(int a) {{\n  return h(1, 2, 3);\n}}\n"
    last = 5 + line.count("\n")
    assert named(source, dialect) == [("f", 1, last), ("g", last + 1, last + 3)]
    assert named(source.replace("\n", "\r\n"), dialect) == [("f", 1, last), ("g", last + 1, last + 3)]


@pytest.mark.parametrize("dialect", ["c", "cpp"])
def test_a_macro_whose_name_ends_in_r_before_a_string_begins_no_raw_one(dialect: str) -> None:
    f, g = 'int f(int a)\n{\n  log(ERR"(%d) failed", a);\n}\n', 'int g(int a)\n{\n  log("(x)");\n}\n'
    source = f"{f}{g}int k(int a) {{ return h(1, 2); }}\n"
    assert named(source, dialect) == [("f", 1, 4), ("g", 5, 8), ("k", 9, 9)]


@pytest.mark.parametrize("end", ["\r", "\u2028", "\u2029"])
@pytest.mark.parametrize("dialect", ["javascript", "typescript", "tsx"])
def test_a_comment_of_javascript_ends_where_its_line_does(dialect: str, end: str) -> None:
    source = f"function f() {{ // x{end} }}\nfunction g() // y{end} {{\n h(1, 2, 3, 4);\n}}\n"
    assert named(source, dialect) == [("f", 1, 1), ("g", 2, 4)]


@pytest.mark.parametrize(
    "source",
    [
        "function f() {\n  if (a) /\\/*/.test(b); h(1,2,3); }\nfunction g() { h(1,2,3,4); /* } */ }\n",
        "function f() {\n  if (a) /[/*]/.test(b); h(1,2,3); }\nfunction g() { h(1,2,3,4); /* } */ }\n",
        "function f() { h(1,2,3);\n--> } function k() {\n h(1,2,3,4)\n}\nfunction g() { h(1,2,3,4); }\n",
        "function f() { a = <b>it's</b> // don't } function k() {\n h(1,2,3,4);\n}\nfunction g() { h(1,2,3,4); }\n",
        # The second slash of a line begins a comment.
        "function f() {\n a = (b)\n / 2 /* } function k() {\n h(1,2,3); */ + c / 3;\n}\nfunction g() { h(1,2,3,4); }\n",
        "function f() {\n a = {}\n / 2 /* } function k() {\n h(1,2,3); */ + c / 3;\n}\nfunction g() { h(1,2,3,4); }\n",
        # Names that end in a word, or are one.
        "function f() {\n $in / 2 + '/ } function k() { \\'';\n h(1,2,3);\n}\nfunction g() { h(1,2,3,4); }\n",
        "function f() {\n a.in / 2 + '/ } function k() { \\'';\n h(1,2,3);\n}\nfunction g() { h(1,2,3,4); }\n",
    ],
)
def test_signs_of_javascript_that_nothing_explains_make_no_function(source: str) -> None:
    assert [name for name, *_ in named(source, "javascript")] == ["f", "g"]


def test_a_line_of_python_in_blanks_below_one_in_a_tab_ends_the_body() -> None:
    source = b"if a:\n def f():\n \ta = 1234567\n  b = 2345\n"
    assert list(chunk_blob(source, "python").chunks) == whole(source, "python").chunks


def test_python_indented_deeper_than_its_grammar_bears_is_not_parsed() -> None:
    # The grammar ends the process over more than 512 levels where a string is open.
    for blank in (" ", "\f ", "\r "):
        lines = "".join(blank[:-1] + " " * level + "def f():\n" for level in range(700))
        assert chunk_blob(f"x\n{lines}{' ' * 700}x = '''\n".encode(), "python").status == "too_deep"
    assert chunk_blob(("x = (\n" + " " * 60_000 + "1)\n").encode(), "python").status == "parsed"


def test_the_walk_is_given_up_with_the_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "PARSE_LIMIT_S", 0.0)
    assert chunk_blob(b"class C { void f() { } }\n" * 20, "java").status == "parse_timeout"


def test_python_nested_as_deep_as_it_may_be_is_searched_in_bounded_time() -> None:
    # Searched once for each level, this takes an hour.
    depth = 390
    lines = "".join(" " * level + "def f():\n" for level in range(depth))
    strings = "''; " * 500_000
    source = f"x\n{lines}{' ' * depth}{strings}\n{' ' * depth}class A: pass\n"
    assert len(left(source.encode(), "python")) == len(source)


@pytest.mark.parametrize("source", ["'" + "<!--" * 900_000, "-->" + "\n" * 3_000_000])
def test_the_comments_of_html_are_looked_for_in_bounded_time(source: str) -> None:
    # Where each is searched for from the line's or the blanks' beginning, this takes a day.
    assert not found_in(source.encode(), "javascript")


@pytest.mark.parametrize("before", ["", " " * 1_001, "a = 1; \n "])
def test_the_end_of_an_html_comment_at_a_line_s_beginning_is_a_comment(before: str) -> None:
    assert not found_in(f"{before}--> {{\nfunction f() {{ h(1, 2, 3, 4); }}\n".encode(), "javascript")


def test_an_html_comment_behind_all_that_is_found_keeps_the_file_whole() -> None:
    assert not found_in(b"function f() { h(1, 2, 3, 4); }\n<!-- a", "javascript")


def test_an_html_comment_in_a_string_of_javascript_keeps_no_file_whole() -> None:
    function = "function f() { h(1, 2, 3, 4); }\n"
    assert len(found_in(f"a = '<!-- b -->';\n{function}".encode(), "javascript")) == 1
    assert not found_in(f"a = 1; <!-- it's {{\n{function}".encode(), "javascript")
    assert not found_in(f"a = 1; <!-- {{\nb = 'c';\n{function}".encode(), "javascript")
