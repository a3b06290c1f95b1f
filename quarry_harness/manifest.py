"""Release manifests: what one says of name, version, checksums and row counts.

The shape of the manifest that a Quarry release carries is not known to us, so several plausible ones are understood:
files as a mapping or as a list of objects, named by path, file, name or config; checksums under sha256, checksum,
digest or hash, bare or as "sha256:..."; row counts beside them or in a mapping of their own; any of it nested under
other keys. What stands at an unexpected place is passed over; what stands at an expected place and makes no sense is
noted, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from quarry_harness.errors import InvalidInputError
from quarry_harness.rows import FORMATS, Fault, kind_of, parse_json

MANIFEST_NAME = "RELEASE_MANIFEST.json"
KINDS = ("tasks", "queries", "gold-preimage", "gold-postimage")

_MAX_BYTES = 16 * 2**20
_PATH_KEYS = ("path", "file", "filename", "file_name", "name", "config", "config_name")
_DIGEST_KEYS = ("sha256", "sha-256", "sha_256", "sha256sum", "checksum", "checksums", "digest", "hash", "value")
_ROWS_KEYS = (
    *("rows", "row_count", "row_counts", "num_rows", "n_rows", "count", "counts"),
    *("records", "record_count", "num_records", "num_examples"),
)
_VERSION_KEYS = ("release_version", "dataset_version", "version", "release", "tag")
_NAME_KEYS = ("name", "release_name", "dataset", "dataset_name", "dataset_id", "repo_id", "id")
_SHA256 = re.compile(r"(?:sha-?256[:=])?([0-9a-f]{64})", re.IGNORECASE)
_VERSION = re.compile(r"v?\d+(\.\d+)*[\w.+-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pin:
    """What a manifest says of one file: sha256 in lower-case hex, "" where unknown; rows None where unknown."""

    sha256: str = ""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was understood of a manifest."""

    names: tuple[str, ...] = ()  # every name it gives the release: "Quarry", "BrokkAI/Quarry"
    version: str = ""
    revision: str = ""  # commit of the dataset
    files: Mapping[str, Pin] = field(default_factory=dict)  # canonical file name, see `canonical_name` -> what it says
    notes: tuple[str, ...] = ()  # what stands there and makes no sense


def canonical_name(name: str) -> str:
    """Returns the one spelling of a release file's name, without folders: "data/gold_preimage.jsonl.gz" gives
    "gold-preimage.jsonl.gz", "gold_preimage" gives "gold-preimage", anything that is no release file gives "".
    """
    base = PurePosixPath(name.replace("\\", "/")).name
    suffix = next((suffix for suffix in sorted(FORMATS, key=len, reverse=True) if base.endswith(suffix)), "")
    stem = base.removesuffix(suffix).replace("_", "-").lower()
    return stem + suffix if stem in KINDS else ""


def read_manifest(path: Path) -> Manifest:
    """Reads a manifest. Raises InvalidInputError where it is not a JSON object or cannot be read."""
    fix = "Download the release again."
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}.", fix) from error
    if len(text) > _MAX_BYTES:
        raise InvalidInputError(f"{path}: {len(text)} bytes are too many for a manifest.", fix)
    try:
        document = parse_json(text.removeprefix(b"\xef\xbb\xbf"))
    except Fault as fault:
        raise InvalidInputError(f"{path}: {fault.fact}.", fault.fix or fix) from fault
    if not isinstance(document, dict):
        raise InvalidInputError(f"{path}: it holds {kind_of(document)}, not an object.", fix)
    files, notes = _pins(document)
    notes += tuple(f"a checksum of {_shown(name)}, which is no file of a release" for name in _strangers(document))
    revision = document.get("revision")
    return Manifest(_names(document), _version(document), revision if isinstance(revision, str) else "", files, notes)


def pin_of(manifest: Manifest, name: str) -> tuple[Pin, str]:
    """Returns what a manifest says of a file, and "" or the reason why its checksum says nothing about this file.

    A row count holds in any format. A checksum holds for the format it was made of: that of queries.jsonl says nothing
    about the bytes of queries.parquet. What stands under a bare name ("queries") is taken as of the file that is there.
    """
    wanted = canonical_name(name)
    kind = wanted.partition(".")[0]
    mine = [manifest.files[key] for key in (wanted, kind) if key in manifest.files]
    others = {key: pin for key, pin in manifest.files.items() if key.partition(".")[0] == kind}
    rows = next((pin.rows for pin in (*mine, *others.values()) if pin.rows is not None), None)
    digest = next((pin.sha256 for pin in mine if pin.sha256), "")
    other = "" if digest else next((key for key, pin in others.items() if pin.sha256), "")
    return Pin(digest, rows), f"its checksum is of {other}, and the file here is {wanted}" if other else ""


