"""How each language's own parser is started: a small program here, in that language or with its library.

A program reads file names from standard input, one a line, and prints JSON lines: for each file
`{path, parsed: true}` or `{path, failed: REASON}`, and for each function that the profile "quarry" includes
`{path, name, start_line, end_line, body}`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from oracles.packages import OracleError, Package, unpacked

HERE = Path(__file__).resolve().parent
TIME_LIMIT_S = 900


class Function(NamedTuple):
    """One function as a language's own parser sees it."""

    path: str
    name: str
    start_line: int
    end_line: int
    body: bool
    note: str = ""  # why the function is none in the text: "macro"


@dataclass(slots=True)
class Seen:
    """What one program said of one package's files."""

    parsed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)
    hidden: list[tuple[str, int, int]] = field(default_factory=list)  # lines behind an #if that is off


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The pinned tools and where things are kept."""

    tools: tuple[Package, ...]
    cache: Path

    def folder(self, name: str) -> Path:
        for tool in self.tools:
            if tool.name == name:
                return unpacked(tool, self.cache)
        raise OracleError(f"manifests/oracle.toml has no tool {name}")

    def built(self, name: str, *sources: Path) -> Path:
        """A folder for what is built of these sources; another one when they change."""
        digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
        folder = self.cache / "built" / f"{name}-{digest[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def run(package: Package, home: Path, files: Iterable[Path], toolbox: Toolbox) -> Seen:
    """What the language's own parser sees in these files of a package, which is unpacked at `home`.

    Raises OracleError where the parser is not to be had on this machine, or fails.
    """
    command = _COMMANDS[package.language](toolbox, package, home)
    listing = "".join(f"{path}\n" for path in files)
    return read(_output(command, listing))


def read(output: str) -> Seen:
    seen = Seen()
    for line in output.splitlines():
        row = json.loads(line)
        path = row.pop("path")
        if "failed" in row:
            seen.failed[path] = row["failed"]
        elif "parsed" in row:
            seen.parsed.append(path)
        elif "hidden" in row:
            seen.hidden.append((path, *row["hidden"]))
        else:
            seen.functions.append(Function(path, **row))
    return seen


def _output(command: list[str | Path], text: str = "", folder: Path | None = None) -> str:
    needed = str(command[0])
    if shutil.which(needed) is None:
        raise OracleError(f"{needed} is not installed")
    try:
        done = subprocess.run(
            command, input=text, cwd=folder, capture_output=True, encoding="utf-8", timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise OracleError(f"{needed} took more than {TIME_LIMIT_S} seconds") from error
    if done.returncode:
        raise OracleError(f"{needed} failed: {done.stderr.strip()[-800:]}")
    return done.stdout


def _python(_toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    return [sys.executable, HERE / "python_ast.py"]


def _typescript(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    return ["node", HERE / "typescript_api.js", toolbox.folder("typescript") / "package"]


def _java(_toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    return ["java", HERE / "JavaTrees.java"]


def _go(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    source = HERE / "go_parser.go"
    program = toolbox.built("go", source) / "go_parser"
    if not program.exists():
        _output(["go", "build", "-o", program, source])
    return [program]


def _php(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    return ["php", HERE / "php_parser.php", toolbox.folder("php-parser") / "usr/share/php/PhpParser/autoload.php"]


def _scala(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    return ["node", "--stack-size=8000", HERE / "scalameta.js", toolbox.folder("scalameta-parsers") / "package"]


def _csharp(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    source = HERE / "mono_csharp.cs"
    folder = toolbox.built("csharp", source)
    if not (folder / "mono_csharp.exe").exists():
        library = next(toolbox.folder("libmono-csharp4.0c-cil").rglob("Mono.CSharp.dll"))
        shutil.copy(library, folder)
        options = ["-nologo", f"-out:{folder / 'mono_csharp.exe'}", f"-r:{folder / 'Mono.CSharp.dll'}"]
        _output(["mcs", *options, source])
    return ["mono", folder / "mono_csharp.exe"]


def _rust(toolbox: Toolbox, _package: Package, _home: Path) -> list[str | Path]:
    sources = (HERE / "rust_syn" / "Cargo.toml", HERE / "rust_syn" / "main.rs")
    folder = toolbox.built("rust", *sources)
    program = folder / "target" / "release" / "rust_syn"
    if not program.exists():
        (folder / "src").mkdir(exist_ok=True)
        shutil.copy(sources[0], folder / "Cargo.toml")
        shutil.copy(sources[1], folder / "src" / "main.rs")
        vendored = folder / "vendor"
        for name in ("syn", "proc-macro2", "quote", "unicode-ident"):
            registry = toolbox.folder(f"librust-{name}-dev") / "usr/share/cargo/registry"
            shutil.copytree(registry, vendored, dirs_exist_ok=True)
        (folder / ".cargo").mkdir(exist_ok=True)
        (folder / ".cargo" / "config.toml").write_text(
            '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n', "utf-8"
        )
        _output(["cargo", "build", "--release", "--offline", "--quiet"], folder=folder)
    return [program]


def _clang(toolbox: Toolbox, package: Package, home: Path) -> list[str | Path]:
    # The package's own headers, and gcc's: the wheel has the library alone.
    flags = [f"-I{home / folder}" for folder in package.include] + [f"-D{macro}" for macro in package.define]
    if shutil.which("gcc") is None:
        raise OracleError("gcc is not installed")
    listed = subprocess.run(
        ["gcc", f"-x{'c++' if package.language == 'cpp' else 'c'}", "-E", "-v", os.devnull],
        capture_output=True,
        text=True,
        check=False,
    ).stderr.splitlines()
    system = [line.strip() for line in listed if line.startswith(" /")]
    flags += [part for folder in system for part in ("-isystem", folder)]
    library = toolbox.folder("libclang") / "libclang-18.1.1.data" / "platlib"
    return [sys.executable, HERE / "clang_ast.py", library, package.language, *flags]


_COMMANDS: dict[str, Callable[[Toolbox, Package, Path], list[str | Path]]] = {
    "python": _python,
    "typescript": _typescript,
    "javascript": _typescript,
    "java": _java,
    "c": _clang,
    "cpp": _clang,
    "go": _go,
    "php": _php,
    "rust": _rust,
    "csharp": _csharp,
    "scala": _scala,
}
LANGUAGES = tuple(_COMMANDS)
