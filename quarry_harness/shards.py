"""A shard of vectors on the disk: a file of rows, and an index of the batches that they came in.

The index has 16 bytes of header, then one frame a batch: how many rows, checksums, their keys and token counts.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, InvalidInputError

KEY = np.dtype("S32")
HEADER = struct.Struct("<8sII")  # magic, dimension, bytes of a number
MAGIC = b"quarryv1"
_FRAME = struct.Struct("<4sIII")  # magic, rows, crc32 of their vectors, crc32 of all else in the frame
_ROWS = b"rows"
# A frame without a body, which says that a batch is damaged: its shard and first row stand for rows and first checksum.
_DEAD = b"dead"
UNREADABLE = 0xFFFFFFFF  # as a first row: whatever is behind the place up to which a shard's index can be read
_TOKENS = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class Frame:
    """One batch: where its rows are in its shard, and whether its part of the index is whole."""

    shard: int
    start: int
    keys: NDArray[np.bytes_]
    tokens: NDArray[np.uint32]
    vectors_crc: int
    whole: bool


class Shard:
    """A pair of files. `frames` are its batches as far as its index can be read, `rows` how many rows they have."""

    def __init__(self, folder: Path, number: int, dimension: int, dtype: np.dtype[Any]) -> None:
        """Reads the index. Raises InvalidInputError where it is of another shape than the store's."""
        self.number = number
        self.vectors = folder / f"{number:05d}.vectors"
        self.index = folder / f"{number:05d}.index"
        self._dimension, self._dtype = dimension, dtype
        self.frames: list[Frame] = []
        self.rows = 0
        self.dead: set[tuple[int, int]] = set()  # (shard, first row) of batches known to be damaged
        self.torn = ""  # why nothing behind `end` is read: "unfinished", "damaged", "" where nothing is there
        self._map: NDArray[Any] | None = None
        data = mapped(self.index)
        header = HEADER.pack(MAGIC, dimension, dtype.itemsize)
        if data[: len(header)] != header:
            raise InvalidInputError(
                f"{self.index}: not an index of {dimension} x {dtype} vectors.",
                "Delete its folder; what it held is embedded again.",
            )
        self.end = len(header)
        self._read(data)

    def _read(self, data: memoryview) -> None:
        while self.end < len(data):
            head = bytes(data[self.end : self.end + _FRAME.size]).ljust(_FRAME.size, b"\0")
            magic, count, vectors_crc, crc = _FRAME.unpack(head)
            size = count * (KEY.itemsize + _TOKENS.itemsize) if magic == _ROWS else 0
            body = data[self.end + _FRAME.size : self.end + _FRAME.size + size]
            last = not any(data[self.end + _FRAME.size + size :])
            whole = len(body) == size and crc == zlib.crc32(body, zlib.crc32(_FRAME.pack(magic, count, vectors_crc, 0)))
            if not whole and (skipped := self._skipped(data)):
                size, count = skipped
                if count:
                    nothing = np.zeros(count, KEY), np.zeros(count, _TOKENS)
                    self.frames.append(Frame(self.number, self.rows, *nothing, vectors_crc, whole))
                self.rows += count
                self.end += size
                continue
            if magic not in (_ROWS, _DEAD) or len(body) < size or (last and not whole):
                # The beginning of a batch and nothing behind it is what a kill leaves, or, with zeros behind it, a
                # power cut; its vectors were whole before. Anything else is damage, and is left as it is.
                begun = magic.rstrip(b"\0") in (magic[:0], *(m[:n] for m in (_ROWS, _DEAD) for n in range(1, 5)))
                fits = magic != _ROWS or count in (0, self.unlisted())
                self.torn = "unfinished" if begun and fits and (last or len(body) < size) else "damaged"
                return
            if magic == _DEAD and whole:
                self.dead.add((count, vectors_crc))
            elif magic == _ROWS:
                split = count * KEY.itemsize
                keys, tokens = np.frombuffer(body[:split], KEY), np.frombuffer(body[split:], _TOKENS)
                self.frames.append(Frame(self.number, self.rows, keys, tokens, vectors_crc, whole))
                self.rows += count
            self.end += _FRAME.size + size

    def _skipped(self, data: memoryview) -> tuple[int, int] | None:
        """Returns the bytes and the rows of what is damaged at `end`; None where no whole batch is behind it.

        m batches with n rows have 16 m + 36 n bytes; that the next batch's vectors are where it says tells m.
        """
        rest = bytes(data[self.end :])
        row = KEY.itemsize + _TOKENS.itemsize
        at = 0
        while (at := rest.find(_ROWS, at + 1)) > 0 and len(rest) >= at + _FRAME.size:
            magic, count, vectors_crc, crc = _FRAME.unpack_from(rest, at)
            body = rest[at + _FRAME.size : at + _FRAME.size + count * row]
            if not count or crc != zlib.crc32(body, zlib.crc32(_FRAME.pack(magic, count, vectors_crc, 0))):
                continue
            for batches in range(1, at // _FRAME.size + 1):
                rows, left = divmod(at - batches * _FRAME.size, row)
                if not left and self._checksum(self.rows + rows, count) == vectors_crc:
                    return at, rows
        return None

    def _checksum(self, start: int, count: int) -> int:
        """Returns the crc32 of some rows of the file, listed in the index or not."""
        size = self._dimension * self._dtype.itemsize
        data = mapped(self.vectors) if self.vectors.exists() else b""
        return zlib.crc32(data[start * size : (start + count) * size])

    def unlisted(self) -> int:
        """Returns how many whole vectors there are behind those of the index."""
        size = self.vectors.stat().st_size if self.vectors.exists() else 0
        return max(0, size // (self._dimension * self._dtype.itemsize) - self.rows)

    def sound(self, frame: Frame) -> bool:
        """Returns whether a batch is what was written: reads all of its vectors."""
        rows = self.matrix()[frame.start : frame.start + len(frame.keys)]
        return frame.whole and len(rows) == len(frame.keys) and zlib.crc32(rows.data) == frame.vectors_crc

    def matrix(self) -> NDArray[Any]:
        """Returns the rows, mapped into memory; fewer than `rows` where the file has been cut off."""
        size = self.vectors.stat().st_size if self.vectors.exists() else 0
        there = min(self.rows, size // (self._dimension * self._dtype.itemsize))
        if self._map is None or len(self._map) != there:
            data = mapped(self.vectors)[: there * self._dimension * self._dtype.itemsize] if there else b""
            self._map = np.frombuffer(data, self._dtype).reshape(there, self._dimension)
        return self._map

    def append(self, keys: NDArray[np.bytes_], tokens: NDArray[np.uint32], vectors: NDArray[Any]) -> Frame:
        """Writes a batch behind the last one, over what a killed process has left; durable on return."""
        vectors_crc = zlib.crc32(vectors.data)
        body = keys.tobytes() + tokens.astype(_TOKENS).tobytes()
        try:
            write(self.vectors, self.rows * self._dimension * self._dtype.itemsize, vectors.tobytes())
        except OSError as error:
            raise disk_problem(self.vectors, error) from error
        self._append_frame(_ROWS, len(keys), vectors_crc, body)
        added = Frame(self.number, self.rows, keys, tokens, vectors_crc, True)
        self.frames.append(added)
        self.rows += len(keys)
        return added

    def give_up(self, shard: int, start: int) -> None:
        """Keeps that the batch that begins at row `start` of a shard is damaged, and known to be; durable on return."""
        self._append_frame(_DEAD, shard, start, b"")
        self.dead.add((shard, start))

    def _append_frame(self, magic: bytes, count: int, vectors_crc: int, body: bytes) -> None:
        crc = zlib.crc32(body, zlib.crc32(_FRAME.pack(magic, count, vectors_crc, 0)))
        frame = _FRAME.pack(magic, count, vectors_crc, crc) + body
        try:
            write(self.index, self.end, frame)
        except OSError as error:
            raise disk_problem(self.index, error) from error
        self.end += len(frame)
        self.torn = ""


def mapped(file: Path) -> memoryview:
    """Returns a file's content, mapped into memory."""
    with file.open("rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def write(file: Path, at: int, data: bytes) -> None:
    """Writes data at a place, cuts off what is behind it, and waits until it is on the disk."""
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as stream:
        stream.truncate(at)
        stream.seek(at)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_whole(file: Path, data: bytes) -> None:
    """Makes a small file, whole or not at all, and waits until it is on the disk."""
    part = file.with_name(f"{file.name}.part")
    write(part, 0, data)
    part.rename(file)
    handle = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_problem(path: Path, error: OSError) -> EnvironmentProblem:
    """Returns what a disk that refuses means for the user."""
    return EnvironmentProblem(
        f"{path}: the vectors cannot be written: {error.strerror or error}.",
        "Free some room and run it again; what is embedded is kept.",
    )
