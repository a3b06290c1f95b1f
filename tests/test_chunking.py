"""What a parser or a broken file must not do to the chunks, and the rules that the traps do not cover."""

import functools
import sys
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from quarry_harness import trees
from quarry_harness.chunking import chunk_blob, parsed_root
from quarry_harness.languages import PROFILES
from quarry_harness.languages.c_family import CPP, C, plain_c, plain_cpp
from quarry_harness.languages.csharp import mask_directives
from quarry_harness.languages.scala import mask_names
from quarry_harness.readable import too_strange

QUARRY = PROFILES["quarry"] or frozenset()


def chunks(source: str, dialect: str) -> list[tuple[str, str, str, int, int]]:
    parsed = chunk_blob(source.encode(), dialect)
    assert parsed.status == "parsed"
    return [(c.kind, c.qualified_name, c.container, c.start_line, c.end_line) for c in parsed.chunks]


# Limits.


@pytest.mark.parametrize(
    ("unit", "dialect", "status"),
    [
        *((unit, "python", "too_ambiguous") for unit in (b"/* a ", b"-* a ", b"// * a\n", b"%  *(a) ")),
        (b"'", "scala", "too_ambiguous"),
        *((unit, "scala", "binary") for unit in (b"\xe2\x80\x8b", b"\xe2\x80\x8b \n", b"\x7f ")),
        (b"\xff", "scala", "binary"),
        (b"\xef\xbb\xbf", "scala", "binary"),
    ],
)
def test_what_no_limit_of_a_parse_stops_is_not_parsed(unit: bytes, dialect: str, status: str) -> None:
    # A tenth of this took gigabytes, or minutes in one step.
    assert chunk_blob(unit * 200_000, dialect).status == status


def test_runs_of_strange_signs_just_short_enough_are_looked_at_once() -> None:
    # Where the search begins anew at each sign, this takes minutes.
    assert too_strange((b"\x7f" * 19_999 + b"a") * 200) == ""


def test_stars_and_slashes_of_real_python_are_parsed() -> None:
    code, text, comment = "x = f(*a, **b)\ny = 2 ** -1 / c * d\n", "/* a */ b;\n", "#" + "-* " * 200 + "\n"
    source = f'{code * 500}"""{text * 500}"""\n{comment * 9}'
    assert chunk_blob(source.encode(), "python").status == "parsed"


@pytest.mark.parametrize(
    ("pattern", "dialect"), [(b"a<", "java"), (b"a => ", "java"), (b"a<", "csharp"), (b"a => ", "c"), (b"a<(b)", "cpp")]
)
def test_what_the_parser_cannot_bear_is_not_given_to_it(pattern: bytes, dialect: str) -> None:
    started = time.monotonic()
    assert chunk_blob(pattern * 100_000, dialect).status == "too_ambiguous"
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "filler", ["/* " + "=" * 2_000 + " */", "// " + "<" * 2_000, 'const char *t = "' + "<p>" * 2_000 + '";']
)
def test_signs_in_comments_and_strings_are_borne(filler: str) -> None:
    source = filler + "\nint f(void) { return 1; }\n"
    assert [name for _, name, *_ in chunks(source, "c")] == ["f"]


def test_the_work_limit_does_not_depend_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = b"def f():\n    return 1\n" * 2_000
    monkeypatch.setattr(trees, "PARSE_LIMIT_S", 0.0)
    monkeypatch.setattr(trees, "PARSE_STEPS", 10)
    assert chunk_blob(source, "python").status == "parse_timeout"
    monkeypatch.setattr(trees, "PARSE_LIMIT_S", 30.0)
    assert chunk_blob(source, "python").status == "parse_timeout"
    monkeypatch.setattr(trees, "PARSE_STEPS", 1_000_000)
    assert len(chunk_blob(source, "python").chunks) == 2_000


@pytest.mark.parametrize(
    ("source", "dialect"),
    [
        ("class A { void f() {" + "new A();" * 60_000 + "}}", "java"),
        ("class A { void f() {" + "new A() { void g() {" * 20_000, "java"),
        ("class A { void f() {" + "if (a) { new A(1) ;" * 20_000, "java"),
        ("function f() { return { a() { " * 20_000, "javascript"),
        ("a.prototype.b = " * 20_000 + "function () {}", "javascript"),
        ("int " + "(*" * 20_000 + "f" + ")(int)" * 20_000 + ";", "c"),
        ("namespace a {" * 50_000, "cpp"),
        ("#if A\n" * 50_000 + "class A { void f() {} }", "csharp"),
    ],
)
def test_the_search_in_bodies_grows_no_faster_than_the_body(source: str, dialect: str) -> None:
    started = time.monotonic()
    assert chunk_blob(source.encode(), dialect).status == "parsed"
    assert time.monotonic() - started < 20