def _pins(document: dict[str, Any]) -> tuple[dict[str, Pin], tuple[str, ...]]:
    digests: dict[str, list[str]] = {}
    counts: dict[str, list[int]] = {}
    notes: list[str] = []
    for name, what, value in _statements(document, ""):
        if what == "sha256":
            match = _SHA256.fullmatch(value.strip()) if isinstance(value, str) else None
            if match is None:
                notes.append(f"the checksum of {name} is not a SHA-256: {_shown(value)}")
            else:
                digests.setdefault(name, []).append(match[1].lower())
        elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
            notes.append(f"the row count of {name} is not a count: {_shown(value)}")
        else:
            counts.setdefault(name, []).append(value)
    files = {}
    for name in dict.fromkeys([*digests, *counts]):
        known, numbers = set(digests.get(name, ())), set(counts.get(name, ()))
        notes += [f"{name} has {len(known)} different checksums"] * (len(known) > 1)
        notes += [f"{name} has {len(numbers)} different row counts"] * (len(numbers) > 1)
        files[name] = Pin(known.pop() if len(known) == 1 else "", numbers.pop() if len(numbers) == 1 else None)
    return files, tuple(dict.fromkeys(notes))


def _statements(node: Any, key: str) -> Iterator[tuple[str, str, Any]]:
    """Yields (file, "sha256" | "rows", value) for all that a part of a manifest says; `key` is what it stands under."""
    if isinstance(node, list):
        for item in node:
            yield from _statements(item, key)
    if not isinstance(node, dict):
        return
    spelled = (node.get(path_key) for path_key in _PATH_KEYS)
    named = next((name for text in spelled if isinstance(text, str) and (name := canonical_name(text))), "")
    if named:
        yield from _facts(named, node)
    for child_key, child in node.items():
        name = canonical_name(child_key)
        yield from _of_file(name, child, key) if name else _statements(child, child_key)


def _strangers(node: Any) -> Iterator[str]:
    """Yields what a manifest gives a checksum of and is not one of a release's files."""
    if isinstance(node, list):
        for item in node:
            yield from _strangers(item)
    if not isinstance(node, dict):
        return
    paths = [text for key in _PATH_KEYS if isinstance(text := node.get(key), str)]
    if paths and any(key.lower() in _DIGEST_KEYS for key in node) and not any(map(canonical_name, paths)):
        yield paths[0]
    for key, child in node.items():
        has_digest = isinstance(child, dict) and any(inner.lower() in _DIGEST_KEYS for inner in child)
        is_digest = isinstance(child, str) and _SHA256.fullmatch(child.strip()) is not None
        if "." in key and not canonical_name(key) and (has_digest or is_digest):
            yield key
        else:
            yield from _strangers(child)


def _of_file(name: str, node: Any, key: str) -> Iterator[tuple[str, str, Any]]:
    """The same for what stands under a file's name; `key` is what the name itself stands under."""
    if isinstance(node, dict):
        # {"queries": {"path": "data/queries.jsonl", ...}}: the path says more than the key.
        inside = list(_statements(node, name))
        yield from inside or _facts(name, node)
    elif isinstance(node, str) and (key.lower() in _DIGEST_KEYS or _SHA256.fullmatch(node.strip())):
        yield name, "sha256", node
    elif isinstance(node, int) and key.lower() in _ROWS_KEYS:
        yield name, "rows", node


def _facts(name: str, node: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, value in node.items():
        if value is None:
            continue  # stated as unknown
        if key.lower() in _DIGEST_KEYS:
            if isinstance(value, dict):
                yield from _facts(name, value)
            else:
                yield name, "sha256", value
        elif key.lower() in _ROWS_KEYS:
            yield name, "rows", value


def _names(document: dict[str, Any]) -> tuple[str, ...]:
    texts = [document.get(key) for key in _NAME_KEYS]
    for part in ("release", "dataset"):
        if isinstance(inner := document.get(part), dict):
            texts += [inner.get(key) for key in _NAME_KEYS]
    return tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text))


def _version(document: dict[str, Any]) -> str:
    parts = [document, *(inner for key in ("release", "dataset") if isinstance(inner := document.get(key), dict))]
    for key in _VERSION_KEYS:
        for part in parts:
            value = part.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return str(value)
            if isinstance(value, str) and _VERSION.fullmatch(value.strip()):
                return value.strip()
    return ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
