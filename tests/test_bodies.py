"""Bodies that are taken out before the parse: the chunks are those of the whole tree, whatever stands in the bodies."""

import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quarry_harness import chunking
from quarry_harness.chunking import chunk_blob
from quarry_harness.languages import RULES_OF_DIALECT
from quarry_harness.languages.bodies import without_bodies
from quarry_harness.readable import MAX_BLOB_BYTES

# What may stand in a body, with signs in it that look like others.
_ANYWHERE = [
    "f();",
    "{ g(a); }",
    "if (a) { g(); }",
    "// it's } \"\n",
    "/* { \" ' */",
    "a = b / c;",
    'h("{");',
    "{{{{}}}}",
]
_STATEMENTS = {
    "java": [
        *("c = '{';", "c = '\\'';", 'h("\\"}");', 'x = """\n  }"{ " \\""" \n""";', "int[] e = {1, 2};"),
        *("r = () -> { h(); };", "x = new A() { void inner() { } };", "class L { void inner() { } }"),
        *("x = new A(b) { void inner() { } };", "switch (a) { case 1: h(); }", "try { } finally { }"),
    ],
    "csharp": [
        *(
            "c = '{';",
            "c = '\\'';",
            'h("\\"}");',
            'x = @"}""{\\";',
            'x = $"{a}}}{{";',
            'x = $@"""{a}""";',
            'x = @$"{a}";',
        ),
        *(
            'x = $"{(a ? "x" : "y")}";',
            'x = """ } " { """;',
            'x = $"""{a}""";',
            "int @class = 1;",
            "void local() { h(); }",
        ),
        *("#region it's {\n#endregion\n", "\n#if A\nif (a) {\n#else\nif (b) {\n#endif\n}\n", "x = new A(b) { C = 1 };"),
    ],
    "rust": [
        *(
            "let c = '{';",
            "let c = '\\'';",
            'h("\\"}");',
            'let x = r"}\\";',
            'let x = r#"}"{"#;',
            'let x = br##"}"#{"##;',
        ),
        *("'a: loop { break 'a; }", "let c = 'é';", "let c = '\\u{7d}';", "/* /* } */ { */", "#[cfg(a)] let y = 1;"),
        *("fn inner() { h(); }", "m!{ } ", "let s = S { a: 1 };", "let f = |a| { a };", 'h("a\nb");', "let c = b'}';"),
    ],
}
_STATEMENTS["go"] = [
    *(
        "c = '{'",
        "c = '\\''",
        'h("\\"}")',
        "x = `}\\\n{`",
        "func() { h() }()",
        "if a := b; a { h() }",
        "var e = []int{1, 2}",
    ),
    *("type I interface {\n  inner()\n}", "switch { case a: h() }", "type S struct { f func(a int) }", "for { break }"),
]
_AROUND = {
    "go": "package p\n\n%s",
    "java": "class C {\n%s}\n",
    "csharp": "namespace N\n{\n  class C\n  {\n%s  }\n}\n",
    "rust": "mod m {\n  impl<'a> C<'a> {\n%s  }\n}\n",
}
_HEADS = {
    "go": [
        "func f{0}() {{\n{1}\n}}\n",
        "func (r *R[T]) f{0}(a struct{{}}, b func(int) (int, error)) interface{{}} {{\n{1}\n}}\n",
    ],
    "java": ["void f{0}() {{ {1} }}\n", "C(int a) throws X, b.Y<Z> {{ {1} }}\n", "void f{0}(int a)\n{{\n{1}\n}}\n"],
    "csharp": [
        "void f{0}() {{ {1} }}\n",
        "C(int a) : base(a)\n{{\n{1}\n}}\n",
        "T f{0}<T>(T a) where T : class {{ {1} }}\n",
    ],
    "rust": [
        "fn f{0}() {{ {1} }}\n",
        "pub fn f{0}<'b, T: A>(&'b self, a: T) -> Option<&'b str>\nwhere T: B {{\n{1}\n}}\n",
    ],
}
_FUNCTION = {"go": "func %s()", "java": "void %s()", "csharp": "void %s()", "rust": "fn %s()"}
_OTHERS = {
    "go": [
        "type D func(a *A) error\n\ntype I interface {\n  own(a int) error\n  other() D\n}\n",
        "// it's {\n",
        "var g = func() { h(1, 2, 3, 4) }\n",
    ]
    + ["func g(a int) struct{ b, c, d, e int } {\n  h(1, 2, 3, 4)\n}\n", "func outside(a int) int\n", "var a = `}{`\n"]
    + [
        "type S struct {\n  f func(a int)\n  g interface {\n    none(a int)\n  }\n}\n",
        "func g(\n  a int, // it's {\n) {\n  h(1, 2, 3, 4)\n}\n",
    ],
    "java": [
        "int a = 1;\n",
        "static { if (a) { h(); } }\n",
        "Object o = new A() { void own() { h(1, 2, 3, 4); } };\n",
        "// it's {\n",
    ]
    + ["enum E { A(1) { void own() { h(1, 2, 3, 4); } }; }\n", "record R(int a) { void own() { h(1, 2, 3, 4); } }\n"]
    + [
        "void g() /* c */ { x = new A(b) { void own() { h(1, 2, 3, 4); } }; }\n",
        '@A("{") void g();\n',
        "Runnable r = () -> { h(1, 2, 3, 4); };\n",
    ],
    "csharp": [
        "int a = 1;\n",
        "class D(int a) { void own() { h(1, 2, 3, 4); } }\n",
        "int P { get { return h(1); } }\n",
        "// it's {\n",
    ]
    + [
        "class D<T> where T : new()\n{\n  void own() { h(1, 2, 3, 4); }\n}\n",
        "A a = new A(1) { B = h(1, 2, 3, 4) };\n",
        '[A("{")]\n',
    ],
    "rust": [
        "const A: u8 = 1;\n",
        "// it's {\n",
        '#[a(b = "{")]\n',
        "fn g(&self) -> [u8; 4] { h(1, 2, 3, 4) }\n",
        "type F = fn(u8) -> u8;\n",
    ],
}