def test_a_go_method_without_a_receiver_costs_no_run() -> None:
    assert chunks("package p\nfunc () f() {}\n", "go") == [("method", "p.f", "", 2, 2)]


# C#: directives.


@given(st.lists(st.sampled_from(["#if A\n", "#else\n", "#elif B\n", "#endif\r\n", "  x = 1;\n", "é #\n"]), max_size=30))
@example(["#if A\n", "x\n", "#if B\n", "#else\n", "y\n", "#endif\r\n", "#else\n", "z\n", "#endif\r\n", "w\n"])
def test_masking_keeps_every_offset_and_line(lines: list[str]) -> None:
    source = "".join(lines).encode()
    masked = mask_directives(source)
    assert len(masked) == len(source)
    assert [i for i, byte in enumerate(masked) if byte in b"\r\n"] == [i for i, b in enumerate(source) if b in b"\r\n"]
    assert all(new in (old, ord(" ")) for new, old in zip(masked, source, strict=True))


def test_masking_hides_the_other_branches_and_what_is_nested_in_them() -> None:
    source = b"#if A\na\n#if B\nb\n#else\nc\n#endif\n#else\nd\n#if C\ne\n#endif\n#endif\nf\n"
    assert mask_directives(source).split() == [b"a", b"b", b"f"]


def test_only_the_directives_around_an_error_cost_a_branch() -> None:
    broken = "#if X\n    if (a) {\n#else\n    if (b) {\n#endif\n    }\n"
    source = (
        f"class C {{\n#if A\n  void One() {{}}\n#else\n  void Two() {{}}\n#endif\n  void Three() {{\n{broken}  }}\n"
        f"#if B\n  void Four() {{}}\n#elif C\n  void Five() {{\n{broken}  }}\n#endif\n}}\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "csharp")] == [
        ("C.One", 3, 3),
        ("C.Two", 5, 5),
        ("C.Three", 7, 14),
        ("C.Four", 16, 16),
        ("C.Five", 18, 25),
    ]


def test_a_primary_constructor_has_the_lines_of_its_header() -> None:
    source = "class P(\n    int a,\n    int b)\n    : Base(a)\n    where T : new()\n{\n    int M() => a;\n}\n"
    assert chunks(source, "csharp") == [("primary_constructor", "P.P", "P", 1, 4), ("method", "P.M", "P", 7, 7)]
    assert chunks("record R(int A);\nclass Q { }\n", "csharp") == [("primary_constructor", "R.R", "R", 1, 1)]


def test_the_superset_of_csharp_has_its_own_kinds() -> None:
    source = (
        "class C {\n int P => 1;\n ~C() {}\n public static C operator +(C a, C b) => a;\n"
        " public static implicit operator int(C c) => 1;\n int this[int i] => i;\n delegate void D();\n"
        " event E X { add {} remove {} }\n}\nvoid Local() {}\n"
    )
    found = {kind for kind, *_ in chunks(source, "csharp")}
    assert found == {
        *("property", "finalizer", "operator", "conversion_operator", "indexer", "delegate", "event"),
        "local_function",
    }
    assert not found & QUARRY


# C and C++: behind macros.


def test_a_constructor_behind_a_macro_is_not_its_initialisers() -> None:
    source = "class B {\n  API B(int a, int b) noexcept\n      : a_(a), b_(b), c_(0) {\n  }\n};\n"
    assert [name for _, name, *_ in chunks(source, "cpp")] == ["B.B"]


def test_declarators_tell_functions_from_variables() -> None:
    source = (
        "int *f(int);\nint (*g)(int);\nvoid (*signal(int s))(int);\nint (h)(void);\nint (*table[4])(int);\n"
        "int a(int), b(int);\ntypedef int t(int);\nstruct S { int (*call)(int); };\n"
    )
    assert [name for _, name, *_ in chunks(source, "c")] == ["f", "signal", "h", "a", "b"]


def test_a_macro_before_a_type_is_not_taken_for_the_type() -> None:
    source = (
        "#define API extern\nAPI int (f1)(int a);\nAPI lua_Number (f2) (lua_State *L, int idx);\nAPI int f3 (int a);\n"
        "API type_t *f4(void);\nAPI const char *f5(void) { return 0; }\nextern uLong CALL f6(int a);\n"
        "int CALL f7(void)\n{\n  return 1;\n}\nBOOL CALL f8(void);\nstatic UINT32 f9(UINT32 a);\nFILE *f10(void);\n"
        "API\nint f11(void);\nAPI MAKE(name)(int a);\n"
    )
    expected = [("f1", 2, 2), ("f2", 3, 3), ("f3", 4, 4), ("f4", 5, 5), ("f5", 6, 6), ("f6", 7, 7), ("f7", 8, 11)]
    expected += [("f8", 12, 12), ("f9", 13, 13), ("f10", 14, 14), ("f11", 15, 16), ("MAKE", 17, 17)]
    for dialect in ("c", "cpp"):
        assert [(name, first, last) for _, name, _, first, last in chunks(source, dialect)] == expected


