"""Our function chunks beside what the languages' own parsers see, as far as this machine has them.

The whole comparison, on pinned packages, is `scripts/oracle`; here are one file of hard cases a language, Python's
standard library, and the parts of the comparison itself. Nothing is fetched: a parser that is a package is used where
`scripts/oracle` has left it in its cache.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = Path(__file__).parent / "oracle"
sys.path.append(str(ROOT / "scripts"))

from oracles import explain, packages, programs  # noqa: E402
from oracles.compare import Tally, add, sources  # noqa: E402
from oracles.report import default_cache  # noqa: E402

from quarry_harness.chunking import parsed_root  # noqa: E402

MANIFEST = packages.read_manifest()
TOOLBOX = programs.Toolbox(MANIFEST.tools, default_cache())
# language -> sample, the commands it needs, the packages it needs, its functions with and without a body
PARSERS = {
    "python": ("sample.py", (), (), 9, 0),
    "typescript": ("sample.ts", ("node",), ("typescript",), 22, 5),
    "javascript": ("sample.js", ("node",), ("typescript",), 17, 0),
    "java": ("Sample.java", ("java", "javac"), (), 14, 3),
    "go": ("sample.go", ("go",), (), 5, 5),
    "php": ("sample.php", ("php",), ("php-parser",), 8, 2),
    "c": ("sample.c", ("gcc",), ("libclang",), 4, 4),
    "cpp": ("sample.cc", ("gcc",), ("libclang",), 10, 3),
    "rust": (
        "sample.rs",
        ("cargo",),
        ("librust-syn-dev", "librust-proc-macro2-dev", "librust-quote-dev", "librust-unicode-ident-dev"),
        7,
        3,
    ),
    "csharp": ("Sample.cs", ("mono", "mcs"), ("libmono-csharp4.0c-cil",), 8, 3),
}


def in_the_cache(name: str) -> bool:
    tool = next(one for one in MANIFEST.tools if one.name == name)
    return (TOOLBOX.cache / "trees" / f"{name}-{tool.sha256[:12]}").is_dir()


def seen_in(language: str, home: Path, files: list[Path], toolbox: programs.Toolbox = TOOLBOX) -> Tally:
    package = packages.Package(language, "pypi", "sample", "0", "0" * 64)
    tally = Tally(language)
    add(tally, programs.run(package, home, files, toolbox), "sample", home, ())
    return tally


@pytest.mark.parametrize("language", PARSERS)
def test_the_hard_cases_of_a_language_are_what_its_own_parser_sees(language: str, tmp_path: Path) -> None:
    sample, commands, tools, with_body, without = PARSERS[language]
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    for tool in tools:
        if not in_the_cache(tool):
            pytest.skip(f"scripts/oracle {language} has not fetched {tool} into {TOOLBOX.cache}")
    toolbox = replace(TOOLBOX, cache=TOOLBOX.cache if tools else tmp_path)
    tally = seen_in(language, SAMPLES, [SAMPLES / sample], toolbox)
    assert tally.failed == {}
    assert [str(one) for one in tally.found] == []
    assert (tally.theirs, tally.declarations) == (with_body, without)
    assert (tally.exact, tally.declarations_exact) == (with_body, without)


def test_the_standard_library_is_what_ast_sees() -> None:
    home = Path(sysconfig.get_path("stdlib"))
    files = [
        path for folder in ("asyncio", "email", "json", "unittest") for path in sorted((home / folder).glob("*.py"))
    ]
    tally = seen_in("python", home, files)
    assert len(files) > 50
    assert tally.theirs > 1000
    assert [str(one) for one in tally.unexplained] == []
    assert tally.exact + tally.count("other_range") == tally.theirs
    assert {one.reason for one in tally.found} <= {explain.COMMENTS}


def test_a_function_that_we_miss_or_make_up_is_a_difference(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("def ours():\n    pass\n\n\ndef both():\n    pass\n")
    theirs = [programs.Function(str(file), "both", 5, 6, True), programs.Function(str(file), "theirs", 1, 2, True)]
    tally = Tally("python")
    add(tally, programs.Seen([str(file)], {}, theirs, []), "p", tmp_path, ())
    assert [(one.kind, one.row.name, one.reason) for one in tally.found] == [
        ("only_theirs", "theirs", ""),
        ("only_ours", "ours", ""),
    ]
    known = packages.Difference("python", "only_ours", "known", "p/*", "ours")
    tally = Tally("python")
    add(tally, programs.Seen([str(file)], {}, theirs, []), "p", tmp_path, (known,))
    assert [one.row.name for one in tally.unexplained] == ["theirs"]


@pytest.mark.parametrize(
    ("language", "text", "theirs", "ours", "reason"),
    [
        ("python", "def f():\n    pass\n    # end\n", (1, 2), (1, 3), explain.COMMENTS),
        ("python", "def f():\n    pass\n    end\n", (1, 2), (1, 3), ""),
        ("scala", "def f =\n  1\n\n/* a\n b */\ndef g = 2\n", (1, 2), (1, 6), explain.NEXT_LINE),
        ("c", "API(1)\nint f(void) {}\n", (2, 2), (1, 2), explain.MACRO_LINE),
        ("c", "int g;\nint f(void) {}\n", (2, 2), (1, 2), ""),
        ("c", "int f OF((int a,\n  int b));\n", (1, 1), (1, 2), explain.MACRO_END),
        ("c", "int f(int a,\n  int b);\n", (1, 1), (1, 2), ""),
        ("cpp", "A::A()\n    = default;\n", (1, 1), (1, 2), explain.TAIL),
        ("cpp", "auto f()\n    -> decltype(a.b());\n", (1, 1), (1, 2), explain.TAIL),
        ("cpp", "A::A()\n{}\n", (1, 1), (1, 2), ""),
        ("cpp", "  COPY(A);\n", None, (1, 1), explain.MACRO_CALL),
        ("cpp", "  Copy(A);\n", None, (1, 1), ""),
        ("c", "int f(void) {}\nint g(void) ) { x }\n", (2, 2), None, explain.GRAMMAR),
        ("c", "int f(void) {}\nint g(void) ) { x }\n", (1, 1), None, ""),
    ],
)
def test_a_difference_is_explained_by_its_lines(
    language: str, text: str, theirs: tuple[int, int] | None, ours: tuple[int, int] | None, reason: str
) -> None:
    file = explain.File(language, tuple(text.split("\n")), parsed_root(text.encode(), language), ())
    assert explain.reason(file, theirs, ours) == reason


def test_every_package_is_pinned() -> None:
    for one in (*MANIFEST.tools, *MANIFEST.packages):
        assert one.registry in packages.REGISTRIES
        assert len(one.sha256) == 64
        assert one.language in programs.LANGUAGES
    assert {one.language for one in MANIFEST.packages} == set(programs.LANGUAGES)
    text = packages.MANIFEST.read_text("utf-8")
    assert "://" not in text, "a registry is a kind, never a host"


def cached(tmp_path: Path, name: str, data: bytes, sha256: str) -> packages.Package:
    archives = tmp_path / "archives"
    archives.mkdir()
    (archives / f"{sha256}-{name}").write_bytes(data)
    return packages.Package("python", "nowhere", "p", "1", sha256)


def test_an_archive_is_unpacked_inside_its_folder(tmp_path: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name in ("p/a.py", "../outside.py"):
            member = tarfile.TarInfo(name)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"a=1\n"))
        link = tarfile.TarInfo("p/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    digest = hashlib.sha256(held.getvalue()).hexdigest()
    package = cached(tmp_path, "p.tar.gz", held.getvalue(), digest)
    home = packages.unpacked(package, tmp_path)
    assert [path.relative_to(home).as_posix() for path in sources(package, home)] == ["p/a.py"]
    assert not list(tmp_path.rglob("outside.py"))
    assert not list(tmp_path.rglob("link.py"))


def test_what_a_cache_holds_is_verified(tmp_path: Path) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("p/a.py", "a = 1\n")
    package = cached(tmp_path, "p.whl", held.getvalue(), "0" * 64)
    with pytest.raises(KeyError):  # it is fetched anew, and this registry is none
        packages.unpacked(package, tmp_path)
    assert not list((tmp_path / "archives").glob("0*"))