def members(dialect: str) -> st.SearchStrategy[list[str]]:
    statements = st.lists(st.sampled_from([*_ANYWHERE, *_STATEMENTS[dialect]]), max_size=6).map("\n".join)
    functions = st.tuples(st.sampled_from(_HEADS[dialect]), st.integers(0, 99), statements).map(
        lambda made: made[0].format(made[1], made[2])
    )
    return st.lists(functions | st.sampled_from(_OTHERS[dialect]), max_size=6)


@pytest.mark.parametrize("dialect", list(_AROUND))
@given(data=st.data())
def test_the_chunks_are_those_of_the_whole_tree(dialect: str, data: st.DataObject) -> None:
    source = (_AROUND[dialect] % "".join(data.draw(members(dialect)))).encode()
    whole = chunking._cut(source, dialect, math.inf)
    assume(not whole.errors)
    assert list(chunk_blob(source, dialect).chunks) == whole.chunks


@pytest.mark.parametrize("dialect", list(_AROUND))
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
                "a",
            ]
        )
    )
)
def test_every_offset_and_line_is_kept_whatever_the_source(dialect: str, pieces: list[str]) -> None:
    source = "".join(pieces).encode()
    how = RULES_OF_DIALECT[dialect].bodies
    assert how is not None
    left, spans = without_bodies(source, how, [])
    assert len(left) == len(source)
    assert all(new in (old, ord(" ")) for new, old in zip(left, source, strict=True))
    assert left.count(b"\n") == source.count(b"\n")
    assert chunk_blob(source, dialect).lines == chunking._lines(source)
    blanked = {byte for start, end in spans for byte in range(start, end)}
    assert all(new == old for byte, (new, old) in enumerate(zip(left, source, strict=True)) if byte not in blanked)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("java", "int = ; x x x x"),
        ("csharp", "int = ; x x x x"),
        ("rust", "let s = S { a: 1, b = };"),
        ("rust", "match { 1 => }"),
    ],
)
def test_an_error_in_a_body_moves_no_end(dialect: str, body: str) -> None:
    head = _FUNCTION[dialect]
    source = _AROUND[dialect] % "".join(f"{head % name} {{\n  {body}\n}}\n" for name in "ab")
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


@pytest.mark.parametrize("dialect", list(_AROUND))
def test_where_an_error_is_outside_the_bodies_the_whole_is_parsed(dialect: str) -> None:
    source = (_AROUND[dialect] % f"{_FUNCTION[dialect] % 'f'} {{\n  = = = (\n}}\n)\n").encode()
    whole = chunking._cut(source, dialect, math.inf)
    parsed = chunk_blob(source, dialect)
    assert (list(parsed.chunks), parsed.error_count) == (whole.chunks, whole.errors)
    assert whole.errors > 1


def test_bodies_nested_deeper_than_the_pattern_goes_are_taken_out_piece_by_piece() -> None:
    deep = "if (a) {" * 60 + "h(1, 2, 3, 4);" + "}" * 60
    source = (_AROUND["java"] % f"void f() {{ {deep} }}\nvoid g() {{ h(1, 2, 3, 4); }}\n").encode()
    how = RULES_OF_DIALECT["java"].bodies
    assert how is not None
    left, spans = without_bodies(source, how, [])
    assert b"h(1" not in left
    assert len(spans) == 2
    assert [chunk.name for chunk in chunk_blob(source, "java").chunks] == ["f", "g"]


@pytest.mark.parametrize(
    "unit", ["fn a<", "func a(", "func a{}", "`", "#", "fn a(x: ", "){", "'", "(){", "(){}", '){"a"']
)
@pytest.mark.parametrize("dialect", list(_AROUND))
def test_the_search_for_bodies_grows_no_faster_than_the_source(dialect: str, unit: str) -> None:
    # What grows with the square takes hours.
    how = RULES_OF_DIALECT[dialect].bodies
    assert how is not None
    source = unit.encode() * (MAX_BLOB_BYTES // 4 // len(unit))
    assert len(without_bodies(source, how, [])[0]) == len(source)