def test_an_old_prototype_has_its_own_name() -> None:
    source = (
        "extern int CALL open_it OF((const char *name,\n    int (*f)(int)));\nlocal void close_it _((void));\n"
        "int g(void) { if ((1)) return FLAG((2)); CHECK((3)); return 0; }\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "c")] == [
        ("open_it", 1, 2),
        ("close_it", 3, 3),
        ("g", 4, 4),
    ]


def test_a_comment_inside_a_macro_ends_neither_it_nor_the_functions_behind() -> None:
    source = (
        "#define SKIP(p)   \\\n  (a ?  /* one */  \\\n   b : /* two */ \\\n   (c))\n\n"
        "static int\nf(int a);\nint g(void);\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "c")] == [("f", 6, 7), ("g", 8, 8)]


def test_members_behind_a_class_s_macro_are_members() -> None:
    source = (
        "\nclass API X : public Y {\n public:\n  X();\n  explicit X(int a);\n  X(const X&) = delete;\n"
        "  virtual ~X();\n  ~X() override;\n  void f();\n  int g() const { return 1; }\n  X(int b) : a_(b) {}\n};\n"
        "struct API(8) Z final {\n  Z();\n};\n"
    )
    assert chunks(source, "cpp") == [
        ("constructor", "X.X", "X", 4, 4),
        ("constructor", "X.X", "X", 5, 5),
        ("constructor", "X.X", "X", 6, 6),
        ("destructor", "X.~X", "X", 7, 7),
        ("destructor", "X.~X", "X", 8, 8),
        ("method", "X.f", "X", 9, 9),
        ("method", "X.g", "X", 10, 10),
        ("constructor", "X.X", "X", 11, 11),
        ("constructor", "Z.Z", "Z", 14, 14),
    ]


def test_what_is_defaulted_outside_its_class_is_found() -> None:
    source = (
        "X::~X() = default;\na::X::X() = default;\nX::X(int a) = delete;\n"
        "X::~X() NOEXCEPT = default;\ny.z = default_;\n"
    )
    assert [(kind, name, line) for kind, name, _, line, _ in chunks(source, "cpp")] == [
        ("destructor", "X.~X", 1),
        ("constructor", "a.X.X", 2),
        ("constructor", "X.X", 3),
        ("destructor", "X.~X", 4),
    ]


def test_annotations_of_thread_safety_are_no_functions() -> None:
    source = (
        "#define GUARDED_BY(x) __attribute__((guarded_by(x)))\nclass Z {\n  int x GUARDED_BY(m);\n"
        "  std::deque<W*> w_ GUARDED_BY(mutex_) = {};\n  void f() EXCLUSIVE_LOCKS_REQUIRED(m);\n"
        "  Status g(int a)\n      LOCKS_EXCLUDED(m, n());\n  void Unlock() UNLOCK_FUNCTION() { mu_.unlock(); }\n};\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "cpp")] == [
        ("Z.f", 5, 5),
        ("Z.g", 6, 7),
        ("Z.Unlock", 8, 8),
    ]


def test_a_constructor_behind_a_macro_outside_its_class_is_no_initialiser() -> None:
    source = "namespace n {\n  API X::X(int a): a_(a), b_(0)\n  {\n  }\n  BOOL X::f() { return 1; }\n}\n"
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "cpp")] == [
        ("n.X.X", 2, 4),
        ("n.X.f", 5, 5),
    ]


def test_words_in_capitals_before_a_head_hide_neither_type_nor_name() -> None:
    source = (
        "namespace n {\nextern API row_t*\nmake_row(\n    int a);\nINLINE const view_t &view(level l)\n{\n}\n"
        "INLINE ns::tm now(int a) { return a; }\nFUN set& set::operator=(set&& r) { return *this; }\n"
        "FUN set::operator bool() const { return true; }\nstatic DWORD WINAPI run(void *p);\nEXPORT BOOL call(int a);\n"
        'API size_t (*pointer)(int a);\nDEPRECATED("so") API long old(int a);\nAPI void *find(int a);\n}\n'
    )
    assert [(kind, name, first, last) for kind, name, _, first, last in chunks(source, "cpp")] == [
        ("function", "n.make_row", 2, 4),
        ("function", "n.view", 5, 7),
        ("function", "n.now", 8, 8),
        ("method", "n.set.operator=", 9, 9),
        ("conversion_operator", "n.set.operator bool", 10, 10),
        ("function", "n.run", 11, 11),
        ("function", "n.call", 12, 12),
        ("function", "n.old", 14, 14),
        ("function", "n.find", 15, 15),
    ]


