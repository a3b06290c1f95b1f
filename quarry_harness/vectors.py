"""Vectors on the disk: appended batch by batch, each batch durable before the next, and mapped into memory to be read.

A store is a folder of one model's vectors:

identity.json    what the vectors depend on: the model's description, dimension and dtype
00000.vectors    rows of float16 or float32, nothing else
00000.index      which batches of rows there are: shards.py
00001.vectors    a shard is closed at SHARD_BYTES and the next one begun

A killed process leaves at most one batch half written at the end; the next one that writes cuts it off. A batch whose
checksum is wrong is told of by `verify`; `find` puts it aside for good, so that its texts are embedded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.shards import HEADER, KEY, MAGIC, UNREADABLE, Shard, disk_problem, write, write_whole
from quarry_harness.types import Check

_LOG = logging.getLogger(__name__)
DTYPES = ("float16", "float32")
SHARD_BYTES = 1 << 30


def key_of(text: str, role: str) -> bytes:
    """Returns the key of a text as a model is given it: a sha256.

    The role is part of it, since some models embed the same text differently as a query and as a document.
    """
    return hashlib.sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest()


class VectorStore:
    """One model's vectors, open to read and to append; no other process has it open. Use as a context manager.

    Rows are numbered through all shards; a number is good as long as the store is open. `dimension` and `dtype` are
    those of the vectors.
    """

    def __init__(self, root: Path, identity: Mapping[str, object], dimension: int, dtype: str) -> None:
        """Opens the store of an identity under a root folder, or begins one.

        identity: everything that could change a vector, fit for JSON. Raises EnvironmentProblem where another process
        has the store open or the disk refuses, InvalidInputError where its files are not of this form.
        """
        self.dimension = dimension
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        document = {"model": dict(identity), "dimension": dimension, "dtype": dtype}
        text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False)
        self.folder = root / _folder_name(text)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / ".lock")
            self._lock.acquire(timeout=0)
        except Timeout:
            raise EnvironmentProblem(
                f"{self.folder}: the vectors are in use by another process.", "Wait until it is done."
            ) from None
        except OSError as error:
            raise disk_problem(self.folder, error) from error
        try:
            self._begin(text + "\n")
            numbers = _numbers(self.folder)
            for file in _without_index(self.folder, numbers):
                _put_aside(file)
            self._shards = [Shard(self.folder, n, dimension, self.dtype) for n in numbers]
            self._load()
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, text: str) -> None:
        file = self.folder / "identity.json"
        try:
            if not file.exists():
                write_whole(file, text.encode())
            found = file.read_text("utf-8")
        except OSError as error:
            raise disk_problem(file, error) from error
        if found != text:
            raise InvalidInputError(
                f"{file}: it has been changed.", "Delete its folder; what it held is embedded again."
            )

    def _load(self) -> None:
        self._frames = [frame for shard in self._shards for frame in shard.frames]
        self._starts = np.cumsum([0, *(len(frame.keys) for frame in self._frames)])
        self._recent: dict[bytes, int] = {}
        self.damaged = 0
        known = {batch for shard in self._shards for batch in shard.dead}
        self._sound = {i: False for i, frame in enumerate(self._frames) if (frame.shard, frame.start) in known}
        for shard in [shard for shard in self._shards if shard.torn == "damaged"]:
            if (shard.number, UNREADABLE) not in known:
                self._open_shard().give_up(shard.number, UNREADABLE)
                _LOG.warning(
                    "%s: damaged; its last %d vectors are left aside and embedded again.", shard.index, shard.unlisted()
                )
        for i, frame in enumerate(self._frames):
            if not frame.whole and i not in self._sound:
                self._give_up(i)
        self._sort()

    def _give_up(self, which: int) -> None:
        frame = self._frames[which]
        self._open_shard().give_up(frame.shard, frame.start)
        self._sound[which] = False
        self.damaged += len(frame.keys)
        place = self._shards[frame.shard].vectors
        _LOG.warning("%s: %d vectors are damaged; they are left aside and embedded again.", place, len(frame.keys))

    def _sort(self) -> None:
        """Makes the index of the batches that are not damaged; of a key that comes twice the last row counts."""
        which = [i for i in range(len(self._frames)) if self._sound.get(i, True)]
        keys = np.concatenate([np.empty(0, KEY), *(self._frames[i].keys for i in which)])
        rows = np.concatenate(
            [np.empty(0, np.int64), *(np.arange(self._starts[i], self._starts[i + 1]) for i in which)]
        )
        order = np.argsort(keys, kind="stable")
        self._keys, self._rows = keys[order], rows[order]

    def __enter__(self) -> VectorStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets other processes have the store."""
        self._lock.release()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Returns the row of each key, -1 where there is none; the batches of what is found are checked, once.

        `damaged` counts the rows found damaged so far.
        """
        self._merge()
        wanted = np.array(keys, dtype=KEY)
        rows = self._look_up(wanted)
        used = np.unique(np.searchsorted(self._starts, rows[rows >= 0], side="right") - 1).tolist()
        bad = [
            i for i in used if i not in self._sound and not self._shards[self._frames[i].shard].sound(self._frames[i])
        ]
        self._sound |= dict.fromkeys(used, True)
        if not bad:
            return rows
        for i in bad:
            self._give_up(i)
        self._sort()
        return self.find(keys)

    def _look_up(self, wanted: NDArray[np.bytes_]) -> NDArray[np.int64]:
        if not len(self._keys):
            return np.full(len(wanted), -1, dtype=np.int64)
        places = np.searchsorted(self._keys, wanted, side="right") - 1
        rows: NDArray[np.int64] = np.where(self._keys[places] == wanted, self._rows[places], -1)
        return rows

    def _merge(self) -> None:
        """Sorts what was appended since into the index."""
        if self._recent:
            keys = np.array(sorted(self._recent), dtype=KEY)
            rows = np.array([self._recent[key] for key in sorted(self._recent)], dtype=np.int64)
            places = np.searchsorted(self._keys, keys, side="right")
            self._keys, self._rows = np.insert(self._keys, places, keys), np.insert(self._rows, places, rows)
            self._recent = {}

    def append(self, keys: Sequence[bytes], tokens: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Keeps a batch: keys, token counts, and vectors of shape (keys, dimension); durable on return.

        Raises EnvironmentProblem where the disk refuses, ValueError for vectors of another shape.
        """
        if vectors.shape != (len(keys), self.dimension) or len(tokens) != len(keys):
            raise ValueError(f"{len(keys)} keys, {len(tokens)} counts and vectors of shape {vectors.shape}")
        if not keys:
            return
        shard = self._open_shard()
        stored = np.ascontiguousarray(vectors, dtype=self.dtype)
        frame = shard.append(np.array(keys, dtype=KEY), np.asarray(tokens, dtype=np.uint32), stored)
        first = len(self)
        self._sound[len(self._frames)] = True
        self._frames.append(frame)
        self._starts = np.append(self._starts, first + len(keys))
        self._recent |= {key: first + i for i, key in enumerate(keys)}

    def _open_shard(self) -> Shard:
        """Returns the shard that is written to, a new one where the last is full or damaged."""
        row_bytes = self.dimension * self.dtype.itemsize
        if self._shards and self._shards[-1].torn != "damaged" and self._shards[-1].rows * row_bytes < SHARD_BYTES:
            return self._shards[-1]
        number = self._shards[-1].number + 1 if self._shards else 0
        try:
            write(self.folder / f"{number:05d}.vectors", 0, b"")
            header = HEADER.pack(MAGIC, self.dimension, self.dtype.itemsize)
            write_whole(self.folder / f"{number:05d}.index", header)
        except OSError as error:
            raise disk_problem(self.folder, error) from error
        self._shards.append(Shard(self.folder, number, self.dimension, self.dtype))
        return self._shards[-1]

    def tokens(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the token count kept with each row."""
        kept = [frame.tokens for frame in self._frames]
        return np.concatenate([np.empty(0, np.uint32), *kept])[rows].astype(np.int64)

    def select(self, rows: NDArray[np.int64]) -> Selection:
        """Returns these rows as a matrix that is read when and as far as it is asked for.

        rows: in ascending order, for then most of it is read without a copy.
        """
        return Selection(self, rows)

    def read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Returns the vectors of these rows, shape (rows, dimension); where they lie side by side, without a copy."""
        starts = np.cumsum([0, *(shard.rows for shard in self._shards)])
        numbers = np.searchsorted(starts, rows, side="right") - 1
        shards = np.unique(numbers).tolist()
        if len(shards) == 1:
            rows, matrix = rows - starts[shards[0]], self._shards[shards[0]].matrix()
            beside = np.all(np.diff(rows) == 1)
            part: NDArray[Any] = matrix[rows[0] : rows[-1] + 1] if beside else matrix[rows]
            return part
        found = np.empty((len(rows), self.dimension), dtype=self.dtype)
        for number in shards:
            here = numbers == number
            found[here] = self._shards[number].matrix()[rows[here] - starts[number]]
        return found


class Selection:
    """Some rows of a store, read as a numpy matrix is: by a slice, or by an array of positions."""

    def __init__(self, store: VectorStore, rows: NDArray[np.int64]) -> None:
        self._store = store
        self._rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dimension)."""
        return len(self._rows), self._store.dimension

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Returns the vectors at a slice or at an array of positions."""
        return self._store.read(self._rows[key])


