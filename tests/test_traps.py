"""Each known trap of cutting functions, with the right answer worked out by hand from the written range rules."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarry_harness import chunking, fingerprints, trees
from quarry_harness.chunking import chunk_blob, source_text, source_texts
from quarry_harness.fingerprints import fingerprint
from quarry_harness.languages import (
    LANGUAGE_OF_DIALECT,
    PROFILES,
    dialect_of_path,
    language_of_path,
    reads_headers_as_cpp,
)
from quarry_harness.readable import MAX_BLOB_BYTES
from quarry_harness.types import LANGUAGES

DIALECTS = sorted(LANGUAGE_OF_DIALECT)


def found(source: str | bytes, dialect: str, profile: str = "quarry") -> list[tuple[str, str, int, int]]:
    """(container, name, start line, end line) of the chunks of a profile, in source order."""
    data = source.encode() if isinstance(source, str) else source
    parsed = chunk_blob(data, dialect)
    assert parsed.status == "parsed"
    kinds = PROFILES[profile]
    return [(c.container, c.name, c.start_line, c.end_line) for c in parsed.chunks if kinds is None or c.kind in kinds]


def kinds(source: str, dialect: str) -> dict[str, str]:
    return {chunk.name: chunk.kind for chunk in chunk_blob(source.encode(), dialect).chunks}


# 1. Macros before a class or a namespace parse as functions.


def test_a_class_behind_a_macro_is_a_container() -> None:
    source = "class API_EXPORT Foo {\n  int one() { return 1; }\n  int two();\n};\n"
    assert found(source, "cpp") == [("Foo", "one", 2, 2), ("Foo", "two", 3, 3)]


def test_a_namespace_behind_a_macro_is_walked_through() -> None:
    source = "API_BEGIN namespace d {\nint one() { return 1; }\nint two();\n}\n"
    assert [(name, start, end) for _, name, start, end in found(source, "cpp")] == [("one", 2, 2), ("two", 3, 3)]


# 2. Statements that error recovery takes for functions.


def test_statements_are_never_functions() -> None:
    source = "FOREACH(x)\nif (a) { b(); }\nwhile (a) { b(); }\nint real(void) { return 0; }\n"
    names = {name for _, name, _, _ in found(source, "c")}
    assert not names & {"if", "while", "for", "switch", "return"}


# 3. Wrappers around a declaration.


def test_decorators_are_inside_and_properties_are_no_chunks() -> None:
    source = (
        "@first\n@second(1)\ndef f():\n    def inner():\n        pass\n    return inner\n\n"
        "class C:\n    @property\n    def p(self): ...\n\n    @p.setter\n    def p(self, v): ...\n\n"
        "    @staticmethod\n    def s(): ...\n"
    )
    assert found(source, "python") == [("", "f", 1, 6), ("C", "s", 15, 16)]
    assert kinds(source, "python")["p"] == "property"


def test_a_comment_behind_a_setter_s_decorator_makes_no_method_of_it() -> None:
    source = (
        "class A:\n"
        "    @x.setter  # type: ignore\n    def x(self, value): pass\n"
        "    @x . deleter # why\n    def x(self): pass\n"
        "    @named('a.setter')  # x.setter\n    def kept(self): pass\n"
    )
    assert found(source, "python") == [("A", "kept", 6, 7)]


def test_methods_of_a_class_inside_a_function_stay() -> None:
    source = "def f():\n    class C:\n        def m(self):\n            pass\n    return C\n"
    assert found(source, "python") == [("", "f", 1, 5), ("C", "m", 3, 4)]


def test_export_is_inside_and_an_arrow_has_its_whole_declaration() -> None:
    source = (
        "export function a() {}\n"
        "export const b =\n  () => 1;\n"
        "export default class K {\n  constructor() {}\n  get v() { return 1 }\n  static s() {}\n  f = () => 2;\n}\n"
        "K.prototype.p = function () {\n};\n"
        "exports.e = () => {};\n"
    )
    assert found(source, "javascript") == [
        ("", "a", 1, 1),
        ("", "b", 2, 3),
        ("K", "constructor", 5, 5),
        ("K", "v", 6, 6),
        ("K", "s", 7, 7),
        ("K", "p", 10, 11),
        ("", "e", 12, 12),
    ]


def test_a_comment_before_a_value_hides_no_function() -> None:
    source = (
        "const f = /** @type {F} */ (\n  /** @param {T} a */\n  (a) => a\n);\n"
        "exports.g = /* g */ (/* h */ function () {});\n"
    )
    assert found(source, "javascript") == [("", "f", 1, 4), ("", "g", 5, 5)]


def test_nested_functions_callbacks_and_generators_are_no_chunks() -> None:
    source = (
        "function a() {\n  function b() {}\n  return () => 1;\n}\nrun({ m() {} }, function c() {});\nfunction* g() {}\n"
    )
    assert found(source, "javascript") == [("", "a", 1, 4)]
    assert kinds(source, "javascript")["g"] != "function"


def test_methods_of_a_returned_or_exported_object_are_chunks() -> None:
    source = "function make() {\n  return {\n    m() {}\n  };\n}\nmodule.exports = {\n  x() {}\n};\n"
    assert [(name, start) for _, name, start, _ in found(source, "javascript")] == [("make", 1), ("m", 3), ("x", 7)]


def test_ambient_declarations_and_signatures_are_chunks() -> None:
    source = (
        "declare function d(x: number): void;\ninterface I {\n  m(): void;\n}\n"
        "abstract class A {\n  abstract n(): void;\n}\n"
    )
    assert found(source, "typescript") == [("", "d", 1, 1), ("I", "m", 3, 3), ("A", "n", 6, 6)]


def test_tsx_and_type_assertions_need_their_own_grammars() -> None:
    assert found("const f = (z: unknown) => <any>z;\n", "typescript") == [("", "f", 1, 1)]
    assert found("export const P = () => <p>hello</p>;\n", "tsx") == [("", "P", 1, 1)]
    assert dialect_of_path("a/b.tsx", False) == "tsx"
    assert dialect_of_path("a/b.d.ts", False) == "typescript"


# 4. One name many times: the range tells them apart.


def test_overloads_are_chunks_each() -> None:
    source = "function o(a: string): void;\nfunction o(a: number): void;\nfunction o(a: unknown) {}\n"
    assert found(source, "typescript") == [("", "o", 1, 1), ("", "o", 2, 2), ("", "o", 3, 3)]
    go = "package p\n\nfunc init() {}\nfunc init() {}\n"
    assert found(go, "go") == [("", "init", 3, 3), ("", "init", 4, 4)]
    java = "class C {\n  C() {}\n  C(int a) {}\n  void m() {}\n  void m(int a) {}\n}\n"
    assert [start for _, _, start, _ in found(java, "java")] == [2, 3, 4, 5]


# 5. C# directives that break a body.


def test_a_directive_that_breaks_a_body_costs_no_method() -> None:
    source = (
        "namespace N;\nclass C {\n  void A() {\n#if X\n    if (a) {\n#else\n    if (b) {\n#endif\n    }\n  }\n"
        "  void B() {}\n  int P { get; set; }\n}\n"
    )
    assert found(source, "csharp") == [("C", "A", 3, 10), ("C", "B", 11, 11)]
    (first, *_) = chunk_blob(source.encode(), "csharp").chunks
    assert first.qualified_name == "N.C.A"


# 6. Headers.


def test_a_header_is_cpp_where_anything_else_is() -> None:
    assert not reads_headers_as_cpp(["a.h", "b.c", "README.md"])
    assert reads_headers_as_cpp(["a.h", "b.c", "x/y.hpp"])
    assert dialect_of_path("a.h", False) == "c"
    assert dialect_of_path("a.h", True) == "cpp"


def test_every_language_has_a_file_name_and_other_files_have_none() -> None:
    names = ("a.c", "a.cc", "a.cs", "a.go", "A.java", "a.js", "a.php", "a.py", "a.rs", "A.scala", "a.ts")
    assert {language_of_path(name, False) for name in names} == set(LANGUAGES)
    for name in ("README.md", "Makefile", ".py", "py", "a.txt", "a.py.orig", ""):
        assert language_of_path(name, False) is None


# 7. Bytes that are no clean text.


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfdef f():\r\n    pass\r\n", [("", "f", 1, 2)]),
        (b"# caf\xe9\ndef f():\n    return '\xe9'\n", [("", "f", 2, 3)]),
        (b"x = 1\x0c\ndef f():\n    s = '\xe2\x80\xa8'\n    return s\n", [("", "f", 2, 4)]),
        (b"def f():\n    return 'a\x00b'\n", [("", "f", 1, 2)]),
        (b"", []),
    ],
)
def test_lines_are_counted_at_newlines_alone(data: bytes, expected: list[tuple[str, str, int, int]]) -> None:
    assert found(data, "python") == expected


def test_a_file_with_carriage_returns_alone_is_one_line() -> None:
    assert {(start, end) for _, _, start, end in found(b"int a() { return 1; }\rint b() { return 2; }\r", "c")} == {
        (1, 1)
    }


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("def f(): pass\n".encode("utf-16"), "utf16"),
        ("def f(): pass\n".encode("utf-16-le"), "utf16"),
        (bytes(range(256)) * 20, "binary"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "lfs_pointer"),
        (b"#" * (MAX_BLOB_BYTES + 1), "too_large"),
    ],
)
def test_what_is_no_source_has_a_reason(data: bytes, reason: str) -> None:
    parsed = chunk_blob(data, "python")
    assert (parsed.status, parsed.chunks) == (reason, ())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nesting_100_000_deep_ends_within_the_limit(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "PARSE_LIMIT_S", 0.5)
    for opening in (b"(", b"{", b"[", b"a(", b"class A {", b"if (a) {", b"<a>"):
        started = time.monotonic()
        assert chunk_blob(opening * 100_000, dialect).status in ("parsed", "parse_timeout", "too_ambiguous")
        assert time.monotonic() - started < 10


def test_a_long_line_is_parsed() -> None:
    line = b"var a=[" + b"1," * 1_500_000 + b"1];function f(){}\n"
    assert found(line, "javascript") == [("", "f", 1, 1)]


# 8. Signatures without a body.


def test_prototypes_interfaces_and_traits_are_chunks() -> None:
    assert found("int f(int a);\nextern void g(void);\nint (*pointer)(int);\n", "c") == [
        ("", "f", 1, 1),
        ("", "g", 2, 2),
    ]
    assert found("trait T {\n    fn a(&self);\n    fn b(&self) {}\n}\n", "rust") == [("T", "a", 2, 2), ("T", "b", 3, 3)]
    assert found("package p\n\ntype I interface {\n\tM()\n}\n\nvar x interface{ N() }\n", "go") == [("I", "M", 4, 4)]
    assert found("interface I {\n  void m();\n}\n", "java") == [("I", "m", 2, 2)]


# 9. Broken files.


def test_python_2_parses_and_errors_are_counted() -> None:
    assert found("def f():\n    print 'x'\n", "python") == [("", "f", 1, 2)]
    assert chunk_blob(b"def f(:\n    pass\n", "python").error_count > 0
    assert chunk_blob(b"def f():\n    pass\n", "python").error_count == 0


# The rest of the table.


def test_rust_ranges_leave_attributes_out_and_impls_name_the_type() -> None:
    source = (
        "/// doc\n#[inline]\nfn r#match() {\n    fn inner() {}\n}\n\n"
        "impl<T> fmt::Display for Wrapper<T> {\n    fn fmt(&self) {}\n}\n"
    )
    assert found(source, "rust") == [("", "match", 3, 5), ("Wrapper", "fmt", 8, 8)]


def test_cpp_ranges_leave_the_template_line_out_and_qualifiers_are_containers() -> None:
    source = (
        "namespace n {\ntemplate <typename T>\nT max(T a, T b) { return a; }\n}\n"
        "void n::Foo::bar() const {\n}\nFoo::~Foo() {}\nbool Foo::operator==(const Foo& o) const { return true; }\n"
    )
    assert found(source, "cpp") == [
        ("", "max", 3, 3),
        ("Foo", "bar", 5, 6),
        ("Foo", "~Foo", 7, 7),
        ("Foo", "operator==", 8, 8),
    ]


def test_go_methods_belong_to_their_receiver() -> None:
    source = "package p\n\nfunc (s *Set[T]) Add(v T) {\n\tf := func() {}\n\tf()\n}\n"
    assert found(source, "go") == [("Set", "Add", 3, 6)]


def test_scala_constructors_are_named_as_their_class() -> None:
    source = (
        "package a\npackage b\n\nclass C(x: Int) {\n  def this() = this(1)\n"
        "  def m(): Int = {\n    def inner = 1\n    inner\n  }\n}\n"
    )
    assert found(source, "scala") == [("C", "C", 5, 5), ("C", "m", 6, 9)]
    assert [c.qualified_name for c in chunk_blob(source.encode(), "scala").chunks][-1] == "a.b.C.m"


def test_php_conditional_functions_stay_and_closures_do_not() -> None:
    source = (
        "<?php\nnamespace A\\B;\nif (!function_exists('f')) {\n  function f() {}\n}\n"
        "class C {\n  public function m() {\n    return function () {};\n  }\n}\n$x = new class { function n() {} };\n"
    )
    assert found(source, "php") == [("", "f", 4, 4), ("C", "m", 7, 9)]
    assert chunk_blob(source.encode(), "php").chunks[1].qualified_name == "A.B.C.m"


def test_java_anonymous_and_local_classes_keep_their_methods() -> None:
    source = (
        "package p;\nclass C {\n  @Override\n  void m() {\n    Runnable r = new Runnable() {\n"
        "      public void run() {}\n    };\n    class L { void l() {} }\n    Runnable s = () -> {};\n  }\n}\n"
    )
    assert [(name, start, end) for _, name, start, end in found(source, "java")] == [
        ("m", 3, 10),
        ("run", 6, 6),
        ("l", 8, 8),
    ]


# The text of a chunk.


def test_source_text_starts_at_the_line_s_beginning_and_has_lf_line_ends() -> None:
    data = b"class A:\r\n    def m(self):\r\n        return '\xff'\r\n"
    (chunk,) = chunk_blob(data, "python").chunks
    assert source_text(data, chunk) == "    def m(self):\n        return '�'"


@given(
    pieces=st.lists(
        st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf", b"\xe2\x82\xac"])
    ),
    data=st.data(),
)
def test_the_texts_of_a_blob_are_those_of_its_chunks(pieces: list[bytes], data: st.DataObject) -> None:
    blob = b"".join(pieces)
    cuts = data.draw(st.lists(st.tuples(*[st.integers(0, len(blob))] * 2).map(sorted), max_size=3))
    chunks = [chunking.Chunk("", "", "", "", "", 1, 1, start, end) for start, end in cuts]
    assert source_texts(blob, chunks) == [source_text(blob, chunk).encode() for chunk in chunks]


def test_a_fingerprint_counts_every_module_that_a_description_is_made_of() -> None:
    shared = {"bodies", "chunking", "readable", "rules", "trees"}
    for dialect, own in (
        ("cpp", {"c_family", "c_macros"}),
        ("typescript", {"ecmascript", "ecmascript_bodies"}),
        ("python", {"python"}),
    ):
        names = {name.rpartition(".")[2] for name in fingerprints._decided_by(chunking.RULES_OF_DIALECT[dialect])}
        assert names == shared | own


@pytest.mark.parametrize("dialect", DIALECTS)
def test_fingerprints_are_steady_and_tell_dialects_apart(dialect: str) -> None:
    assert fingerprint(dialect) == fingerprint(dialect)
    assert len({fingerprint(other) for other in DIALECTS}) == len(DIALECTS)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2_000), st.sampled_from(DIALECTS))
def test_no_bytes_raise_and_every_chunk_lies_in_the_file(data: bytes, dialect: str) -> None:
    parsed = chunk_blob(data, dialect)
    lines = data.count(b"\n") + 1
    for chunk in parsed.chunks:
        assert 0 <= chunk.start_byte < chunk.end_byte <= len(data)
        assert 1 <= chunk.start_line <= chunk.end_line <= lines
        assert chunk.start_line == data.count(b"\n", 0, chunk.start_byte) + 1
        assert chunk.name
        source_text(data, chunk)