def test_a_type_in_capitals_stays_a_type() -> None:
    source = (
        "\nFILE *a(int x);\nCHAR const *b(int x);\nstatic HANDLE c(void);\nUINT unsigned_d(int x);\n"
        "struct FOO *e(int x);\nenum KIND f(int x);\n"
    )
    assert plain_c(source.encode()) == plain_cpp(source.encode()) == source.encode()
    assert [name for _, name, *_ in chunks(source, "c")] == ["a", "b", "c", "unsigned_d", "e", "f"]


def test_members_of_a_class_behind_macros_are_members() -> None:
    source = (
        "\nclass Library_API Token: public Base\n  /// What it is: a token.\n{\npublic:\n"
        "  CONSTEXPR Token() NOEXCEPT : a_(0), b_(1) {}\n  CONSTEXPR INLINE Token(int a)\n    : a_(a) {\n  }\n"
        "  explicit CONSTEXPR Token(T b);\n  NORETURN ~Token() {}\n  CONSTEXPR auto f() const -> int { return 1; }\n"
        "  BOOL g(int a);\n};\n"
    )
    assert chunks(source, "cpp") == [
        ("constructor", "Token.Token", "Token", 6, 6),
        ("constructor", "Token.Token", "Token", 7, 9),
        ("constructor", "Token.Token", "Token", 10, 10),
        ("destructor", "Token.~Token", "Token", 11, 11),
        ("method", "Token.f", "Token", 12, 12),
        ("method", "Token.g", "Token", 13, 13),
    ]


def test_a_variable_behind_a_macro_and_a_word_of_the_language_are_no_functions() -> None:
    source = "const int PRIV(table)[] = { 1, 2 };\nextern const int PRIV(other)[];\nint f(int a[]);\nint *g(int);\n"
    assert [name for _, name, *_ in chunks(source, "c")] == ["f", "g"]
    pointer = "\nAPI void (*p)(int) ATTR;\nAPI size_t (*q)(int, int) ATTR;\n"
    assert chunks(pointer, "c") == []


def test_statements_that_are_one_macro_hide_no_function() -> None:
    test = 'void test_%d(void)\n{\n    EXPECT_BEGIN\n    ASSERT_EQUAL("%s", "b");\n    EXPECT_END\n}\n\n'
    source = "".join(test % (number, text) for number, text in enumerate(["a", "a", ""]))
    found = [(name, first, last) for _, name, _, first, last in chunks(source, "c")]
    assert found == [("test_0", 1, 6), ("test_1", 8, 13), ("test_2", 15, 20)]


def test_a_line_of_macros_before_a_head_is_the_functions_first() -> None:
    source = "struct S {\n  INLINE\n  void f() { EXPECT(int); }\n  OBJECT\n};\nNS_BEGIN\n\nint g();\n"
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "cpp")] == [("S.f", 2, 3), ("g", 6, 8)]


def test_an_if_that_splits_a_statement_hides_no_function() -> None:
    source = (
        "int a(int x) {\n#ifdef A\n  if (x) {\n#else\n  if (!x) {\n#endif\n    x++;\n  }\n  return x;\n}\n"
        "int b(int x\n#ifdef B\n  , int y\n#endif\n) {\n  return f(x,\n#if C\n    1\n#else\n    2\n#endif\n  );\n}\n"
        "int c(void) {\n  return 0;\n}\n"
    )
    for dialect in ("c", "cpp"):
        found = [(name, first, last) for _, name, _, first, last in chunks(source, dialect)]
        assert found == [("a", 1, 10), ("b", 11, 23), ("c", 24, 26)]


def test_the_branches_of_an_if_around_functions_are_all_read() -> None:
    source = (
        'extern "C" {\n#if A\nint a(void) { return 1; }\n#else\nint b(void) { return 2; }\n#endif\n'
        "int c(int x) {\n#ifdef B\n  if (x) {\n#else\n  if (!x) {\n#endif\n  }\n}\n}\nint d(void) { return 3; }\n"
    )
    assert [name for _, name, *_ in chunks(source, "cpp")] == ["a", "b", "c", "d"]


def test_macros_behind_parameters_hide_no_function() -> None:
    source = (
        "\nint a(int x) UNUSED_RESULT;\nint b(int x,\n      int (*y)(int))\n  CHECKED(1);\nint c(int x) UNUSED;\n"
        "int d(int x)\n{\n  if (x) RETURN_IT;\n  return (int) DEFAULT_IT;\n}\n"
    )
    found = [(name, first, last) for _, name, _, first, last in chunks(source, "c")]
    assert found == [("a", 2, 2), ("b", 3, 5), ("c", 6, 6), ("d", 7, 11)]