def verify(root: Path) -> Iterator[Check]:
    """Yields a check of every store under a root folder: every batch is read and compared with its checksum."""
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        name = f"vectors {folder.name}"
        try:
            numbers = _numbers(folder)
            if not numbers and not (folder / "identity.json").exists():
                continue  # a process was killed before it had begun
            identity = (folder / "identity.json").read_text("utf-8")
            if _folder_name(identity.removesuffix("\n")) != folder.name:
                raise ValueError("it has been changed")  # noqa: TRY301 one answer to all that can be wrong with it
            document = json.loads(identity)
            dimension, dtype = int(document["dimension"]), np.dtype(str(document["dtype"]))
            name += f" ({document['model'].get('name', 'unnamed')}, {dtype})"
            shards = [Shard(folder, number, dimension, dtype) for number in numbers]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            yield Check(name, False, f"identity.json cannot be used ({error}); delete the folder")
        except InvalidInputError as error:
            yield Check(name, False, str(error))
        else:
            yield _check_store(name, shards, _without_index(folder, numbers))


def _check_store(name: str, shards: Sequence[Shard], lost: Sequence[Path]) -> Check:
    known = {batch for shard in shards for batch in shard.dead}
    damaged, aside = 0, 0
    for shard in shards:
        for frame in shard.frames:
            if (frame.shard, frame.start) in known:
                aside += len(frame.keys)
            elif not shard.sound(frame):
                damaged += len(frame.keys)
    unread = [s.index.name for s in shards if s.torn == "damaged" and (s.number, UNREADABLE) not in known]
    rows = sum(shard.rows for shard in shards) - aside
    if damaged or unread or lost:
        where = f"; {', '.join(unread)} cannot be read to its end" if unread else ""
        where += f"; {', '.join(file.name for file in lost)} has no index any more" if lost else ""
        return Check(name, False, f"{damaged} of {rows} vectors are damaged{where}; quarry eval makes them again")
    notes = f", {aside} more are damaged and put aside" if aside else ""
    unlisted = sum(shard.unlisted() for shard in shards if shard.torn != "damaged")
    begun = unlisted or any(shard.torn == "unfinished" for shard in shards)
    notes += f", and a batch that was begun does not count ({unlisted} vectors)" if begun else ""
    return Check(name, True, f"{rows} vectors{notes}")


