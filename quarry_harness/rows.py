"""Rows of JSONL, gzipped JSONL and Parquet files, each with the place it stands at.

JSON is taken strictly where a lenient value would fail later and elsewhere: no NaN or Infinity, no half of a surrogate
pair, no nesting beyond MAX_DEPTH. A byte order mark at the start and blank lines are passed over; line numbers count
them.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

FORMATS = (".jsonl", ".jsonl.gz", ".parquet")

MAX_DEPTH = 100
MAX_LINE_BYTES = 64 * 2**20

_BOM = b"\xef\xbb\xbf"
_LFS_POINTER = b"version https://git-lfs"
_DOWNLOAD_AGAIN = "Download the file again."
# The first bytes of a file tell its format better than its name does.
_MAGIC = {b"\x1f\x8b": ".jsonl.gz", b"PAR1": ".parquet"}
_SURROGATE = re.compile(rb"\\u[dD][89abcdefABCDEF]")


class Fault(Exception):
    """What is wrong with a value or a row, and what to do about it ("" where the place's reader knows better)."""

    def __init__(self, fact: str, fix: str = "") -> None:
        super().__init__(fact)
        self.fact = fact
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Row:
    """A row at its place, for example "data/queries.jsonl:17": an object, or the fault for which there is none."""

    place: str
    value: Mapping[str, Any] | Fault
    is_last: bool = False  # reading cannot go on behind this fault, so that nobody knows how many rows there are


def read_rows(path: Path, name: str) -> Iterator[Row]:
    """Yields the rows of a file in order; `name` is what the places call the file.

    A row that is not a JSON object is yielded as a Fault and reading goes on; a file that cannot be read on ends with
    a Fault whose row `is_last`. Nothing is raised for what a file holds.
    """
    try:
        with path.open("rb") as stream:
            fault = _wrong_kind(stream.read(64), path)
    except OSError as error:
        fault = Fault(f"cannot be read: {error.strerror or error}", "Check the file and its permissions.")
    if fault is not None:
        yield Row(name, fault, is_last=True)
    elif path.name.endswith(".parquet"):
        yield from _parquet_rows(path, name)
    else:
        yield from _json_rows(path, name)


def parse_json(text: bytes) -> Any:
    """Returns the value of a JSON text in UTF-8. Raises Fault where it is not JSON, or is JSON nothing could keep."""
    try:
        value = json.loads(
            text.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique_keys
        )
    except UnicodeDecodeError as error:
        raise Fault(f"is not UTF-8 (byte {error.start + 1}: {text[error.start]:#04x})") from error
    except RecursionError as error:
        raise Fault(f"is nested more than {MAX_DEPTH} levels deep") from error
    except json.JSONDecodeError as error:
        raise Fault(f"is not JSON ({error.msg}, column {error.colno})") from error
    except ValueError as error:  # Python's own limit for the digits of a whole number
        raise Fault(f"holds a number that cannot be read ({error})") from error
    # Both searches are cheap and find nothing in an ordinary row.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_deep(value):
        raise Fault(f"is nested more than {MAX_DEPTH} levels deep")
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise Fault("holds half of a surrogate pair (\\ud800 to \\udfff), which is no character") from error
    return value


def _wrong_kind(head: bytes, path: Path) -> Fault | None:
    if not head:
        return Fault("the file is empty", _DOWNLOAD_AGAIN)
    if head.startswith(_LFS_POINTER):
        return Fault("this is a Git LFS pointer, not the file itself", "Get the file with: git lfs pull")
    holds = next((suffix for magic, suffix in _MAGIC.items() if head.startswith(magic)), ".jsonl")
    claims = next(suffix for suffix in (".jsonl.gz", ".parquet", ".jsonl") if path.name.endswith(suffix))
    if holds == claims:
        return None
    if holds == ".jsonl":
        return Fault(f"this is not a {claims} file: it starts with {head[:12]!r}", _DOWNLOAD_AGAIN)
    return Fault(f"this is a {holds} file under another name", f"Rename it to end in {holds}")


def _json_rows(path: Path, name: str) -> Iterator[Row]:
    number = 0
    try:
        with _open(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(_BOM)
                if len(line) > MAX_LINE_BYTES:
                    too_long = Fault(f"the line is longer than {MAX_LINE_BYTES} bytes")
                    yield Row(f"{name}:{number}", too_long, is_last=True)
                    return
                if line.strip():
                    yield Row(f"{name}:{number}", _json_object(line))
    except EOFError:
        yield Row(f"{name}:{number + 1}", Fault("the gzip file is cut off here", _DOWNLOAD_AGAIN), is_last=True)
    except (zlib.error, OSError) as error:  # gzip.BadGzipFile is an OSError
        yield Row(f"{name}:{number + 1}", Fault(f"cannot be read on: {error}", _DOWNLOAD_AGAIN), is_last=True)


def _open(path: Path) -> gzip.GzipFile | IO[bytes]:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _json_object(line: bytes) -> Mapping[str, Any] | Fault:
    try:
        value = parse_json(line)
    except Fault as fault:
        broken = isinstance(fault.__cause__, json.JSONDecodeError | UnicodeDecodeError)
        if broken and not line.endswith(b"\n"):
            return Fault(f"the last line is cut off: it {fault.fact}", _DOWNLOAD_AGAIN)
        return Fault(f"the line {fault.fact}")
    if isinstance(value, dict):
        return value
    return Fault(f"the line holds {kind_of(value)}, not an object")


def _parquet_rows(path: Path, name: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # An open file: pyarrow would read a name such as "a:b" as an address.
        with path.open("rb") as stream, closing(pq.ParquetFile(stream)) as file:
            for batch in file.iter_batches(batch_size=1024):
                for value in batch.to_pylist():
                    number += 1
                    yield Row(f"{name}: row {number}", _parquet_object(value))
    # What pyarrow raises for a broken file depends on where it is broken; ArrowInvalid and bad UTF-8 are ValueErrors.
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        fact = f"this Parquet file cannot be read after row {number}: {' '.join(str(error).split())[:200]}"
        yield Row(name, Fault(fact, _DOWNLOAD_AGAIN), is_last=True)


def _parquet_object(value: dict[str, Any]) -> Mapping[str, Any] | Fault:
    plain = {key: _plain(item) for key, item in value.items()}
    return Fault(f"is nested more than {MAX_DEPTH} levels deep") if _is_deep(plain) else plain


def _plain(value: Any) -> Any:
    """Returns a Parquet value as JSON would hold it; NaN, by which pandas writes a missing value, becomes None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta | decimal.Decimal):
        return str(value)
    return value


def kind_of(value: Any) -> str:
    """Returns what JSON calls the kind of a value, with its article: "a string", "null", "an object"."""
    kinds: dict[type, str] = {
        type(None): "null",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise Fault(f"states the field {next(n for n in names if names.count(n) > 1)!r} twice")
    return value


def _no_constant(word: str) -> float:
    raise Fault(f"holds {word}, which is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Fault(f"holds the number {digits[:40]}, which is too large")
    return number


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for container in level
            if isinstance(container, dict | list)
            for item in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return True