def test_a_macro_call_with_a_string_in_the_first_column_hides_no_function() -> None:
    source = (
        '#include "a.h"\nDEFINE_FLAG(int, limit, 256 << 10,\n    "many");\nDEFINE_FLAG(bool, on, 1, "or not");\n'
        "namespace n {\nstatic int f(int a) {\n  return a;\n}\n}\nint X::g() { return 1; }\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "cpp")] == [
        ("n.f", 6, 8),
        ("X.g", 10, 10),
    ]


def test_lines_of_macros_between_prototypes_hide_none_of_them() -> None:
    source = (
        "int x;\nAVAILABLE_IN_2_32\ngpointer take   (gsize a) MALLOC SIZE(1);\nAVAILABLE_IN_ALL\nList *copy (int a,\n"
        "            ...) NULL_ENDED;\nAVAILABLE_IN_ALL\nvoid    put    (void);\n\nEND_DECLS\n"
    )
    found = [(name, first, last) for _, name, _, first, last in chunks(source, "c")]
    assert found == [("take", 2, 3), ("copy", 4, 6), ("put", 7, 8)]


def test_prototypes_are_no_old_style_parameters() -> None:
    source = (
        "\nBEGIN_IGNORE\nDEPRECATED_FOR(g)\ngpointer f(int a);\nint g(int a);\nint h(int);\n#define X(a) \\\n { a }\n"
        "int x(a, b)\n  int a;\n  int (*b)(int);\n{\n  return a;\n}\n"
        "static void PRINTF (1, 2)\nlog_it (const char *format,\n        ...)\n{\n}\n"
    )
    found = [(name, first, last) for _, name, _, first, last in chunks(source, "c")]
    assert found == [("f", 4, 4), ("g", 5, 5), ("h", 6, 6), ("x", 9, 14), ("log_it", 15, 19)]


_PIECES = [
    "class ",
    "API",
    " X ",
    "{",
    "\n",
    "\r\n",
    "int ",
    "f",
    "(",
    ")",
    "OF((",
    "))",
    ";",
    "é",
    "/*",
    "*/",
    "\\\n",
    "a::a(",
]
_PIECES += [
    "GUARDED_BY",
    "= default",
    "#define ",
    "#if ",
    "#else\n",
    "#endif\n",
    "'",
    '"',
    "}",
    "API(1)",
    "\nEXPORTED\nint f(",
    "\nAPI",
]


@example(["\nAPI", "\nEXPORTED\nint f("])
@given(st.lists(st.sampled_from(_PIECES), max_size=30))
def test_what_the_parser_is_given_of_c_keeps_every_offset_and_line(pieces: list[str]) -> None:
    source = "".join(pieces).encode()
    root = parsed_root(source, "c")
    for rules in (C, CPP):
        assert rules.plain is not None
        assert rules.masked is not None
        for given_to_it in (rules.plain(source), *rules.masked(source, root)):
            left = given_to_it.replace(b"inline", b" " * 6)
            assert all(new in (old, ord(" ")) for new, old in zip(left, source, strict=True))
            assert given_to_it.count(b"\n") == source.count(b"\n")


def test_a_short_macro_above_a_long_one_moves_no_line() -> None:
    source = "int x;\nAPI\nEXPORTED_ALL\ngpointer take   (gsize a) MALLOC SIZE(1);\nint g(int a)\n{\n  return a;\n}\n"
    assert ("function", "g", "", 5, 8) in chunks(source, "c")


@pytest.mark.parametrize(
    "parameter", ["int *a;\n int n;\n int cmp();", "char *a;\n int n, cmp();", "int *a, n;\n int (*cmp)();"]
)
def test_a_parameter_of_an_old_style_function_is_no_function(parameter: str) -> None:
    source = f"int sort(a, n, cmp)\n {parameter}\n{{\n  return cmp(a, n);\n}}\n"
    assert [(name, first) for _, name, _, first, _ in chunks(source, "c")] == [("sort", 1)]


def test_a_function_swallowed_by_a_broken_one_is_found() -> None:
    source = "int a(void) {\n#if X\n  if (1) {\n#else\n  if (2) {\n#endif\n  }\n}\n\nint b(void) {\n  return 1;\n}\n"
    assert ("function", "b", "", 10, 12) in chunks(source, "c")


def test_names_of_cpp_operators_and_conversions() -> None:
    source = (
        "struct S {\n  operator bool() const { return true; }\n  bool operator==(S o) const;\n  void operator()(int);\n"
        "  int operator () () const;\n"
        '  virtual ~S() = default;\n  S();\n};\nlong operator""_km(unsigned long long v) { return v; }\n'
        "inline S::operator bool() const { return true; }\n"
        'long operator"" _m(unsigned long long v);\n'
    )
    assert [(kind, name) for kind, name, *_ in chunks(source, "cpp")] == [
        ("conversion_operator", "S.operator bool"),
        ("method", "S.operator=="),
        ("method", "S.operator()"),
        ("method", "S.operator()"),
        ("destructor", "S.~S"),
        ("constructor", "S.S"),
        ("function", 'operator""_km'),
        ("conversion_operator", "S.operator bool"),
        ("function", 'operator""_m'),
    ]


