"""The eleven languages: which files are theirs, and which kinds of function make a corpus.

Each language is one description in a module beside this one; `rules.py` says what a description is made of.
A blob is parsed by *dialect*: TypeScript has two, because its two grammars disagree about `<any>z`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from quarry_harness.languages import c_family, csharp, ecmascript, go, java, php, python, rust, scala
from quarry_harness.languages.rules import Rules

_ALL = (
    c_family.C,
    c_family.CPP,
    csharp.RULES,
    ecmascript.JAVASCRIPT,
    ecmascript.TYPESCRIPT,
    go.RULES,
    java.RULES,
    php.RULES,
    python.RULES,
    rust.RULES,
    scala.RULES,
)

RULES_OF_DIALECT: Mapping[str, Rules] = {dialect: rules for rules in _ALL for dialect in rules.grammars}
LANGUAGE_OF_DIALECT: Mapping[str, str] = {dialect: rules.language for dialect, rules in RULES_OF_DIALECT.items()}
_DIALECT_OF_EXTENSION: Mapping[str, str] = {ext: dialect for rules in _ALL for ext, dialect in rules.extensions.items()}
_CPP_SOURCES = frozenset({"cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ixx", "cppm"})

# Which kinds of chunk a corpus holds; None is every kind. What a language's description finds and "quarry" leaves out
# is there for the labels of other data sets.
PROFILES: Mapping[str, frozenset[str] | None] = {
    "quarry": frozenset({"function", "method", "constructor", "primary_constructor", "destructor"}),
    "all": None,
}


def _extension(path: str) -> str:
    name = path.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return extension if dot and stem else ""


def dialect_of_path(path: str, cpp_headers: bool) -> str | None:
    """Returns the dialect a file is parsed in, by its extension alone; None when it is in none of the languages.

    `.h` is C++ where `cpp_headers` (see `reads_headers_as_cpp`), else C. `.C` is C++ and `.H` a C++ header, as
    compilers have it; other extensions count in any case.
    """
    return _dialect_of_extension(_extension(path), cpp_headers)


@lru_cache
def _dialect_of_extension(extension: str, cpp_headers: bool) -> str | None:
    if extension in ("C", "H"):
        return "cpp"
    extension = extension.lower()
    if extension == "h" and cpp_headers:
        return "cpp"
    return _DIALECT_OF_EXTENSION.get(extension)


def language_of_path(path: str, cpp_headers: bool) -> str | None:
    """Returns the language (a key of `types.LANGUAGES`) of a file by its extension alone, or None."""
    dialect = dialect_of_path(path, cpp_headers)
    return None if dialect is None else LANGUAGE_OF_DIALECT[dialect]


def reads_headers_as_cpp(paths: Iterable[str]) -> bool:
    """Returns whether a repository with these files has C++ sources, so that its `.h` files are read as C++."""
    extensions = set(map(_extension, paths))
    return "C" in extensions or not _CPP_SOURCES.isdisjoint(map(str.lower, extensions))