def _numbers(folder: Path) -> list[int]:
    """The shards of a folder: without a gap, since a shard is begun only after the one before it."""
    found = sorted(int(path.stem) for path in folder.glob("*.index") if path.stem.isdigit())
    if found != list(range(len(found))):
        raise InvalidInputError(
            f"{folder}: files are missing; there are the indexes {found}.",
            "Bring them back, or delete the folder; what it held is embedded again.",
        )
    return found


def _without_index(folder: Path, numbers: Sequence[int]) -> list[Path]:
    """The files that have vectors and no index: a shard's index is there before its first vector."""
    files = sorted(path for path in folder.glob("*.vectors") if path.stem.isdigit())
    return [path for path in files if int(path.stem) not in numbers and path.stat().st_size]


def _put_aside(file: Path) -> None:
    """Renames a file that cannot be used, so that nothing writes over it, and says so."""
    aside = file.with_name(f"{file.name}.aside")
    if aside.exists():
        raise InvalidInputError(f"{aside}: it was put aside before.", "Look at it, and delete it if it is of no use.")
    try:
        file.rename(aside)
    except OSError as error:
        raise disk_problem(file, error) from error
    _LOG.warning("%s: its index is missing; it is put aside as %s, what it held is embedded again.", file, aside.name)


def _folder_name(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