# JavaScript: what is assigned.


def test_prototypes_and_globals_are_assigned_at_any_depth_and_locals_are_not() -> None:
    source = (
        "function wrap() {\n  function T() {}\n  T.prototype.a = function () {};\n  window.b = () => {};\n"
        "  const local = {};\n  local.c = function () {};\n  return { d: () => 1, e() { return { f() {} }; } };\n}\n"
    )
    found = [(name, container) for kind, name, container, *_ in chunks(source, "javascript") if kind in QUARRY]
    assert found == [("wrap", ""), ("T.a", "T"), ("b", ""), ("d", ""), ("e", ""), ("f", "")]


def test_a_call_signature_after_a_member_without_a_semicolon_breaks_no_file() -> None:
    source = (
        "interface I {\n  a: B\n  <T>(x: T): C\n  m(): D // why\n  /** <U> */\n  <U>(\n    x: U): E\n  n(): F\n}\n"
        "const o: {\n  <T>(x: T): void\n  <T, U>(x: U): T\n} = f(\n  1,\n  // two\n  <T>(x: T) => x,\n  g =>\n"
        "    <T>(x: T) => x)\nfunction after() {}\n"
    )
    assert chunks(source, "typescript") == [
        ("method", "I.m", "I", 4, 4),
        ("method", "I.n", "I", 8, 8),
        ("function", "after", "", 19, 19),
    ]
    assert chunk_blob(source.encode(), "typescript").error_count == 0


def test_an_assertion_of_a_type_with_dots_hides_no_function() -> None:
    source = (
        "const all = ((\n  a: I<S.A> | R<string, S.A>,\n  b?: S.O\n): S.S<any, any> => {\n  if (x in a) {\n"
        "    return f(a, b as any)\n  }\n}) as S.A.Signature\n"
    )
    assert chunks(source, "typescript") == [("function", "all", "", 1, 8)]


@pytest.mark.parametrize(
    "line",
    [
        "type T = import('./a').B<C>['d']",
        "interface V<in A, out B = never, in out C extends D = D> { x: A }",
        "interface V<\n/** @ts-ignore */\nout A,\n  in B> {}",
        "type M = `not \\`this\\`, that`",
    ],
)
def test_what_the_grammar_does_not_know_of_types_breaks_no_file(line: str) -> None:
    source = f"{line}\nclass K {{\n  m(): import('x').Y<Z> {{ return [1, out instanceof K] }}\n}}\n"
    rows = 3 + line.count("\n")
    assert chunks(source, "typescript") == [("method", "K.m", "K", rows, rows)]
    assert chunk_blob(source.encode(), "typescript").error_count == 0


@pytest.mark.parametrize(
    "source",
    [
        "const o = {\n  a,\n  return (b) => {\n    c()\n  }\n}\n",
        "const o = {\n  switch (a.b) {\n    case 'c': d()\n  }\n}\n",
    ],
)
def test_statements_in_a_broken_object_are_no_methods(source: str) -> None:
    assert chunks(source, "typescript") == []


def test_methods_may_be_named_as_statements() -> None:
    source = "class K {\n  return(v) { return v }\n  delete() {}\n  if(a) {}\n  broken(\n}\n"
    assert {name for _, name, _, _, _ in chunks(source, "javascript")} >= {"K.return", "K.delete", "K.if"}


def test_an_unnamed_default_export_is_only_in_the_superset() -> None:
    assert [kind for kind, *_ in chunks("module.exports = function () {}\n", "javascript")] == ["default_export"]
    assert [kind for kind, *_ in chunks("export default () => 1;\n", "javascript")] == ["default_export"]


# Java and Scala: inside bodies.


def test_java_classes_in_bodies_whatever_their_arguments() -> None:
    source = (
        "class C {\n  Object f = new A(\"a;b{\", ';', () -> { g(); }) { void one() {} };\n"
        "  void m() {\n    x(new A(new B() { void two() {} }) { void three() {} });\n"
        "    record R(int a) { void four() {} }\n    new int[] { 1 };\n  }\n"
        "  enum E { X(new A() { void five() {} }) { void six() {} } }\n}\n"
    )
    names = [name.rpartition(".")[2] for _, name, *_ in chunks(source, "java")]
    assert names == ["one", "m", "two", "three", "four", "five", "six"]


_JAVA_VALUES = [
    "1",
    "a",
    '"x){"',
    '"\\\\"',
    '"\\""',
    "'('",
    "'\\''",
    "() -> { g(); }",
    "new int[] {1}",
    "')'",
    "/* { */ b",
    "b\n",
]
_JAVA_AROUND = st.sampled_from(["f(%)", "((%))", "new B(%)", "new B<>(%)", "c.d(%, %)", "x -> { h(%); }", "% + %"])
_NESTED = st.builds(
    lambda arounds, value: functools.reduce(lambda inner, around: around.replace("%", inner), arounds, value),
    st.lists(_JAVA_AROUND, max_size=4),
    st.sampled_from(_JAVA_VALUES),
)
_JAVA_TYPES = [
    "A",
    "a.b.A",
    "A<B>",
    "A<>",
    "A<B<C>, D[]>",
    "@X A",
    "@X(1) A",
    "É",
    "A$1",
    " \n A",
    "/* c */ A",
    "a. @X A",
    "A\n    .B",
    "a. A .B<C>",
]
_BETWEEN = ["", " ", "\n  ", "/* c */", " // c {\n"]


@given(st.lists(st.tuples(st.sampled_from(_JAVA_TYPES), st.lists(_NESTED, max_size=3), st.sampled_from(_BETWEEN))))
@example([("A", ["a"] * 200, "")])
@example([("A", ["'\\''", "')'"], "")])
@example([("A", ["'\\''", "')' + 1"], "")])
@example([("A", ['"' + "a" * 200 + '"'], " ")])
@example([("A" * 200, [], "\n" * 200)])
@example([("A<" + "B, " * 100 + "C>", [], "")])
def test_java_anonymous_classes_however_they_are_made(made: list[tuple[str, list[str], str]]) -> None:
    values = [
        f"new {kind}{before}({', '.join(arguments)}){before}{{ void f{number}() {{}} }}"
        for number, (kind, arguments, before) in enumerate(made)
    ]
    source = "class C {\n  void m() {\n" + "".join(f"    x = {value};\n" for value in values) + "  }\n}\n"
    assume(not parsed_root(source.encode(), "java").has_error)
    names = [name.rpartition(".")[2] for _, name, *_ in chunks(source, "java")]
    assert names == ["m", *(f"f{number}" for number in range(len(made)))]


@pytest.mark.parametrize(
    "local",
    ["class L {%s}", "final class L extends A<B> {%s}", "class L<T>\n{%s}", "class L// c\n{%s}", "class É {%s}"]
    + ["record L(int a) {%s}", "record L\n <T>(T a) {%s}", "interface L extends A {%s}", "enum L {A;%s}"]
    + ["enum L implements I {A;%s}", "class $ implements I {%s}", "@interface L {}; class M permits L {%s}"],
)
def test_java_local_types_whatever_follows_their_name(local: str) -> None:
    source = f"class C {{\n  void m() {{\n    {local % ' void f() {} '}\n  }}\n}}\n"
    assert [name.rpartition(".")[2] for _, name, *_ in chunks(source, "java")] == ["m", "f"]


def test_scala_members_of_an_anonymous_class_are_chunks_and_local_defs_are_not() -> None:
    source = "object O {\n  def f = {\n    def local = 1\n    new T {\n      def g = 2\n    }\n  }\n}\n"
    assert [(name, start, end) for _, name, _, start, end in chunks(source, "scala")] == [("O.f", 2, 7), ("O.g", 5, 5)]


def scala(source: str) -> list[tuple[str, int, int]]:
    return [(name, start, end) for _, name, _, start, end in chunks(source, "scala")]


@pytest.mark.parametrize(
    "head", ["class C", "trait C[A]\n  extends X[A]\n  with Y", "object C", "case class C(x: Int)"]
)
def test_scala_types_whose_brace_is_on_the_next_line(head: str) -> None:
    first = head.count("\n") + 3
    source = f"{head}\n{{\n  def f() = 1\n  def g: Int\n}}\nclass D {{ def h = 2 }}\n"
    assert scala(source) == [("C.f", first, first), ("C.g", first + 1, first + 1), ("D.h", first + 3, first + 3)]


@pytest.mark.parametrize("own", ["self =>", "self: X with Y =>", "this: X =>", "_ : X =>"])
def test_scala_types_that_name_themselves(own: str) -> None:
    members = "def f: Int\n\n  /** Two. */\n  def g = {\n    2\n  }\n}\n"
    assert scala(f"trait T {{\n  {own}\n\n  {members}") == [("T.f", 4, 4), ("T.g", 7, 9)]
    assert scala(f"trait T\n{{ {own}\n  {members}") == [("T.f", 3, 3), ("T.g", 6, 8)]
    assert scala(f"trait T {{ {own}\n  {members}") == [("T.f", 2, 2), ("T.g", 5, 7)]


def test_scala_procedures_whose_brace_is_on_the_next_line() -> None:
    source = (
        "class C\n{\n  def f(x: Int)\n  {\n    g(x)\n  }\n  def this(x: Int)\n  { this() }\n"
        "  def abstracted: Unit\n  { println() }\n  def apart()\n\n  { println() }\n}\n"
    )
    assert scala(source) == [("C.f", 3, 6), ("C.C", 7, 8), ("C.abstracted", 9, 9), ("C.apart", 11, 11)]


@pytest.mark.parametrize(
    "parents",
    ["X", "X(1)", "X with R", "X\n    with R", "X[A](1) with R[B]", "\n  X", "{ val early = 1 } with X"]
    + ["{ val early = 1 }\n    with p.X(1, 2)\n    with R"],
)
def test_scala_anonymous_classes_whatever_their_parents(parents: str) -> None:
    line = parents.count("\n") + 3
    source = f"object O {{\n  val x = new {parents} {{\n    def f = {{ def local = 1; local }}\n  }}\n  def g = 1\n}}\n"
    assert scala(source) == [("O.f", line, line), ("O.g", line + 2, line + 2)]


@pytest.mark.parametrize(
    "member",
    ["if (a) { val b = %s } else c", "a match { case 1 => %s }", "a = %s", "a += %s", "for (a <- b) { %s }", "f(a, %s)"]
    + ["while (a) { %s }", "do { %s } while (a)", "try { %s } catch { case _ => }", "throw %s", "(%s)", "{ %s }", "%s"]
    + ["a.b = c => %s", "(%s).foo", "f { %s }", "lazy val (a, b) = %s", "var a: A = (%s, 1)", 's"${%s}"', "(%s: A)"]
    + ["class B extends A(%s)", "class B(a: A = %s)", "object B { f(%s) }"],
)
def test_scala_anonymous_classes_wherever_a_template_has_them(member: str) -> None:
    source = f"class C {{\n  {member % 'new I { def f = 1 }'}\n  def g = 2\n}}\n"
    assert [(name.rpartition(".")[2], start, end) for name, start, end in scala(source)] == [("f", 2, 2), ("g", 3, 3)]


def test_scala_anonymous_classes_among_parameters_and_what_is_no_class() -> None:
    source = (
        "class C {\n  def f(x: I = new I { def g = 1 }) = 1\n  type T = { def no: Int }\n  val v: { def no: Int } = w\n"
        "  val z = { class Local { def no = 1 }; def no = 2 }\n}\n"
    )
    assert scala(source) == [("C.f", 2, 2), ("C.g", 2, 2)]


def test_scala_names_that_are_keywords_in_scala_3() -> None:
    source = (
        "class C {\n  def inline(given: Int) = given\n  def f(enum: E) = {\n    val given = enum.next\n"
        "    enum.read(inline(1))\n  }\n  def g = inline { 2 }\n}\n"
    )
    assert scala(source) == [("C.inline", 2, 2), ("C.f", 3, 6), ("C.g", 7, 7)]
    assert scala("enum E {\n  case A, B\n  inline def f(x: Int) = ???\n}\ngiven o: Ord[Int] with\n  def g = 1\n") == [
        ("E.f", 3, 3),
        ("o.g", 6, 6),
    ]


@given(st.text(alphabet="enumgivenline =.(:)[`\n", max_size=60))
def test_scala_masks_keep_every_offset(source: str) -> None:
    root = parsed_root(source.encode(), "scala")
    assert all(masked.lower() == source.encode() for masked in mask_names(source.encode(), root))


def test_scala_names_keep_their_backquotes_as_the_labels_do() -> None:
    source = "class `A b` {\n  def `type` = 1\n  def `this` = 2\n  def this(x: Int) = this()\n}\n"
    assert scala(source) == [("`A b`.`type`", 2, 2), ("`A b`.`this`", 3, 3), ("`A b`.`A b`", 4, 4)]


def test_scala_an_indented_body_ends_where_the_next_member_begins() -> None:
    # The labels have these ends, too: the grammar's body ends with the line break before the next word.
    source = "class C {\n  def f =\n    1\n\n  // About g.\n  def g =\n    2\n}\n"
    assert scala(source) == [("C.f", 2, 6), ("C.g", 6, 8)]


def test_cpp_a_macro_before_a_type_of_templates_three_deep_hides_no_function() -> None:
    source = (
        "class C {\n HOT static std::pair<int, std::vector<std::pair<int, int>>> f(int a) {\n  return h(a);\n }\n};\n"
    )
    assert [(name, first, last) for _, name, _, first, last in chunks(source, "cpp")] == [("C.f", 2, 4)]


def test_a_source_is_not_kept_after_its_parse() -> None:
    # The binding keeps what it was given to read: a worker grew by most of what it had parsed.
    source = b"class A { void a() { int x = 1; } }\n" * 1000
    known = sys.getrefcount(source)
    for _ in range(10):
        trees.parse(source, "java", trees.Deadline())
    assert sys.getrefcount(source) == known
